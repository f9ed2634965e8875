"""Errors beside bounds, as tables and as a figure."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from contrastive.bounds.errors import (
    Estimate,
    dropped_errors,
    estimate,
    neg_errors,
    pos_errors,
    slope,
)
from contrastive.bounds.mixture import Mixture, Sample, sample
from contrastive.bounds.theorems import theorem_2_1, theorem_3

# Sizes of the figure.
NEGATIVES = tuple(4**k for k in range(2, 9))
POSITIVES = tuple(4**k for k in range(5))

Errors = Callable[[Sample, int], Tensor]
Bound = Callable[..., float]


class Panel(NamedTuple):
    """One comparison: errors against the number of samples, and the bound meant to hold them."""

    title: str
    axis: str  # "N" or "M"
    sizes: list[int]
    errors: list[Estimate]
    printed: list[float]
    mended: list[float]

    def slope(self) -> float:
        """Of log E|Δ| in the logarithm of the size, without the smallest size."""
        return slope(self.sizes[1:], [e.absolute for e in self.errors[1:]])


def compare(mixture: Mixture, trials: int, generator: torch.Generator) -> list[Panel]:
    """True errors beside the bounds, against N and against M; at most `trials` anchors each."""
    tau, many = mixture.tau_plus, 4**7
    by_n = {n: sample(mixture, n, n, _affordable(n, trials), generator) for n in NEGATIVES}
    by_m = {m: sample(mixture, many, m, _affordable(many, trials), generator) for m in POSITIVES}

    def against_n(title: str, errors: Errors, bound: Bound, m_of: Callable[[int], int]) -> Panel:
        found = [estimate(errors(s, n)) for n, s in by_n.items()]
        limits = [[bound(n, m_of(n), tau, mended=c) for n in by_n] for c in (False, True)]
        return Panel(f"{title}, τ⁺ = {tau:g}", "N", list(by_n), found, *limits)

    def neg(s: Sample, n: int) -> Tensor:
        return neg_errors(s, n, tau)

    by_positives = Panel(
        f"debiased_neg, N = {many}, τ⁺ = {tau:g}",
        "M",
        list(by_m),
        [estimate(neg(s, many)) for s in by_m.values()],
        *([theorem_3(many, m, tau, mended=c) for m in by_m] for c in (False, True)),
    )
    printed, proven = (partial(pos_errors, tau_plus=tau, as_printed=p) for p in (True, False))
    return [
        against_n("debiased_pos, Eqs. 12–14", printed, theorem_2_1, lambda n: 1),
        against_n("debiased_pos, P from draws of p", proven, theorem_2_1, lambda n: 1),
        against_n(
            "debiased_pos, false negatives dropped",
            partial(dropped_errors, tau_plus=tau),
            theorem_2_1,
            lambda n: 1,
        ),
        against_n("debiased_neg, M = N", neg, theorem_3, lambda n: n),
        by_positives,
    ]


def _affordable(n: int, trials: int) -> int:
    return max(min(trials, 2**23 // n), 100)


def report(panel: Panel) -> str:
    """The panel as a table, with the fitted slope and where the bound fails or is loose."""
    lines = [panel.title, f"{panel.axis:>8} {'E|Δ|':>9} {'±':>8} {'|E Δ|':>9} {'±':>8}"
             f" {'printed':>9} {'mended':>9}  bound/error"]  # fmt: skip
    for size, e, printed, mended in zip(
        panel.sizes, panel.errors, panel.printed, panel.mended, strict=True
    ):
        verdict = "VIOLATED" if printed < abs(e.bias) - 4 * e.bias_error else ""
        lines.append(
            f"{size:8d} {e.absolute:9.4f} {e.absolute_error:8.4f} {abs(e.bias):9.4f} "
            f"{e.bias_error:8.4f} {printed:9.4f} {mended:9.4f}  {printed / e.absolute:6.1f}"
            f" {verdict}"
        )
    return "\n".join([*lines, f"slope of log E|Δ| in log {panel.axis}: {panel.slope():.3f}\n"])


def draw(rows: list[list[Panel]], path: Path) -> None:
    """Errors and bounds on log axes, a row of panels for each mixture."""
    from matplotlib.figure import Figure  # only the figure needs it

    figure = Figure(figsize=(4 * len(rows[0]), 3.4 * len(rows)), layout="constrained")
    grid = figure.subplots(len(rows), len(rows[0]), squeeze=False)
    for axes, panel in zip(grid.flat, chain.from_iterable(rows), strict=True):
        values = [e.absolute for e in panel.errors]
        bars = [2 * e.absolute_error for e in panel.errors]
        axes.plot(panel.sizes, panel.printed, "--", color="tab:red", label="bound as printed")
        axes.plot(panel.sizes, panel.mended, ":", color="tab:purple", label="bound, proof mended")
        axes.errorbar(panel.sizes, values, bars, marker="o", ms=4, color="tab:blue",
                      label=f"E|Δ|, slope {panel.slope():.2f}")  # fmt: skip
        axes.set(xscale="log", yscale="log", xlabel=panel.axis, title=panel.title)
        axes.title.set_fontsize(10)
        axes.legend(fontsize=8)
    figure.supylabel("error of the loss (nats)", fontsize=10)
    figure.savefig(path, dpi=120)

"""The distance of a finite batch's loss from its limit, beside the bounds that papers publish.

The papers bound that distance by C·N^{-1/2}. Here are their bounds, as printed and with the errors
of their proofs corrected, beside the true error on data where every expectation is known: clusters
of von Mises-Fisher distributions on the sphere S², for which E exp(xᵀz) has a closed form. As in
the papers, t = 1. `docs/losses.md` describes the results.

    python -m contrastive.bounds --figure bounds.png      # a minute on one core
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

# Hoeffding: P(|mean - E| >= ε) <= 2 exp(-2Nε²/(b - a)²) with b - a = e - 1/e. The papers divide by
# b - a and get e^{3/2} where e (e - 1/e) = e² - 1 comes out.
PRINTED, CORRECTED = math.exp(1.5), math.exp(2) - 1
NUMBERS_AT_ONCE = 2**21

# Sizes of the figure.
NEGATIVES = tuple(4**k for k in range(2, 9))
POSITIVES = tuple(4**k for k in range(5))


def theorem_2_1(n: int, m: int, tau_plus: float, *, corrected: bool = False) -> float:
    """Bound (15) on the error of `debiased_pos`, in nats, in the limit δ -> 0.

        [ (1 + τ⁻/τ⁺) √(π/2N) + (1 + 1/τ⁺) √(π/(2N + 2)) ] e^{3/2}          as printed
        [ (1 + τ⁻/τ⁺) √(π/2N) + (1 + 1/τ⁺) √(π/(2(N + 2))) ] (e² - 1)       corrected

    Source: Troeshestova & Isachenko, Theorem 2.1 and its proof. The corrected form holds for the
    estimator that the proof works with, P from N + 2 draws of p, not for the one of Eqs. 12-14;
    and with the floor of our `debiased_pos` from N = 2/τ⁺ on, without a δ.

    Raises:
        ValueError: n < 1, m != 1, for which alone it is stated, or τ⁺ outside (0, 1).
    """
    _check(n, m, tau_plus, lowest="(0, 1)")
    if m != 1:
        raise ValueError(f"m is {m}; allowed: 1, the theorem is stated for one positive")
    of_p = math.pi / (2 * (n + 2)) if corrected else math.pi / (2 * n + 2)
    constant = CORRECTED if corrected else PRINTED
    ratio = (1 - tau_plus) / tau_plus
    return constant * (
        (1 + ratio) * math.sqrt(math.pi / (2 * n)) + (1 + 1 / tau_plus) * math.sqrt(of_p)
    )


def theorem_3(n: int, m: int, tau_plus: float, *, corrected: bool = False) -> float:
    """Bound (9) on the error of `debiased_neg`, in nats.

        C/τ⁻ √(π/2N) + C τ⁺/τ⁻ √(π/2M),     C = e^{3/2} as printed, e² - 1 corrected

    Source: Chuang et al. 2020, Theorem 3. Its proof in appendix A.3 arrives at twice the printed
    bound; bounding the expectations one by one, not their tails at ε/2, saves that factor.

    Raises:
        ValueError: n < 1, m < 1 or τ⁺ outside [0, 1).
    """
    _check(n, m, tau_plus, lowest="[0, 1)")
    constant = CORRECTED if corrected else PRINTED
    tau_minus = 1 - tau_plus
    of_n, of_m = math.sqrt(math.pi / (2 * n)), math.sqrt(math.pi / (2 * m))
    return constant / tau_minus * (of_n + tau_plus * of_m)


def lemma_1(n: int, m: int, tau_plus: float, *, corrected: bool = False) -> float:
    """By how much, in nats, L_biased may at most fall below what Lemma 1 compares it with.

        L_biased >= L_unbiased + E min(0, log(E⁺h / E⁻h)) - C √(π/2N)

    Returns C √(π/2N); it depends on neither M nor τ⁺. Source: Chuang et al. 2020, Lemma 1.
    """
    _check(n, m, tau_plus, lowest="[0, 1)")
    return (CORRECTED if corrected else PRINTED) * math.sqrt(math.pi / (2 * n))


def _check(n: int, m: int, tau_plus: float, lowest: str) -> None:
    if n < 1 or m < 1:
        raise ValueError(f"n is {n} and m is {m}; allowed: numbers of samples, at least 1")
    if not (0 < tau_plus < 1 or (tau_plus == 0 and lowest == "[0, 1)")):
        raise ValueError(f"tau_plus is {tau_plus}; allowed: a number in {lowest}")


@dataclass(frozen=True)
class Mixture:
    """Equally likely classes on S², each von Mises-Fisher: density ∝ exp(κ μᵀz).

    Args:
        classes: 1/τ⁺, at least 2; their directions μ form a Fibonacci lattice.
        concentration: κ > 0.
    """

    classes: int = 10
    concentration: float = 10.0

    @property
    def tau_plus(self) -> float:
        """τ⁺, the probability that two draws share their class."""
        return 1 / self.classes

    @property
    def directions(self) -> Tensor:
        """(classes, 3) unit vectors μ."""
        k = torch.arange(self.classes, dtype=torch.float64)
        height = 1 - (2 * k + 1) / self.classes
        angle = k * math.pi * (3 - math.sqrt(5))  # the golden angle
        radius = (1 - height**2).sqrt()
        return torch.stack([radius * angle.cos(), radius * angle.sin(), height], dim=-1)

    def draw(self, labels: Tensor, generator: torch.Generator) -> Tensor:
        """One point of the class of each entry of `labels`: (…,) -> (…, 3) float64."""
        u = torch.rand(labels.shape, generator=generator, dtype=torch.float64)
        kappa = self.concentration
        # On S² the cosine with μ has an invertible distribution function.
        cosine = 1 + torch.log(u + (1 - u) * math.exp(-2 * kappa)) / kappa
        mu = self.directions[labels]
        noise = torch.randn(mu.shape, generator=generator, dtype=torch.float64)
        noise -= (noise * mu).sum(-1, keepdim=True) * mu
        noise /= noise.norm(dim=-1, keepdim=True)
        return cosine.unsqueeze(-1) * mu + (1 - cosine**2).clamp_min(0).sqrt().unsqueeze(-1) * noise

    def expected_h(self, x: Tensor) -> Tensor:
        """E exp(xᵀz) over z of each class, exactly: (T, 3) -> (T, classes)."""
        kappa = self.concentration
        r = (kappa * self.directions + x.unsqueeze(1)).norm(dim=-1)
        # The normaliser of the density is κ / (4π sinh κ), and tilting by x gives κμ + x.
        return (r - kappa).exp() * (1 - (-2 * r).exp()) / r * kappa / (1 - math.exp(-2 * kappa))


class Sample(NamedTuple):
    """h = exp(xᵀz) between T anchors x and what was drawn for each, and its expectations."""

    pos: Tensor  # (T,) one positive
    positives: Tensor  # (T,) mean over M further positives
    of_p: Tensor  # (T,) mean over N draws of p
    of_p_minus: Tensor  # (T,) mean over N draws of p⁻, independent of those
    expected_plus: Tensor  # (T,) E⁺h
    expected_minus: Tensor  # (T,) E⁻h


class Estimate(NamedTuple):
    """Monte-Carlo estimates in nats, with standard errors."""

    absolute: float  # E|Δ|, what the proofs bound
    absolute_error: float
    bias: float  # E Δ, whose absolute value the theorems speak of
    bias_error: float


def sample(mixture: Mixture, n: int, m: int, trials: int, generator: torch.Generator) -> Sample:
    """Draw `trials` anchors, and for each of them N + N negatives and 1 + M positives."""
    at_once = max(NUMBERS_AT_ONCE // (6 * n + 3 * m), 1)
    parts = [
        _sample(mixture, n, m, min(at_once, trials - start), generator)
        for start in range(0, trials, at_once)
    ]
    return Sample(*(torch.cat(column) for column in zip(*parts, strict=True)))


def _sample(mixture: Mixture, n: int, m: int, trials: int, generator: torch.Generator) -> Sample:
    label = torch.randint(mixture.classes, (trials, 1), generator=generator)
    x = mixture.draw(label[:, 0], generator)

    def h(labels: Tensor) -> Tensor:
        return (mixture.draw(labels, generator) @ x.unsqueeze(-1)).squeeze(-1).exp()

    of_p = h(torch.randint(mixture.classes, (trials, n), generator=generator)).mean(1)
    other = torch.randint(1, mixture.classes, (trials, n), generator=generator)
    of_p_minus = h((label + other) % mixture.classes).mean(1)
    positives = h(label.expand(trials, m)).mean(1)
    expected = mixture.expected_h(x)
    plus = expected.gather(1, label)[:, 0]
    minus = (expected.sum(1) - plus) / (mixture.classes - 1)
    return Sample(h(label)[:, 0], positives, of_p, of_p_minus, plus, minus)


def pos_errors(s: Sample, n: int, tau_plus: float, *, as_printed: bool) -> Tensor:
    """Δ of `debiased_pos` per anchor: finite N (12) less its limit (11), (T,) nats.

    Args:
        as_printed: P from the same N true negatives, the positive and the anchor (13); otherwise
            from N independent draws of p, which is what the proof of Theorem 2.1 supposes.
    """
    tau_minus = 1 - tau_plus
    p = (n * s.of_p_minus + s.pos + math.e) / (n + 2) if as_printed else s.of_p
    numerator = (p - tau_minus * s.of_p_minus).clamp_min(tau_plus / math.e)
    finite = torch.log1p(n * tau_plus * s.of_p_minus / numerator)
    return finite - torch.log1p(n * s.expected_minus / s.expected_plus)


def neg_errors(s: Sample, n: int, tau_plus: float) -> Tensor:
    """Δ of `debiased_neg` per anchor: finite N and M (8) less its limit (6), (T,) nats."""
    g = ((s.of_p - tau_plus * s.positives) / (1 - tau_plus)).clamp_min(1 / math.e)
    return torch.log1p(n * g / s.pos) - torch.log1p(n * s.expected_minus / s.pos)


def lemma_1_slack(s: Sample, n: int) -> Tensor:
    """L_biased - L_unbiased - min(0, log(E⁺h/E⁻h)) per anchor, (T,); Lemma 1 bounds its mean."""
    biased, unbiased = torch.log1p(n * s.of_p / s.pos), torch.log1p(n * s.of_p_minus / s.pos)
    return biased - unbiased - (s.expected_plus / s.expected_minus).log().clamp_max(0)


def estimate(errors: Tensor) -> Estimate:
    """Mean of |Δ| and of Δ over anchors (T,)."""
    size, root = errors.abs(), math.sqrt(len(errors))
    return Estimate(*(float(v) for v in (size.mean(), size.std() / root, errors.mean(),
                                         errors.std() / root)))  # fmt: skip


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Least-squares slope of log y in log x."""
    a = torch.tensor([x, y], dtype=torch.float64).log()
    dx, dy = (a - a.mean(1, keepdim=True)).unbind()
    return float((dx * dy).sum() / dx.square().sum())


Errors = Callable[[Sample, int], Tensor]
Bound = Callable[..., float]


class Panel(NamedTuple):
    """One comparison: errors against the number of samples, and the bound meant to hold them."""

    title: str
    axis: str  # "N" or "M"
    sizes: list[int]
    errors: list[Estimate]
    printed: list[float]
    corrected: list[float]

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
        limits = [[bound(n, m_of(n), tau, corrected=c) for n in by_n] for c in (False, True)]
        return Panel(f"{title}, τ⁺ = {tau:g}", "N", list(by_n), found, *limits)

    def neg(s: Sample, n: int) -> Tensor:
        return neg_errors(s, n, tau)

    by_positives = Panel(
        f"debiased_neg, N = {many}, τ⁺ = {tau:g}",
        "M",
        list(by_m),
        [estimate(neg(s, many)) for s in by_m.values()],
        *([theorem_3(many, m, tau, corrected=c) for m in by_m] for c in (False, True)),
    )
    printed, proven = (partial(pos_errors, tau_plus=tau, as_printed=p) for p in (True, False))
    return [
        against_n("debiased_pos, Eqs. 12–14", printed, theorem_2_1, lambda n: 1),
        against_n("debiased_pos, P from draws of p", proven, theorem_2_1, lambda n: 1),
        against_n("debiased_neg, M = N", neg, theorem_3, lambda n: n),
        by_positives,
    ]


def _affordable(n: int, trials: int) -> int:
    return max(min(trials, 2**23 // n), 100)


def report(panel: Panel) -> str:
    """The panel as a table, with the fitted slope and where the bound fails or is loose."""
    lines = [panel.title, f"{panel.axis:>8} {'E|Δ|':>9} {'±':>8} {'|E Δ|':>9} {'±':>8}"
             f" {'printed':>9} {'corrected':>9}  bound/error"]  # fmt: skip
    for size, e, printed, corrected in zip(
        panel.sizes, panel.errors, panel.printed, panel.corrected, strict=True
    ):
        verdict = "VIOLATED" if printed < abs(e.bias) - 4 * e.bias_error else ""
        lines.append(
            f"{size:8d} {e.absolute:9.4f} {e.absolute_error:8.4f} {abs(e.bias):9.4f} "
            f"{e.bias_error:8.4f} {printed:9.4f} {corrected:9.4f}  {printed / e.absolute:6.1f}"
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
        axes.plot(panel.sizes, panel.corrected, ":", color="tab:purple", label="bound, corrected")
        axes.errorbar(panel.sizes, values, bars, marker="o", ms=4, color="tab:blue",
                      label=f"E|Δ|, slope {panel.slope():.2f}")  # fmt: skip
        axes.set(xscale="log", yscale="log", xlabel=panel.axis, title=panel.title)
        axes.title.set_fontsize(10)
        axes.legend(fontsize=8)
    figure.supylabel("error of the loss (nats)", fontsize=10)
    figure.savefig(path, dpi=120)


def main(argv: Sequence[str] | None = None) -> None:
    """Print the comparison for τ⁺ = 0.5 and 0.1, and draw it where asked to."""
    parser = argparse.ArgumentParser(prog="python -m contrastive.bounds",
                                     description=__doc__.splitlines()[0])  # fmt: skip
    parser.add_argument("--figure", type=Path, help="where to write the figure (.png, .svg, .pdf)")
    parser.add_argument("--trials", type=int, default=4000, help="most anchors for each N and M")
    parser.add_argument("--seed", type=int, default=0, help="of all draws")
    args = parser.parse_args(argv)
    generator = torch.Generator().manual_seed(args.seed)
    rows = [compare(Mixture(classes), args.trials, generator) for classes in (2, 10)]
    print("\n".join(report(panel) for row in rows for panel in row))
    for classes in (2, 10):
        n = 1024
        slack = estimate(lemma_1_slack(sample(Mixture(classes), n, 1, 2000, generator), n))
        print(
            f"Lemma 1, τ⁺ = {1 / classes:g}, N = {n}: the biased loss lies {slack.bias:.3f} ± "
            f"{slack.bias_error:.3f} above; the lemma allows {lemma_1(n, 1, 0):.3f} below"
        )
    if args.figure:
        draw(rows, args.figure)
        print(f"figure: {args.figure}")


if __name__ == "__main__":
    main()

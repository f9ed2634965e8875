"""The claims under other evaluations of the same trained encoders: exploratory, nothing retrained.

Each claim's difference is computed again from the features that its runs kept, with the kNN and the
linear probes of the field's papers and libraries, and at the last evaluated epochs. Only one
evaluation was declared; a claim about representations should hold under most of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from analysis.inputs import FRACTION, Claim, Metric, Plan
from analysis.inputs.results_table import Results
from analysis.representations import classifiers
from analysis.representations.kept import Features, Kept
from analysis.statistics import Paired, Score, pair, paired_interval
from analysis.verdicts import CONTROLS, Scores

NEIGHBOURS = (1, 10, 20, 100, 200)  # DINO's four, of which Wu et al. and DCL's authors take 200
TEMPERATURES = (0.07, 0.1, 0.5)  # of Wu et al. 2018, of lightly, of DCL's authors
LOGISTIC = (1e-4, 1e-3, 1e-2)  # the built-in workload's own probe has 1e-3
RIDGE = (1e-3, 1e-2, 1e-1)
LAST_EPOCHS = 5  # evaluated ones, that all runs of a claim have

Cell = tuple[str, str]  # arm, condition
BySeed = dict[Any, Score]


class Choice(NamedTuple):
    """One way to evaluate: `kind` is knn, probe or epoch."""

    kind: str
    label: str


def robustness(
    kept: Kept | None, scores: Scores, results: Results, plan: Plan, records: list[dict[str, Any]]
) -> dict[str, Any] | None:
    """Each declared claim under every choice; None where there are no claims or no features.

    Args:
        kept: features of the study's runs; None where there are none.
        scores, results: of the table.
        plan: with the claims.
        records: of the claims' comparisons, in their order.
    """
    if kept is None or not plan.claims or not kept.any:
        return None
    runs = _Runs(kept)
    rows = [
        _claim(claim, record, runs, scores, results, plan)
        for claim, record in zip(plan.claims, records, strict=False)
    ]
    unused = [
        {"arm": arm, "condition": condition, "seed": seed, "why": why}
        for (arm, condition, seed), why in kept.unused.items()
    ]
    return {"claims": rows, "thinned": runs.thinned, "unused": unused}


class _Runs:
    """Accuracies of runs by choice and measure; a run takes part in many claims."""

    def __init__(self, kept: Kept) -> None:
        self._kept = kept
        self._found: dict[tuple[str, str, Any], dict[Choice, dict[str, Fraction]] | None] = {}
        self.thinned: dict[str, list[int]] | None = None  # kept and all images of the two splits

    def of(self, cell: Cell, seed: Any) -> dict[Choice, dict[str, Fraction]] | None:
        """choice -> measure -> accuracy; None without usable features."""
        if (*cell, seed) not in self._found:
            features = self._kept.of(*cell, seed)
            self._found[(*cell, seed)] = None if features is None else evaluate(features)
            if features is not None and features.images != _counts(features):
                self.thinned = {"kept": [*_counts(features)], "images": [*features.images]}
        return self._found[(*cell, seed)]


def evaluate(features: Features) -> dict[Choice, dict[str, Fraction]]:
    """The test accuracies of one run: choice -> measure -> fraction of images or of a class.

    k goes up to the training images of a class: beyond, a vote reaches past the class of every
    query, whatever the representation.
    """
    present = len(np.unique(features.train_labels))
    most = max(1, len(features.train) // present)
    neighbours = [k for k in NEIGHBOURS if k <= most]
    found: dict[Choice, np.ndarray] = {}
    for (k, t), ranked in classifiers.knn(features, neighbours, TEMPERATURES).items():
        # The nearest neighbour alone decides whatever its weight.
        found[Choice("knn", "kNN, k = 1" if k == 1 else f"kNN, k = {k}, t = {t:g}")] = ranked
    for name, probe, penalties in (
        ("logistic probe", classifiers.logistic, LOGISTIC),
        ("ridge probe", classifiers.ridge, RIDGE),
    ):
        for penalty, ranked in probe(features, penalties).items():
            found[Choice("probe", f"{name}, λ = {penalty:g}")] = ranked
    return {choice: _accuracies(ranked, features.test_labels) for choice, ranked in found.items()}


def _accuracies(ranked: np.ndarray, labels: np.ndarray) -> dict[str, Fraction]:
    hits = ranked == labels[:, None]
    total, correct = (np.bincount(part, minlength=labels.max() + 1) for part in
                      (labels, labels[hits[:, 0]]))  # fmt: skip
    return {
        "top1": Fraction(int(hits[:, 0].sum()), len(labels)),
        "top5": Fraction(int(hits.sum()), len(labels)),
        "worst_class": min(
            Fraction(int(c), int(n)) for c, n in zip(correct, total, strict=True) if n
        ),
    }


def measure_of(metric: Metric, plan: Plan) -> str | None:
    """Which accuracy a metric is: top1, top5 or worst_class; None for what is none over a split."""
    name = metric.base
    if plan.meanings.unit(name) != FRACTION or name in CONTROLS or name.count("/") > 1:
        return None
    return next((m for m in ("top5", "worst_class") if name.endswith(m)), "top1")


def _claim(
    claim: Claim,
    record: Mapping[str, Any],
    runs: _Runs,
    scores: Scores,
    results: Results,
    plan: Plan,
) -> dict[str, Any]:
    """One claim's differences under every choice, with their summary."""
    measure = None if claim.metric.window else measure_of(claim.metric, plan)
    about = {
        "claim": claim.id,
        "asks": claim.asks,
        "metric": record["metric"],
        "measure": measure,
        "declared_difference": record["mean_difference"],
        "n_planned": record["n_units"],
    }
    if measure is None:
        early = "it is about early epochs, and features are those after the last one"
        other = "its metric is no accuracy over the test images"
        return about | _summary([], early if claim.metric.window else other)
    cells = [(arm, condition) for arm in (claim.a, claim.b) for condition in claim.conditions]
    found = {seed: [runs.of(cell, seed) for cell in cells] for seed in record["seeds"]}
    seeds = [seed for seed, own in found.items() if None not in own]
    if not seeds:
        return about | _summary([], "no unit has features of all its runs")
    evaluations = [
        *_of_features({seed: found[seed] for seed in seeds}, cells, measure),
        *_of_epochs(cells, seeds, measure, scores, results, plan),
    ]
    rows = []
    for choice, by_cell in evaluations:
        if measure != "top5" or choice.label != "kNN, k = 1":  # which ranks one class only
            paired = _paired(claim, by_cell, scores)
            rows.append(_row(choice, paired, claim.asks, plan.margin))
    return about | _summary(rows) | {"n_units": paired.n}


def _of_features(
    found: Mapping[Any, list], cells: list[Cell], measure: str
) -> Iterator[tuple[Choice, dict[Cell, BySeed]]]:
    """The choices that the features of all runs allow, with the scores of each cell."""
    every = [own for of_seed in found.values() for own in of_seed]
    for choice in every[0]:
        if all(choice in own for own in every):
            yield choice, {
                cell: {seed: own[i][choice][measure] for seed, own in found.items()}
                for i, cell in enumerate(cells)
            }  # fmt: skip


def _of_epochs(
    cells: list[Cell], seeds: list, measure: str, scores: Scores, results: Results, plan: Plan
) -> Iterator[tuple[Choice, dict[Cell, BySeed]]]:
    """The last evaluated epochs of curves of the same measure; of early windows there are none."""
    final = set(results.final["metric"])
    for metric in results.curves["metric"].unique():
        # A training's own accuracy is no evaluation, and test curves end before the training.
        if metric in final or metric.startswith("train") or not plan.meanings.direction(metric):
            continue
        if measure_of(Metric(metric, metric), plan) != measure:
            continue
        own = results.curves[results.curves["metric"] == metric]
        own = own[own["seed"].isin(seeds)]
        epochs = [
            set(own.loc[(own["arm"] == arm) & (own["condition"] == c), "epoch"]) for arm, c in cells
        ]
        for epoch in sorted(e for e in set.intersection(*epochs) if e > 0)[-LAST_EPOCHS:]:
            at = Metric(f"{metric}@{epoch:g}", metric, (epoch, epoch))
            by_cell = {cell: scores.of(*cell, at) for cell in cells}
            if all(seed in own for own in by_cell.values() for seed in seeds):
                sign = plan.meanings.sign(metric)  # of errors the opposite: higher is better
                yield Choice("epoch", f"{metric} at epoch {epoch:g}"), {
                    cell: {seed: sign * own[seed] for seed in seeds}
                    for cell, own in by_cell.items()
                }  # fmt: skip


def _paired(claim: Claim, by_cell: Mapping[Cell, BySeed], scores: Scores) -> Paired:
    """Scores of both arms by unit; of an interaction what the second condition changes."""
    sides = []
    for arm in (claim.a, claim.b):
        first, *rest = (by_cell[arm, condition] for condition in claim.conditions)
        sides.append({s: rest[0][s] - v for s, v in first.items()} if rest else first)
    return pair(*(list(scores.by_unit(side).values()) for side in sides))


def _row(choice: Choice, paired: Paired, asks: str, margin: float | None) -> dict[str, Any]:
    """One claim under one choice; `holds` is about the mean, `surely` about its interval."""
    mean = float(paired.d.mean())
    low, high = paired_interval(paired) or (None, None)
    if asks == "equivalent":
        holds = margin is not None and abs(mean) < margin
        surely = holds and low is not None and max(-low, high) < margin
    else:
        holds = mean > 0
        surely = low is not None and low > 0
    return {
        **choice._asdict(),
        "mean_difference": mean,
        "ci_low": low,
        "ci_high": high,
        "holds": holds,
        "surely": surely,
    }


def _summary(rows: list[dict[str, Any]], reason: str | None = None) -> dict[str, Any]:
    """In how many choices a claim holds, and between which differences."""
    order = sorted(rows, key=lambda row: row["mean_difference"])
    return {
        "choices": len(rows),
        "holds": sum(row["holds"] for row in rows),
        "surely": sum(row["surely"] for row in rows),
        "least": order[0] if order else None,
        "largest": order[-1] if order else None,
        "reason": reason,
        "rows": rows,
    }


def _counts(features: Features) -> tuple[int, int]:
    return len(features.train), len(features.test)

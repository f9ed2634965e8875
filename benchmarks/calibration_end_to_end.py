"""Do the verdicts of whole studies keep what they promise? From the YAML file to the verdict.

Runs the study of response_surface.yaml, whose truth is known, under many master seeds: samplers,
early stopping, winners, replicates, confirmation, tables, report. Prints the two tables of
docs/statistics.md, each rate with its Monte Carlo error. A study takes about a second.

    python -m benchmarks.calibration_end_to_end [--studies 140] [--seed 1] [--only verdicts]
        [--keep FILE]

With --keep, a run that was cut short continues where it was. Left out, since no verdict depends on
it: Ray (trainings run here, one after the other), MLflow, Optuna's database (in memory instead),
the importance of settings, the report's page and figures.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import math
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from statsmodels.stats.proportion import proportion_confint

import study
from analysis.rendering import Report
from benchmarks.response_surface import SEED_SD, quality
from study.design.seeds import derive
from study.execution import worker
from study.phases import replicates, search
from study.reporting import study_report
from tests.in_process import without_ray

FILE = Path(__file__).with_name("response_surface.yaml")
EFFECT = 0.028  # of profile `effect`: two sds between the seeds of a paired difference
# `relief` of the surface, by the sd of the winners' true differences over that between seeds.
RELIEF = {0: 0.0, 1: 0.01, 2: 0.025}


@dataclass(frozen=True)
class Design:
    """How an arm's trainings are divided, and what there is to be found.

    With one replicate the seeds are the unit, as in studies before there were replicates. With
    `effect` all claims are true; without, all arms are the same and none is.
    """

    replicates: int
    trials: int
    seeds: int
    ratio: int = 1
    effect: bool = False
    arms: int = 5

    def __str__(self) -> str:
        seeds = f"{self.seeds} seed{'s' * (self.seeds > 1)}"
        if self.replicates == 1:
            return f"one search of {self.trials} trials, {seeds}"
        return f"{self.replicates} replicates of {self.trials} trials and {seeds}"

    @property
    def truth(self) -> float:
        """The methods' difference in every claim."""
        return EFFECT if self.effect else 0.0

    def overrides(self, seed: int) -> list[str]:
        """As `--set` takes them; `seed` is the study's."""
        others = "bcde"[: self.arms - 1]
        claims = [f"{{id: {b.upper()}, better: {b}, than: a, metric: test/score}}" for b in others]
        found = [
            f"search.seed={seed}",
            f"search.replicates={self.replicates}",
            f"search.trials_per_arm={self.trials}",
            f"trial.relief={RELIEF[self.ratio]}",
            f"confirm.seeds={self.seeds}",
            f"claims=[{', '.join(claims)}]",
        ]
        found += [f"arms.{b}=null" for b in "bcde" if b not in others]
        if self.replicates == 1:
            seeds = [derive(seed, "one search", i) % 2**31 for i in range(self.seeds)]
            found += ["scope=configuration", f"confirm.seeds={seeds}"]
        return found


BEFORE, NOW = Design(1, 6, 8), Design(8, 6, 1)
EQUAL_COST = [  # 48 trainings of each of two arms
    Design(*split, effect=True, arms=2)
    for split in ((6, 7, 1), (8, 5, 1), (8, 4, 2), (12, 3, 1), (16, 2, 1), (1, 24, 24))
]


@contextlib.contextmanager
def in_memory() -> Iterator[None]:
    """Run studies in this process, without what no verdict depends on."""
    load = functools.cache(worker.load_workload)
    with pytest.MonkeyPatch.context() as patch:
        without_ray(patch)
        # It looks before every training whether the function's file has changed: 15 ms.
        patch.setattr(worker, "load_workload", lambda name, beside, _: load(name, beside))
        for room in (search, replicates):
            patch.setattr(room, "open_storage", lambda _: optuna.storages.InMemoryStorage())
        patch.setattr(study_report, "importances", lambda *_: {})
        patch.setattr(Report, "save", _save_numbers)
        yield


def _save_numbers(report: Report, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    (out / "report.json").write_text(json.dumps(report))


def run(design: Design, seed: int) -> dict[str, Any]:
    """One study, from its file to its verdicts; call it under `in_memory`.

    Returns:
        `claims`: verdict, mean_difference, ci_low and ci_high of each; `luck`: by how much the true
        difference of two winners misses that of their methods, for each claim and replicate;
        `epochs`: trained, all arms together.
    """
    with tempfile.TemporaryDirectory() as storage:
        found = study.run_study(
            FILE,
            profile="effect" if design.effect else None,
            overrides=design.overrides(seed),
            storage=storage,
            quiet=True,
        )
        report = json.loads((found.folder / "report" / "report.json").read_text())
        epochs = int(found.runs["epochs"].sum())
        winners = json.loads((found.folder / "winners.json").read_text())["winners"]
    compared = {c["claim"]: c for c in report["comparisons"] if c["claim"]}
    numbers = ("mean_difference", "ci_low", "ci_high")
    claims = [
        {"verdict": claim["verdict"]} | {key: compared[claim["id"]][key] for key in numbers}
        for claim in report["claims"]
    ]
    parts = [winners] if design.replicates == 1 else list(winners.values())
    fixed = {arm: found.study.fixed(arm, "default") for arm in found.study.arms}
    luck = [
        quality(fixed[b] | won[b]) - quality(fixed["a"] | won["a"])
        for won in parts
        for b in "bcde"[: design.arms - 1]
        if won["a"] and won[b]  # a search whose trials all diverge has no winner
    ]
    return {"claims": claims, "luck": luck, "epochs": epochs}


class Studies:
    """Runs studies, or takes them from a file that has a line for each one that was run before."""

    def __init__(self, seed: int, file: Path | None = None) -> None:
        self._seed, self._file = seed, file
        lines = file.read_text().splitlines() if file and file.exists() else []
        self._known = {json.dumps(line["of"]): line for line in map(json.loads, lines)}

    def of(self, design: Design, count: int) -> list[dict[str, Any]]:
        """So many studies of a design, each from a seed of its own."""
        return [self._one(design, number) for number in range(count)]

    def _one(self, design: Design, number: int) -> dict[str, Any]:
        of = [*astuple(design), self._seed, number]
        key = json.dumps(of)
        if key not in self._known:
            self._known[key] = {"of": of} | run(design, derive(self._seed, key) % 2**31)
            if self._file:
                with self._file.open("a") as kept:
                    kept.write(json.dumps(self._known[key]) + "\n")
        return self._known[key]


@dataclass(frozen=True)
class Rate:
    """A share, with the 95 % interval of its Monte Carlo error."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


def coverage(studies: Sequence[dict], truth: float) -> list[float]:
    """For each study the share of its intervals that hold the methods' true difference."""
    return [float(np.mean([_holds(c, truth) for c in s["claims"]])) for s in studies]


def rerun(studies: Sequence[dict]) -> list[float]:
    """For each two studies the share of intervals that hold the other one's estimate."""
    found = []
    for one, other in zip(studies[::2], studies[1::2], strict=False):
        both = zip(one["claims"], other["claims"], strict=True)
        held = [_holds(x, y["mean_difference"]) for a, b in both for x, y in ((a, b), (b, a))]
        found.append(float(np.mean(held)))
    return found


def supported(studies: Sequence[dict]) -> list[float]:
    """For each study the share of its claims that are supported."""
    return [float(np.mean([c["verdict"] == "supported" for c in s["claims"]])) for s in studies]


def decided(studies: Sequence[dict]) -> list[bool]:
    """Whether a study has supported or refuted any claim; without an effect it is then wrong."""
    return [any(c["verdict"] in ("supported", "refuted") for c in s["claims"]) for s in studies]


def _holds(claim: dict, value: float) -> bool:
    return claim["ci_low"] <= value <= claim["ci_high"]


def mean_rate(shares: Sequence[float]) -> Rate:
    """Their mean; claims of one study are not independent, so its studies make the error."""
    mean, error = float(np.mean(shares)), float(np.std(shares, ddof=1) / math.sqrt(len(shares)))
    return Rate(mean, max(0.0, mean - 1.96 * error), min(1.0, mean + 1.96 * error))


def exact_rate(outcomes: Sequence[bool]) -> Rate:
    """The share of independent outcomes, with the exact binomial interval."""
    low, high = proportion_confint(sum(outcomes), len(outcomes), method="beta")
    return Rate(float(np.mean(outcomes)), float(low), float(high))


def luck_ratio(studies: Sequence[dict]) -> float:
    """The sd of winners' true differences, over that of paired scores between seeds."""
    search_sd = np.sqrt(np.mean(np.square(np.concatenate([s["luck"] for s in studies]))))
    return float(search_sd / (math.sqrt(2) * SEED_SD))


def verdicts_table(studies: Studies, count: int) -> None:
    """Print both designs at each ratio: `count` studies without an effect, half as many with it."""
    print(
        "| Luck of the search / of the seed | Design | Coverage of the methods' difference |"
        " False claims, family-wise | A rerun's estimate in the interval | Power |"
    )
    print("|---:|---|---:|---:|---:|---:|")
    for ratio in RELIEF:
        for design in (BEFORE, NOW):
            null = replace(design, ratio=ratio)
            effect = replace(null, effect=True)
            same, better = studies.of(null, count), studies.of(effect, count // 2)
            cells = [
                f"{luck_ratio(same + better):.2f}",
                str(design),
                mean_rate(coverage(same, null.truth) + coverage(better, effect.truth)),
                exact_rate(decided(same)),
                mean_rate(rerun(same) + rerun(better)),
                mean_rate(supported(better)),
            ]
            print(f"| {' | '.join(map(str, cells))} |", flush=True)


def equal_cost_table(studies: Studies, count: int) -> None:
    """Print six ways to spend 48 trainings of an arm, on one true claim."""
    print(
        "| 48 trainings of each arm | Their epochs | Luck of the search / of the seed | Power |"
        " Half the interval, in effects | Coverage of the methods' difference |"
    )
    print("|---|---:|---:|---:|---:|---:|")
    for design in EQUAL_COST:
        found = studies.of(design, count)
        halves = [(c["ci_high"] - c["ci_low"]) / 2 / EFFECT for s in found for c in s["claims"]]
        cells = [
            str(design),
            f"{np.mean([s['epochs'] for s in found]) / design.arms:.0f}",
            f"{luck_ratio(found):.2f}",
            exact_rate([share > 0 for share in supported(found)]),
            f"{np.mean(halves):.2f}",
            exact_rate([share > 0 for share in coverage(found, design.truth)]),
        ]
        print(f"| {' | '.join(map(str, cells))} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--studies", type=int, default=140, help="at least 4")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=["verdicts", "designs"], help="one table alone")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="of the studies that are done")
    given = parser.parse_args()
    began, studies = time.process_time(), Studies(given.seed, given.keep)
    with in_memory():
        if given.only != "designs":
            verdicts_table(studies, given.studies)
            print()
        if given.only != "verdicts":
            equal_cost_table(studies, given.studies)
            print()
    spent = (time.process_time() - began) / 60
    print(f"{given.studies} studies, seed {given.seed}; {spent:.0f} minutes of one core.")


if __name__ == "__main__":
    main()

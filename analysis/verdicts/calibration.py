"""Calibration: the error rates of the verdicts on simulated studies whose truth is known.

Their tables pass through the checks, tests, correction and verdicts of a real report. Counted are
false claims under the null, coverage of intervals, power beside theory.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from statsmodels.stats.power import TTestPower
from statsmodels.stats.proportion import proportion_confint

from analysis.inputs import read_plan
from analysis.inputs.results_table import read_results
from analysis.statistics.curve_bands import max_t, simultaneous_band
from analysis.verdicts import comparisons
from analysis.verdicts.pairing import Scores

ARMS = ("a", "b", "c")
METRIC = "test/knn_top1"
CHANCE = 0.1
SEED_SD = 0.02  # what a seed adds to every arm: it makes the scores correlate within a seed
RUN_SD = 0.01  # what is left for every run


@dataclass(frozen=True)
class Scenario:
    """How a simulated study's scores come about.

    Attributes:
        name: as shown in the table.
        seeds: n of the study.
        d_z: true effect of arm c against arms a and b, in sds of the paired differences.
        noise: normal, or t3 for Student's t with 3 degrees of freedom scaled to the same sd.
        test_images: 0 leaves scores continuous; otherwise they are counts out of so many.
        failures: chance that a run breaks down, whatever its arm.
    """

    name: str
    seeds: int = 8
    d_z: float = 0.0
    noise: str = "normal"
    test_images: int = 0
    failures: float = 0.0


SCENARIOS = (
    Scenario("A/A, normal"),
    Scenario("A/A, ties (100 test images)", test_images=100),
    Scenario("A/A, heavy tails (t, 3 df)", noise="t3"),
    Scenario("A/A, 5 % of runs break down", failures=0.05),
    Scenario("A/A, 5 seeds", seeds=5),
    Scenario("A/A, 12 seeds", seeds=12),
    Scenario("effect d_z = 1.5", d_z=1.5),
    Scenario("effect d_z = 1.0, 12 seeds", d_z=1.0, seeds=12),
)


def simulate(scenario: Scenario, *, studies: int, seed: int) -> dict[str, object]:
    """Rates over so many studies of one scenario, each with its Monte Carlo error.

    Returns:
        `false_claims`: share of studies with at least one false better, worse (family-wise);
        `coverage`: share of 95 % intervals with the true difference inside; `power`: share of
        true effects found, beside `power_theory`, the paired t test's at α over the family's size
        (Bonferroni, which max-T is above). Each has `_low` and `_high`, an exact 95 %
        interval of the Monte Carlo error. None where the scenario has no such rate.
    """
    rng = np.random.default_rng(seed)
    plan = read_plan(_plan(scenario))
    rules = comparisons.Rules(alpha=plan.alpha, margin=None, chance=CHANCE, metrics=plan.meanings)
    contrasts = comparisons.contrasts_of_claims(plan)
    truths = [_truth(contrast, scenario) for contrast in contrasts]
    false = covered = intervals = found = effects = 0
    for _ in range(studies):
        scores = Scores(read_results(_table(scenario, rng)), plan.seeds)
        records = comparisons.compare(
            scores, contrasts, rules, declared=True, ids=[c.id for c in plan.claims]
        )
        wrong = False
        for record, truth in zip(records, truths, strict=True):
            decided = record["verdict"] in ("better", "worse")
            wrong |= decided and (truth == 0 or (record["verdict"] == "better") != (truth > 0))
            if truth:
                effects += 1
                found += record["verdict"] == ("better" if truth > 0 else "worse")
            if record["ci_low"] is not None:
                intervals += 1
                covered += record["ci_low"] <= truth <= record["ci_high"]
        false += wrong
    theory = TTestPower().power(scenario.d_z, scenario.seeds, plan.alpha / len(contrasts))
    return {
        "scenario": scenario.name,
        "studies": studies,
        **_rate("false_claims", false, studies),
        **_rate("coverage", covered, intervals),
        **_rate("power", found, effects),
        "power_theory": float(theory) if scenario.d_z else None,
    }


def _plan(scenario: Scenario) -> dict:
    pairs = [("a", "b"), ("a", "c"), ("b", "c")]
    return {
        "arms": {arm: {} for arm in ARMS},
        "confirm": {"seeds": list(range(scenario.seeds)), "metrics": [METRIC]},
        "claims": [
            {"id": f"C{i}", "better": b, "than": a, "metric": METRIC}
            for i, (a, b) in enumerate(pairs)
        ],
    }


def _table(scenario: Scenario, rng: np.random.Generator) -> pd.DataFrame:
    n, k = scenario.seeds, len(ARMS)
    shape = (n, k)
    noise = rng.standard_normal(shape)
    if scenario.noise == "t3":
        noise = rng.standard_t(3, shape) / np.sqrt(3)  # the variance of t with 3 df is 3
    scores = 0.7 + SEED_SD * rng.standard_normal((n, 1)) + RUN_SD * noise
    scores[:, ARMS.index("c")] += _shift(scenario)
    frame = pd.DataFrame(
        {
            "arm": np.tile(ARMS, n),
            "seed": np.repeat(np.arange(n), k),
            "metric": METRIC,
            "value": np.clip(scores, 0, 1).ravel(),
        }
    )
    if scenario.test_images:
        correct = np.round(frame["value"] * scenario.test_images)
        frame = frame.assign(
            value=correct / scenario.test_images, correct=correct, total=scenario.test_images
        )
    if scenario.failures:
        broken = rng.random(len(frame)) < scenario.failures
        frame["status"] = np.where(broken, "diverged", "finished")
        frame.loc[broken, "value"] = np.nan
    return frame


def _shift(scenario: Scenario) -> float:
    # A difference of two runs of one seed has sd √2·RUN_SD.
    return scenario.d_z * np.sqrt(2) * RUN_SD


def _truth(contrast, scenario: Scenario) -> float:
    return _shift(scenario) * ((contrast.b == "c") - (contrast.a == "c"))


def _rate(name: str, count: int, of: int) -> dict[str, float | None]:
    if not of:
        return {name: None, f"{name}_low": None, f"{name}_high": None}
    low, high = proportion_confint(count, of, method="beta")
    return {name: float(count / of), f"{name}_low": float(low), f"{name}_high": float(high)}


@dataclass(frozen=True)
class Luck:
    """A simulated study of five tuned arms, four of them claimed to be above the first.

    Attributes:
        ratio: sd between searches over sd between seeds, of the paired differences.
        replicates, seeds: independent searches, and confirmation seeds of each winner; with one
            replicate the seeds are the unit, as in a study of configurations.
        effect: true difference of every claim, in sds between seeds.
    """

    ratio: float
    replicates: int = 8
    seeds: int = 1
    effect: float = 0.0


def simulate_methods(luck: Luck, *, studies: int, seed: int) -> dict[str, object]:
    """Rates on the difference of methods, which averages over searches and seeds.

    Returns:
        `coverage` of the true difference by the 95 % interval; `false_claims`, family-wise, where
        `effect` is 0; `rerun`: share of intervals that hold the estimate of an independent rerun;
        `power`, where it is not. Each with the exact interval of its Monte Carlo error.
    """
    rng = np.random.default_rng(seed)
    arms = [f"m{i}" for i in range(5)]
    claims = [{"id": arm, "better": arm, "than": "m0", "metric": METRIC} for arm in arms[1:]]
    plan = read_plan(
        {"arms": {arm: {} for arm in arms}, "confirm": {"metrics": [METRIC]}, "claims": claims}
    )
    scope = "method" if luck.replicates > 1 else "configuration"
    rules = comparisons.Rules(plan.alpha, None, CHANCE, plan.meanings, scope=scope)
    contrasts = comparisons.contrasts_of_claims(plan)
    truth = luck.effect * np.sqrt(2) * RUN_SD
    wrong = covered = held = found = 0
    for _ in range(studies):
        frame, rerun = (_replicated_table(luck, arms, rng) for _ in range(2))
        again = rerun.groupby("arm")["value"].mean()
        scores = Scores(read_results(frame))
        records = comparisons.compare(scores, contrasts, rules, declared=True, ids=arms[1:])
        verdicts = [r["verdict"] for r in records]
        found += verdicts.count("better")
        wrong += any(v in ("better", "worse") for v in verdicts)
        for r in records:
            covered += r["ci_low"] <= truth <= r["ci_high"]
            held += r["ci_low"] <= again[r["b"]] - again[r["a"]] <= r["ci_high"]
    null, intervals = luck.effect == 0, studies * len(contrasts)
    return {
        "ratio": luck.ratio,
        "replicates": luck.replicates,
        "seeds": luck.seeds,
        **_rate("coverage", covered, intervals),
        **_rate("false_claims", wrong, studies if null else 0),
        **_rate("rerun", held, intervals),
        **_rate("power", found, 0 if null else intervals),
    }


def _replicated_table(luck: Luck, arms: list[str], rng: np.random.Generator) -> pd.DataFrame:
    shape = (luck.replicates, luck.seeds, len(arms))
    scores = 0.7 + RUN_SD * rng.standard_normal(shape)
    scores += SEED_SD * rng.standard_normal(shape[:2])[:, :, None]
    scores += luck.ratio * RUN_SD * rng.standard_normal((shape[0], 1, shape[2]))
    scores[:, :, 1:] += luck.effect * np.sqrt(2) * RUN_SD
    r, s, arm = np.indices(shape)
    return pd.DataFrame(
        {
            "arm": np.array(arms)[arm.ravel()],
            "replicate": r.ravel() + 1,
            "seed": (r * luck.seeds + s).ravel(),
            "metric": METRIC,
            "value": scores.ravel(),
        }
    )


def simulate_curves(*, seeds: int, epochs: int, studies: int, seed: int) -> dict[str, object]:
    """Simultaneous coverage of bands and family-wise errors of max-T on null difference curves.

    Differences follow an AR(1) process over epochs (correlation 0.8) whose sd halves by the end.
    """
    rng = np.random.default_rng(seed)
    spread = RUN_SD * np.linspace(1, 0.5, epochs)
    covered = rejected = 0
    for _ in range(studies):
        steps = rng.standard_normal((seeds, epochs))
        curves = np.empty_like(steps)
        curves[:, 0] = steps[:, 0]
        for epoch in range(1, epochs):
            curves[:, epoch] = 0.8 * curves[:, epoch - 1] + 0.6 * steps[:, epoch]
        curves *= spread
        low, high = simultaneous_band(curves, seed=seed)
        covered += all(a <= 0 <= b for a, b in zip(low, high, strict=True))
        rejected += bool((max_t(curves, seed=seed) <= 0.05).any())
    return {
        "scenario": f"null curves, {seeds} seeds, {epochs} epochs",
        "studies": studies,
        **_rate("band_coverage", covered, studies),
        **_rate("max_t_errors", rejected, studies),
    }

"""When do learning curves differ, and which bands hold for whole curves?

Bands are simultaneous: 95 % of them contain the whole true curve. Differences of curves are tested
by max-T, which flips the sign of a seed's whole curve at once; stars per epoch are never given.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
from scipy import stats
from sklearn.covariance import ledoit_wolf

from analysis.metric import Metric, higher_is_better
from analysis.plan import Plan
from analysis.scores import Scores
from analysis.statistics import CONFIDENCE, RNG_SEED, pair, paired_interval, sign_flip
from analysis.table import Results

COST_METRICS = ("seconds", "views", "flops")
MAX_T_EXACT = 12  # pairs; above, sign patterns are sampled
MAX_T_RESAMPLES = 9_999
MOST_CORRELATED = 250  # epochs; longer curves get Bonferroni's wider band
BAND_DRAWS = 2_000
BAND_BATCH = 100  # draws held at once: 100 × 20 seeds × 1,000 epochs are 16 MB
MOST_PAIRS = 10  # pairs of arms whose curves are tested without a plan, per condition


def curves(results: Results, plan: Plan, arms: list[str], conditions: list[str]) -> list[dict]:
    """One entry per curve metric and condition: each arm's mean and band, each pair's max-T test.

    Only epochs that every run of an arm has are used; broken runs are not in the table at all.
    """
    metrics = [m for m in pd.unique(results.curves["metric"]) if m not in COST_METRICS]
    tested = _tested_metrics(plan, metrics)
    entries = []
    for metric in metrics:
        for condition in conditions:
            tables = {arm: curve_table(results, arm, condition, metric) for arm in arms}
            tables = {arm: table for arm, table in tables.items() if table is not None}
            if not tables:
                continue
            entries.append(
                {
                    "metric": metric,
                    "condition": condition,
                    "higher_is_better": higher_is_better(metric),
                    "x": "epoch",
                    "arms": [_arm(arm, table) for arm, table in tables.items()],
                    "pairs": _pairs(tables, plan, condition, metric) if metric in tested else [],
                }
            )
    return entries


def curve_table(results: Results, arm: str, condition: str, metric: str) -> pd.DataFrame | None:
    """(n seeds, E epochs) of one arm's curve; epochs that a run lacks are left out."""
    frame = results.curves
    own = frame[
        (frame["arm"] == arm) & (frame["condition"] == condition) & (frame["metric"] == metric)
    ]
    if own.empty:
        return None
    return own.pivot(index="seed", columns="epoch", values="value").dropna(axis=1)


def simultaneous_band(
    curves: np.ndarray, level: float = CONFIDENCE, *, seed: int = RNG_SEED
) -> tuple[list[float | None], list[float | None]]:
    """Lower and upper limits that hold for all epochs of a mean curve at once.

    mean ± c·se, with c the quantile of max |t| over epochs, found by drawing normal curves with
    the correlation of these ones; never wider than Bonferroni's. At one epoch it is the t interval.
    Source: Hothorn, Bretz & Westfall 2008, section 3. Departures: every epoch has its own sd in the
    draws, and the correlation is shrunk (Ledoit & Wolf 2004), since n seeds cannot tell E × E
    numbers: with their plug-in and a common sd the bands covered 0.80 at n = 8, E = 50.

    Args:
        curves: (n, E), n >= 2 seeds. Epochs without spread get None.
    """
    n = len(curves)
    mean = curves.mean(axis=0)
    spread = np.ptp(curves, axis=0) > 1e-12 * np.maximum(1, np.abs(mean))
    if n < 2 or not spread.any():
        return [None] * len(mean), [None] * len(mean)
    moving = curves[:, spread]
    half = np.full(len(mean), np.nan)
    half[spread] = _critical_t(moving, level, seed) * stats.sem(moving, axis=0)
    return _optional(mean - half), _optional(mean + half)


def _critical_t(curves: np.ndarray, level: float, seed: int) -> float:
    n, epochs = curves.shape
    bonferroni = float(stats.t.ppf(1 - (1 - level) / (2 * epochs), n - 1))
    if epochs == 1 or epochs > MOST_CORRELATED:
        return bonferroni
    standard = (curves - curves.mean(axis=0)) / curves.std(axis=0, ddof=1)
    covariance = ledoit_wolf(standard, assume_centered=True)[0]
    scale = np.sqrt(np.diag(covariance))
    root = np.linalg.cholesky(covariance / np.outer(scale, scale) + 1e-9 * np.eye(epochs))
    rng = np.random.default_rng(seed)
    largest = []
    for _ in range(BAND_DRAWS // BAND_BATCH):
        draws = rng.standard_normal((BAND_BATCH, n, epochs)) @ root.T
        t = np.sqrt(n) * draws.mean(axis=1) / draws.std(axis=1, ddof=1)
        largest.append(np.abs(t).max(axis=1))
    return min(bonferroni, float(np.quantile(np.concatenate(largest), level)))


def max_t(differences: np.ndarray, *, seed: int = RNG_SEED) -> np.ndarray:
    """Simultaneous p per epoch of paired difference curves, adjusted over all epochs.

    Each seed's whole curve keeps or flips its sign. A curve's sum over the root of its sum of
    squares is a monotone function of |t| that flips leave comparable between epochs, so its
    maximum is max |t|. Source: Westfall & Young 1993, section 2.6.

    Args:
        differences: (n, E) b - a per seed and epoch.

    Returns:
        (E,) p-values; 1 where all differences are 0.
    """
    n = len(differences)
    norms = np.sqrt((differences**2).sum(axis=0))
    scaled = differences / np.where(norms > 0, norms, 1)  # (n, E)

    def largest(signs: np.ndarray, axis: int) -> np.ndarray:
        return np.abs(np.moveaxis(signs, axis, -1) @ scaled).max(axis=-1)

    exact = n <= MAX_T_EXACT
    result = stats.permutation_test(
        (np.ones(n),),
        largest,
        permutation_type="samples",
        n_resamples=np.inf if exact else MAX_T_RESAMPLES,
        batch=1024,
        vectorized=True,
        alternative="greater",
        rng=np.random.default_rng(seed),
    )
    observed = np.abs(scaled.sum(axis=0))
    null = np.sort(result.null_distribution)
    reached = len(null) - np.searchsorted(null, observed - 1e-9)
    return reached / len(null) if exact else (reached + 1) / (len(null) + 1)


def early_minus_late(scores: Scores, record: dict, metric: Metric, last_epoch: int) -> dict | None:
    """How much larger the difference is in the declared window than at the last epoch.

    "Faster, not better" needs this above 0 besides the curve claim itself. Descriptive: it takes
    no part in the correction.
    """
    end = Metric(f"{metric.base}@{last_epoch}", metric.base, (last_epoch, last_epoch))
    cells = [
        scores.of(record[arm], record["condition"], which)
        for which in (metric, end)
        for arm in ("a", "b")
    ]
    seeds = [s for s in record["seeds"] if all(s in cell for cell in cells)]
    early, late = ([cells[i + 1][s] - cells[i][s] for s in seeds] for i in (0, 2))
    paired = pair(late, early)
    if paired.degenerate:
        return None
    low, high = paired_interval(paired)
    return {
        "last_epoch": last_epoch,
        "mean_difference": float(paired.d.mean()),
        "ci_low": low,
        "ci_high": high,
        "p_value": sign_flip(paired.d_int)[0],
    }


def last_epoch(results: Results, metric: str) -> int | None:
    """The last epoch that every run has for this metric."""
    own = results.curves[results.curves["metric"] == metric]
    if own.empty:
        return None
    return int(own.groupby(["arm", "condition", "seed"])["epoch"].max().min())


def _tested_metrics(plan: Plan, metrics: list[str]) -> list[str]:
    claimed = [c.metric.base for c in plan.claims if c.metric.window]
    return [m for m in metrics if m in claimed] or [
        m for m in metrics if m.startswith(("val", "test")) or len(metrics) == 1
    ]


def _arm(arm: str, table: pd.DataFrame) -> dict:
    values = table.to_numpy()
    low, high = simultaneous_band(values)
    return {
        "arm": arm,
        "n": len(values),
        "epochs": [float(e) for e in table.columns],
        "mean": [float(m) for m in values.mean(axis=0)] if values.size else [],
        "low": low,
        "high": high,
    }


def _pairs(tables: dict, plan: Plan, condition: str, metric: str) -> list[dict]:
    chosen = [
        (c.a, c.b)
        for c in plan.claims
        if c.metric.base == metric and c.metric.window and condition in c.conditions
    ]
    declared = bool(chosen)
    if not chosen and not any(c.metric.window for c in plan.claims):
        chosen = list(combinations(tables, 2))[:MOST_PAIRS]
    rows = []
    for a, b in dict.fromkeys(chosen):
        if a not in tables or b not in tables:
            continue
        seeds = tables[a].index.intersection(tables[b].index, sort=False)
        epochs = tables[a].columns.intersection(tables[b].columns)
        if len(seeds) < 3 or not len(epochs):
            continue
        d = (tables[b].loc[seeds, epochs] - tables[a].loc[seeds, epochs]).to_numpy().round(12)
        low, high = simultaneous_band(d)
        rows.append(
            {
                "a": a,
                "b": b,
                "declared": declared,
                "n": len(d),
                "epochs": [float(e) for e in epochs],
                "mean_difference": [float(x) for x in d.mean(axis=0)],
                "low": low,
                "high": high,
                "p_max_t": [float(p) for p in max_t(d)],
                "method": "exact" if len(d) <= MAX_T_EXACT else "monte_carlo",
            }
        )
    return rows


def _optional(values: np.ndarray) -> list[float | None]:
    return [float(v) if np.isfinite(v) else None for v in values]

"""The record of one comparison, in the shape of report.json.

It holds the evidence that decides and the secondary numbers beside it. Nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from statsmodels.stats.contingency_tables import mcnemar

from analysis.statistics import (
    Paired,
    bootstrap_interval,
    effects,
    equivalence_p,
    power,
    secondary,
    split_variance,
)
from analysis.verdicts.families import (
    AT_LEAST_MARGIN,
    AT_LEAST_MINUS_MARGIN,
    AT_LEAST_ZERO,
    AT_MOST_MARGIN,
    AT_MOST_MINUS_MARGIN,
    AT_MOST_ZERO,
    Null,
    Outcome,
)
from analysis.verdicts.pairing import Contrast, Pairs
from analysis.verdicts.rules import Verdict


@dataclass(frozen=True)
class Facts:
    """What the data say on one comparison.

    `ci` is the paired-t interval, `together` the simultaneous one, `tested` has the comparison's
    hypotheses of the family.
    """

    paired: Paired
    invalid: str | None
    p_value: float | None
    method: str | None
    ci: tuple[float, float] | None
    together: tuple[float, float] | None
    tested: Mapping[Null, Outcome]


def record_of(
    contrast: Contrast,
    pairs: Pairs,
    facts: Facts,
    verdict: Verdict,
    margin: float | None,
    rules,
    family_size: int,
) -> dict:
    paired = facts.paired
    found = effects(paired)
    sd = float(paired.d.std(ddof=1)) if paired.n > 1 else None
    sd_search, sd_seed = _spread(pairs, paired, sd)
    detectable = power.minimum_detectable_effect(paired.n, family_size, rules.alpha)
    return {
        "a": contrast.a,
        "b": contrast.b,
        "condition": contrast.label,
        "metric": contrast.metric.text,
        "kind": contrast.kind,
        "better": rules.metrics.direction(contrast.metric.base),
        "unit": rules.metrics.unit(contrast.metric.base),
        "n_units": paired.n,
        "n_pairs": paired.n,
        "units": pairs.units,
        "seeds": pairs.seeds,
        "differences": [float(x) for x in paired.d],
        "dropped": pairs.dropped,
        "mean_difference": float(paired.d.mean()) if paired.n else None,
        "mean_changes": _mean_changes(contrast, paired),
        "sd_difference": sd,
        "sd_search": sd_search,
        "sd_seed": sd_seed,
        "ci_low": facts.ci[0] if facts.ci else None,
        "ci_high": facts.ci[1] if facts.ci else None,
        "simultaneous_ci": list(facts.together) if facts.together else [None, None],
        "p_value": facts.p_value,
        "p_method": facts.method,
        "p_min": power.smallest_p(paired.n),
        **_adjusted(contrast.asks, facts.tested),
        "p_tost": None if margin is None or facts.invalid else equivalence_p(paired, margin),
        "decided_at": max((t.at for t in facts.tested.values() if t.at), default=None),
        "hypotheses": [
            {"null": _spelled(null, margin), "statistic": t.statistic, "p_adjusted": t.p_adjusted,
             "fell": t.fell, "at": t.at}
            for null, t in facts.tested.items()
        ],
        "margin": margin,
        **secondary(paired, margin, seed=rules.seed),
        **found,
        "bootstrap_ci": bootstrap_interval(paired.d, seed=rules.seed) if facts.ci else None,
        "minimum_detectable_difference": detectable * sd if detectable and sd else None,
        "units_for_margin": (
            power.seeds_for(margin / sd, family_size, rules.alpha) if margin and sd else None
        ),
        "failures": _failures(pairs, contrast),
        "verdict": verdict.verdict,
        "reason": verdict.reason,
        "within_margin": verdict.within_margin,
    }  # fmt: skip


def _mean_changes(contrast: Contrast, paired: Paired) -> list[float] | None:
    """What going from one condition to the other does to the scores of arm a, and of arm b."""
    if contrast.kind != "interaction" or not paired.n:
        return None
    return [float(paired.a.mean()), float(paired.b.mean())]


def broke(pairs: Pairs) -> bool:
    """Whether any run of the comparison broke down."""
    return any(pairs.broke.values())


def _adjusted(asks: str | None, tested: Mapping[Null, Outcome]) -> dict[str, float | None]:
    """The p-values of the hypotheses by the answer that each would give.

    A claim is supported where `p_supports` is at most α, refuted where `p_refutes` is;
    `p_adjusted` is the smaller one, and without a claim that of any difference.
    `p_tost_adjusted` is the larger one of θ ≤ -δ and θ ≥ δ, which equivalence takes both.
    """
    p = {null: t.p_adjusted for null, t in tested.items()}
    smallest = lambda *nulls: min((p[null] for null in nulls if null in p), default=None)  # noqa: E731
    inside = [p[null] for null in (AT_MOST_MINUS_MARGIN, AT_LEAST_MARGIN) if null in p]
    tost = max(inside) if len(inside) == 2 else None
    if asks == "equivalent":
        supports, refutes = tost, smallest(AT_MOST_MARGIN, AT_LEAST_MINUS_MARGIN)
    elif asks:
        supports, refutes = p.get(AT_MOST_ZERO), p.get(AT_LEAST_MARGIN)
    else:
        supports = refutes = None
    either = [x for x in (supports, refutes) if x is not None]
    return {
        "p_adjusted": min(either) if asks and either else smallest(AT_MOST_ZERO, AT_LEAST_ZERO),
        "p_supports": supports,
        "p_refutes": refutes,
        "p_tost_adjusted": tost,
    }


def _spelled(null: Null, margin: float | None) -> str:
    side, margins = null
    edge = margins * (margin or 0)
    return f"θ {side} {edge:g}".replace("-", "−")


def _spread(pairs: Pairs, paired: Paired, sd: float | None) -> tuple[float | None, float | None]:
    """sd between searches and between seeds; a single search shows that between seeds only."""
    if pairs.units == pairs.seeds:
        return None, sd
    return split_variance(np.asarray(paired.d), pairs.within)


def _failures(pairs: Pairs, contrast: Contrast) -> dict | None:
    """How many runs of each arm broke down, and McNemar's exact p that they do so alike."""
    if not broke(pairs):
        return None
    a, b = (pairs.broke[arm] & set(pairs.tried) for arm in (contrast.a, contrast.b))
    both, n = len(a & b), len(pairs.tried)
    table = [[n - len(a | b), len(b - a)], [len(a - b), both]]
    return {
        "tried": n,
        "a": len(pairs.broke[contrast.a]),
        "b": len(pairs.broke[contrast.b]),
        "p_mcnemar": float(mcnemar(table, exact=True).pvalue) if (a ^ b) else 1.0,
    }

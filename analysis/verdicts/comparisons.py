"""The comparisons of arms: one for each declared claim, and exploratory ones for all other pairs.

Every declared claim is one comparison in one family; all other pairs of arms form a second,
exploratory family. Both are corrected by Holm's method within themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

from statsmodels.stats.contingency_tables import mcnemar

from analysis.inputs import FRACTION, Metric, Metrics, Plan
from analysis.statistics import (
    RNG_SEED,
    Paired,
    bootstrap_interval,
    effects,
    equivalence_p,
    holm,
    pair,
    paired_interval,
    power,
    secondary,
    sign_flip,
)
from analysis.verdicts.pairing import Contrast, Pairs, Scores
from analysis.verdicts.rules import Evidence, Verdict, answer, judge

POOLED = "pooled"
# Scores of the encoder before training: a control, not a contestant.
CONTROLS = ("test/untrained_knn_top1",)


@dataclass(frozen=True)
class Rules:
    """What is the same for every comparison of a report.

    `alpha` is the level after division by the planned looks; `margin` applies to declared claims
    and to accuracies (or to the only metric there is); `metrics` has the direction of every metric
    that is compared.
    """

    alpha: float
    margin: float | None
    chance: float | None
    metrics: Metrics
    unplanned_looks: bool = False
    exploratory: bool = False
    seed: int = RNG_SEED


def contrasts_of_claims(plan: Plan) -> list[Contrast]:
    """One contrast per declared claim, in the plan's order."""
    return [
        Contrast(c.a, c.b, c.metric, c.kind, c.conditions, " → ".join(c.conditions))
        for c in plan.claims
    ]


def other_contrasts(
    arms: list[str], conditions: list[str], metrics: list[str], declared: list[Contrast]
) -> list[Contrast]:
    """All ordered pairs (b later than a), per condition and pooled, that no claim declares."""
    rows = [((c,), c) for c in conditions]
    if len(conditions) > 1:
        label = POOLED if POOLED not in conditions else f"({POOLED})"
        rows.append((tuple(conditions), label))
    taken = {
        (frozenset((d.a, d.b)), d.metric.text, d.conditions)
        for d in declared
        if d.kind == "difference"
    }
    return [
        Contrast(a, b, Metric(metric, metric), "difference", where, label)
        for metric in metrics
        for where, label in rows
        for a, b in combinations(arms, 2)
        if (frozenset((a, b)), metric, where) not in taken
    ]


def compare(
    scores: Scores, contrasts: list[Contrast], rules: Rules, *, declared: bool, ids: list[str]
) -> list[dict]:
    """Compare one family: one record per contrast, in the shape of report.json.

    Args:
        ids: the claims' ids, or empty for the exploratory family.
    """
    pairs = [scores.pairs(c) for c in contrasts]
    margins = [_margin(c, contrasts, rules, declared) for c in contrasts]
    facts = [_facts(p, m, rules) for p, m in zip(pairs, margins, strict=True)]
    verdicts, adjusted, tost = _judge_family(contrasts, facts, rules)

    # The same family with every broken run scored at chance; verdicts must stay the same.
    rescored = [
        _facts(scores.pairs(c, chance=rules.chance), m, rules)
        if rules.chance is not None and _broke(p)
        else f
        for c, p, m, f in zip(contrasts, pairs, margins, facts, strict=True)
    ]
    at_chance = _judge_family(contrasts, rescored, rules)[0]

    records = []
    for i, contrast in enumerate(contrasts):
        verdict, sensitivity = _sensitivity(verdicts[i], at_chance[i], rescored[i], pairs[i], rules)
        if rules.unplanned_looks and verdict.verdict != "invalid":
            verdict = Verdict("undecided", "unplanned_looks")
        records.append(
            _record(contrast, pairs[i], facts[i], verdict, margins[i], rules, len(contrasts))
            | {
                "declared": declared,
                "claim": ids[i] if ids else None,
                "p_adjusted": adjusted[i],
                "p_tost_adjusted": tost[i],
                "family_size": len(contrasts),
                "sensitivity": sensitivity,
                "exploratory": not declared or rules.exploratory or rules.unplanned_looks,
            }
        )
    return records


def answers(plan: Plan, comparisons: list[dict]) -> list[dict]:
    """Each claim's answer from its comparison; sentences are added by `analysis.wording`."""
    by_claim = {c["claim"]: c for c in comparisons if c["claim"] is not None}
    found = []
    for claim in plan.claims:
        record = by_claim[claim.id]
        verdict = Verdict(record["verdict"], record["reason"], record["within_margin"])
        found.append(
            {
                "id": claim.id,
                "asks": claim.asks,
                "verdict": answer(claim.asks, verdict),
                "reason": record["reason"],
                "exploratory": record["exploratory"],
            }
        )
    return found


@dataclass(frozen=True)
class _Facts:
    paired: Paired
    invalid: str | None
    p_value: float | None
    method: str | None
    ci: tuple[float, float] | None
    p_tost: float | None


def _facts(pairs: Pairs, margin: float | None, rules: Rules) -> _Facts:
    paired = pair(pairs.a, pairs.b)
    invalid = pairs.flaw or paired.degenerate
    if invalid:
        return _Facts(paired, invalid, None, None, None, None)
    p_value, method = sign_flip(paired.d_int, seed=rules.seed)
    p_tost = None if margin is None else equivalence_p(paired, margin)
    return _Facts(paired, None, p_value, method, paired_interval(paired), p_tost)


def _judge_family(contrasts, facts, rules):
    adjusted = holm([f.p_value for f in facts], rules.alpha)
    in_tost = [i for i, f in enumerate(facts) if f.p_tost is not None or f.invalid]
    tost: list[float | None] = [None] * len(facts)
    if any(f.p_tost is not None for f in facts):
        for i, p in zip(in_tost, holm([facts[i].p_tost for i in in_tost]), strict=True):
            tost[i] = p
    verdicts = []
    for contrast, fact, p, p_tost in zip(contrasts, facts, adjusted, tost, strict=True):
        sign = rules.metrics.sign(contrast.metric.base)
        evidence = Evidence(
            n=fact.paired.n,
            gain=None if fact.invalid else sign * float(fact.paired.d.mean()),
            ci_low=fact.ci[0] if fact.ci else None,
            ci_high=fact.ci[1] if fact.ci else None,
            p_value=fact.p_value,
            p_adjusted=p,
            p_tost_adjusted=p_tost if fact.p_tost is not None else None,
            invalid=fact.invalid,
        )
        verdicts.append(judge(evidence, alpha=rules.alpha, family_size=len(contrasts)))
    return verdicts, adjusted, tost


def _sensitivity(
    verdict: Verdict, at_chance: Verdict, rescored: _Facts, pairs: Pairs, rules: Rules
):
    """The verdict, undecided where it depends on how broken runs are scored, and the comparison."""
    if not _broke(pairs):
        return verdict, None
    known = rules.chance is not None
    agree = known and at_chance.verdict == verdict.verdict
    sensitivity = {
        "pairwise_complete": verdict.verdict,
        "scored_at_chance": at_chance.verdict if known else None,
        "chance": rules.chance,
        "agree": agree,
        "mean_difference": float(rescored.paired.d.mean()) if known and rescored.paired.n else None,
        "reason": None if known else "no chance level was given (--chance)",
    }
    settled = verdict.verdict in ("better", "worse", "equivalent")
    if agree or verdict.verdict == "invalid" or not (known or settled):
        return verdict, sensitivity
    return Verdict("undecided", "missing_sensitive"), sensitivity


def _record(
    contrast: Contrast,
    pairs: Pairs,
    facts: _Facts,
    verdict: Verdict,
    margin: float | None,
    rules: Rules,
    family_size: int,
) -> dict:
    paired = facts.paired
    found = effects(paired)
    further = secondary(paired, margin, seed=rules.seed)
    sd = float(paired.d.std(ddof=1)) if paired.n > 1 else None
    detectable = power.minimum_detectable_effect(paired.n, family_size, rules.alpha)
    return {
        "a": contrast.a,
        "b": contrast.b,
        "condition": contrast.label,
        "metric": contrast.metric.text,
        "kind": contrast.kind,
        "better": rules.metrics.direction(contrast.metric.base),
        "unit": rules.metrics.unit(contrast.metric.base),
        "n_pairs": paired.n,
        "seeds": pairs.seeds,
        "differences": [float(x) for x in paired.d],
        "dropped": pairs.dropped,
        "mean_difference": float(paired.d.mean()) if paired.n else None,
        "sd_difference": sd,
        "ci_low": facts.ci[0] if facts.ci else None,
        "ci_high": facts.ci[1] if facts.ci else None,
        "p_value": facts.p_value,
        "p_method": facts.method,
        "p_min": power.smallest_p(paired.n),
        "p_tost": facts.p_tost,
        "margin": margin,
        **further,
        **found,
        "bootstrap_ci": bootstrap_interval(paired.d, seed=rules.seed) if facts.ci else None,
        "minimum_detectable_difference": detectable * sd if detectable and sd else None,
        "seeds_needed": power.seeds_for(found["dz"], family_size, rules.alpha),
        "seeds_for_margin": (
            power.seeds_for(margin / sd, family_size, rules.alpha) if margin and sd else None
        ),
        "failures": _failures(pairs, contrast),
        "verdict": verdict.verdict,
        "reason": verdict.reason,
        "within_margin": verdict.within_margin,
    }


def _failures(pairs: Pairs, contrast: Contrast) -> dict | None:
    """How many runs of each arm broke down, and McNemar's exact p that they do so alike."""
    if not _broke(pairs):
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


def _broke(pairs: Pairs) -> bool:
    return any(pairs.broke.values())


def _margin(contrast, family, rules, declared) -> float | None:
    if rules.margin is None or declared:
        return rules.margin
    alone = len({c.metric.base for c in family}) == 1
    fraction = rules.metrics.unit(contrast.metric.base) == FRACTION
    return rules.margin if alone or fraction else None

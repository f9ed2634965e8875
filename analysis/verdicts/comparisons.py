"""The comparisons of arms: one for each declared claim, and exploratory ones for all other pairs.

Every declared claim is one comparison in one family; all other pairs of arms form a second,
exploratory family. Each family is tested as a whole (`analysis.verdicts.families`).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

from analysis.inputs import FRACTION, Metric, Metrics, Plan
from analysis.statistics import (
    RNG_SEED,
    Paired,
    holm,
    pair,
    paired_interval,
    power,
    sign_flip,
)
from analysis.statistics.max_t import simultaneous_interval
from analysis.verdicts.families import Question, decide_family
from analysis.verdicts.pairing import Contrast, Pairs, Scores
from analysis.verdicts.records import Facts, broke, record_of
from analysis.verdicts.rules import Evidence, Verdict, answer, judge

POOLED = "pooled"
# Scores of the encoder before training: a control, not a contestant.
CONTROLS = ("test/untrained_knn_top1",)


@dataclass(frozen=True)
class Rules:
    """What is the same for every comparison of a report.

    `alpha` is the family-wise level (over all looks, where `looks` lists them in units); `margin`
    applies to declared claims and to accuracies (or to the only metric there is), and as `chance`
    to no cost; `metrics` has the direction of every metric that is compared; `scope` is
    what claims are about.
    """

    alpha: float
    margin: float | None
    chance: float | None
    metrics: Metrics
    scope: str = "configuration"
    correction: str = "max_t"
    looks: tuple[int, ...] = ()
    unplanned_looks: bool = False
    exploratory: bool = False
    seed: int = RNG_SEED


def contrasts_of_claims(plan: Plan) -> list[Contrast]:
    """One contrast per declared claim, in the plan's order."""
    return [
        Contrast(c.a, c.b, c.metric, c.kind, c.conditions, " → ".join(c.conditions), c.asks)
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
    # Planned looks are those of the claims; what was not declared is tested on what there is.
    looks = rules.looks if declared else ()
    facts = _family(contrasts, pairs, margins, rules, looks)
    verdicts = [_judge(c, f, m, rules, len(contrasts)) for c, f, m in
                zip(contrasts, facts, margins, strict=True)]  # fmt: skip

    # The same family with every broken run scored at chance; verdicts must stay the same.
    rescored, at_chance = facts, verdicts
    if rules.chance is not None and any(broke(p) for p in pairs):
        again = [
            scores.pairs(c, chance=rules.chance) if broke(p) and not _is_cost(c, rules) else p
            for c, p in zip(contrasts, pairs, strict=True)
        ]
        rescored = _family(contrasts, again, margins, rules, looks)
        at_chance = [_judge(c, f, m, rules, len(contrasts)) for c, f, m in
                     zip(contrasts, rescored, margins, strict=True)]  # fmt: skip

    by_holm = holm([f.p_value for f in facts], rules.alpha)
    records = []
    for i, contrast in enumerate(contrasts):
        chance = None if _is_cost(contrast, rules) else rules.chance
        verdict, sensitivity = _sensitivity(
            verdicts[i], at_chance[i], rescored[i], pairs[i], chance
        )
        if rules.scope == "method" and scores.unit != "replicate" and verdict.verdict != "invalid":
            verdict = Verdict("undecided", "one_search")
        elif rules.unplanned_looks and verdict.verdict != "invalid":
            verdict = Verdict("undecided", "unplanned_looks")
        records.append(
            record_of(contrast, pairs[i], facts[i], verdict, margins[i], rules, len(contrasts))
            | {
                "declared": declared,
                "claim": ids[i] if ids else None,
                "asks": contrast.asks,
                "scope": rules.scope,
                "unit_of_analysis": scores.unit,
                "p_holm": by_holm[i],
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
                "within_margin": record["within_margin"],
                "scope": record["scope"],
                "exploratory": record["exploratory"],
            }
        )
    return found


def _family(contrasts, pairs: list[Pairs], margins, rules: Rules, looks) -> list[Facts]:
    paired = [pair(p.a, p.b) for p in pairs]
    questions = [
        Question(
            asks=c.asks,
            paired=own,
            units=p.units,
            sign=rules.metrics.sign(c.metric.base),
            margin=margin,
            invalid=p.flaw or _flaw(c, own, rules),
        )
        for c, p, own, margin in zip(contrasts, pairs, paired, margins, strict=True)
    ]
    tested = decide_family(
        questions, alpha=rules.alpha, correction=rules.correction, looks=looks, seed=rules.seed
    )
    found = []
    for question, nulls in zip(questions, tested, strict=True):
        own = question.paired
        if question.invalid:
            found.append(Facts(own, question.invalid, None, None, None, None, nulls))
            continue
        p_value, method = sign_flip(own.d_int, seed=rules.seed)
        together = simultaneous_interval(own.d, len(contrasts), rules.alpha)
        found.append(Facts(own, None, p_value, method, paired_interval(own), together, nulls))
    return found


def _judge(contrast: Contrast, facts: Facts, margin, rules: Rules, family_size: int) -> Verdict:
    high = None
    if facts.together:
        higher = rules.metrics.sign(contrast.metric.base) > 0
        high = facts.together[1] if higher else -facts.together[0]
    times = family_size if rules.correction == "holm" else 1
    evidence = Evidence(
        asks=contrast.asks,
        tested=facts.tested,
        high=high,
        margin=margin,
        can_reach=times * power.smallest_p(facts.paired.n) <= rules.alpha,
        invalid=facts.invalid,
    )
    return judge(evidence)


def _is_cost(contrast: Contrast, rules: Rules) -> bool:
    return rules.metrics.is_cost(contrast.metric.base)


def _flaw(contrast: Contrast, paired: Paired, rules: Rules) -> str | None:
    """Why no test applies; a cost such as views may well differ by the same in every unit."""
    flaw = paired.degenerate
    return None if flaw == "zero_variance" and _is_cost(contrast, rules) else flaw


def _sensitivity(
    verdict: Verdict, at_chance: Verdict, rescored: Facts, pairs: Pairs, chance: float | None
):
    """The verdict, undecided where it depends on how broken runs are scored, and the comparison."""
    if not broke(pairs):
        return verdict, None
    known = chance is not None
    agree = known and at_chance.verdict == verdict.verdict
    sensitivity = {
        "pairwise_complete": verdict.verdict,
        "scored_at_chance": at_chance.verdict if known else None,
        "chance": chance,
        "agree": agree,
        "mean_difference": float(rescored.paired.d.mean()) if known and rescored.paired.n else None,
        "reason": None if known else "no chance level was given (--chance)",
    }
    settled = verdict.verdict not in ("undecided", "invalid")
    if agree or verdict.verdict == "invalid" or not (known or settled):
        return verdict, sensitivity
    return Verdict("undecided", "missing_sensitive"), sensitivity


def _margin(contrast, family, rules, declared) -> float | None:
    if rules.margin is None or (declared and not _is_cost(contrast, rules)):
        return rules.margin
    if _is_cost(contrast, rules):
        return None
    alone = len({c.metric.base for c in family}) == 1
    fraction = rules.metrics.unit(contrast.metric.base) == FRACTION
    return rules.margin if alone or fraction else None

"""Tables of accuracy against cost, and of the time to a threshold."""

from __future__ import annotations

from analysis.tables.table import NONE, Table, cost, interval, table
from analysis.wording import after_score, score


def trade_off(records: list[dict], metric: str | None) -> Table:
    """The rows of one metric; the CSV has those of all."""
    return table(
        "trade_off",
        "cost",
        "Score and cost of a run",
        "Cost is what a whole confirmation run spent. Front: no other arm scores at least as well"
        " for at most the cost, by means. Other metrics: tables/trade_off.csv.",
        [r for r in records if r["metric"] == metric],
        ("Arm", lambda r: r["arm"]),
        ("Condition", lambda r: r["condition"]),
        ("Metric", lambda r: r["metric"]),
        ("#Score", lambda r: score(r["mean"], r["unit"]) + after_score(r["unit"])),
        (
            "#95 % interval",
            lambda r: interval(r["ci_low"], r["ci_high"], lambda v: score(v, r["unit"])),
        ),
        ("Unit of cost", lambda r: r["cost_unit"]),
        ("#Cost", lambda r: cost(r["cost"])),
        (
            "#95 % interval of cost",
            lambda r: interval(r["cost_ci_low"], r["cost_ci_high"], cost, r["reason"]),
        ),
        ("Front", lambda r: "yes" if r["pareto"] else "no"),
        raw=records,
    )


def time_to(records: list[dict]) -> Table:
    return table(
        "time_to",
        "cost",
        "Cost to a threshold",
        "Kaplan-Meier median over seeds of the cost at which the threshold was first reached; runs"
        " that never did are censored at their end. The threshold is the lowest of the arms' mean"
        " scores at the end: read off these data, so exploratory. … is a limit that is open"
        " or not defined.",
        records,
        ("Arm", lambda r: r["arm"]),
        ("Condition", lambda r: r["condition"]),
        ("Metric", lambda r: r["metric"]),
        ("#Threshold", lambda r: score(r["threshold"], r["unit"]) + after_score(r["unit"])),
        ("#Reached", lambda r: f"{r['reached']} of {r['n']}"),
        ("Unit of cost", lambda r: r["cost_unit"]),
        ("#Median", lambda r: cost(r["median"]) if r["reason"] is None else r["reason"]),
        (
            "#95 % interval",
            lambda r: (
                NONE
                if r["median"] is None
                else f"{cost(r['ci_low'], '…')} to {cost(r['ci_high'], '…')}"
            ),
        ),
    )

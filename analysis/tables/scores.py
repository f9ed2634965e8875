"""Tables of the arms' scores, by arm and by seed."""

from __future__ import annotations

from collections.abc import Mapping

from analysis.tables.links import Link, run_anchors
from analysis.tables.table import Table, interval, table
from analysis.wording import after_score, difference, number, p_number, score

ARMS_PER_TABLE = 6  # that fit side by side on paper


def arms(records: list[dict], seeds_at: Mapping[str, str]) -> Table:
    """Means, each leading to the table of its metric's seeds."""
    return table(
        "arms",
        "tables",
        "Scores per arm",
        "Means over seeds with 95 % t intervals; accuracies in percent. IQM: mean of the middle"
        " half, from 4 seeds.",
        records,
        ("Arm", lambda a: a["arm"]),
        ("Condition", lambda a: a["condition"]),
        ("Metric", lambda a: a["metric"]),
        ("#n", lambda a: str(a["n"])),
        (
            "#Mean",
            lambda a: Link(
                score(a["mean"], a["unit"]) + after_score(a["unit"]), seeds_at[a["metric"]]
            ),
        ),
        (
            "#95 % interval",
            lambda a: interval(
                a["ci_low"], a["ci_high"], lambda v: score(v, a["unit"]), a["reason"]
            ),
        ),
        ("#sd", lambda a: score(a["sd"], a["unit"])),
        ("#Median", lambda a: score(a["median"], a["unit"])),
        ("#IQM", lambda a: score(a["iqm"], a["unit"])),
    )


def seeds(records: list[dict], arms: list[str], runs: list[dict]) -> list[Table]:
    """Scores of every run, a table per metric and a few arms; each leads to the run's row."""
    anchors = run_anchors(runs)
    found = []
    for metric in dict.fromkeys(a["metric"] for a in records):
        for start in range(0, len(arms), ARMS_PER_TABLE):
            some = arms[start : start + ARMS_PER_TABLE]
            own = [a for a in records if a["metric"] == metric and a["arm"] in some]
            if own:
                found.append(_seeds(len(found) + 1, metric, some, own, anchors))
    return found


def _seeds(number: int, metric: str, arms: list[str], records: list[dict], anchors: dict) -> Table:
    points = [
        {"arm": a["arm"], "condition": a["condition"], "metric": metric, "seed": s, "value": v}
        for a in records
        for s, v in zip(a["seeds"], a["values"], strict=True)
    ]
    unit, rows = records[0]["unit"], {}
    for p in points:
        rows.setdefault((p["condition"], p["seed"]), {})[p["arm"]] = p["value"]

    def cell(row: tuple, arm: str) -> str:
        (condition, seed), shown = row, score(rows[row].get(arm), unit)
        anchor = anchors.get((arm, condition, str(seed)))
        return Link(shown, f"#{anchor}") if anchor and arm in rows[row] else shown

    return table(
        f"seeds-{number}",
        "tables",
        f"Scores of every seed: {metric}"
        + (f", in{after_score(unit)}" if after_score(unit) else ""),
        "A row is a pairing: the same seed, data order and draws in every arm."
        + (" Each score leads to the row of its run." if anchors else ""),
        list(rows),
        ("Condition", lambda row: row[0]),
        ("#Seed", lambda row: str(row[1])),
        *[("#" + arm, lambda row, arm=arm: cell(row, arm)) for arm in arms],
        raw=points,
    )


def training(records: list[dict]) -> Table:
    return table(
        "training",
        "training",
        "Trained against untrained",
        "k-nearest-neighbour accuracy on the test split, the encoder after training minus the same"
        " encoder before it, paired by seed. Descriptive: it belongs to no claim.",
        records,
        ("Arm", lambda r: r["arm"]),
        ("Condition", lambda r: r["condition"]),
        ("#n", lambda r: str(r["n"])),
        ("#Untrained", lambda r: score(r["untrained"], r["unit"])),
        ("#Trained", lambda r: score(r["trained"], r["unit"])),
        ("#Gain, points", lambda r: difference(r["mean_difference"], r["unit"])),
        (
            "#95 % interval",
            lambda r: interval(
                r["ci_low"], r["ci_high"], lambda v: difference(v, r["unit"]), r["reason"]
            ),
        ),
    )


def omnibus(records: list[dict]) -> Table:
    return table(
        "omnibus",
        "secondary",
        "Friedman's test and mean ranks",
        "Secondary: it decides no claim.",
        records,
        ("Metric", lambda o: o["metric"]),
        ("Condition", lambda o: o["condition"]),
        ("#n", lambda o: str(o["n"])),
        ("#Friedman p", lambda o: p_number(o["p_value"])),
        ("#CD", lambda o: number(o["critical_difference"], 2)),
        (
            "Mean ranks (1 is best)",
            lambda o: ", ".join(
                f"{arm} {rank:.2f}"
                for arm, rank in sorted(o["mean_ranks"].items(), key=lambda item: item[1])
            ),
        ),
    )


def dropped(report: dict) -> Table:
    seen: dict[tuple, dict] = {}
    for c in report["comparisons"]:
        for d in c["dropped"]:
            row = seen.setdefault(
                (d["arm"], d["condition"], d["seed"], d["reason"]), {**d, "comparisons": 0}
            )
            row["comparisons"] += 1
    return table(
        "missing",
        "missing",
        "Seeds that could not be paired",
        "Every score that a comparison needed and did not find, with the reason.",
        list(seen.values()),
        ("Arm", lambda d: d["arm"]),
        ("Condition", lambda d: d["condition"]),
        ("#Seed", lambda d: str(d["seed"])),
        ("Reason", lambda d: d["reason"].replace("_", " ")),
        ("#Comparisons without it", lambda d: str(d["comparisons"])),
    )

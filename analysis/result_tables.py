"""Which tables tell of scores, differences, effects and missing data?"""

from __future__ import annotations

from collections.abc import Mapping

from analysis import words
from analysis.cells import Table, interval, score, share, table
from analysis.links import Link, run_anchors
from analysis.words import difference, number, p_number, unit

ARMS_PER_TABLE = 6  # that fit side by side on paper


def comparisons(name: str, title: str, records: list[dict]) -> Table:
    metric = lambda c: c["metric"]  # noqa: E731
    return table(
        name,
        "answers" if name == "comparisons" else "tables",
        title,
        "Differences are in percentage points for accuracies, as the contrast is written, with"
        " 95 % paired-t intervals. p: two-sided sign-flip test; Holm and TOST p are adjusted within"
        " this family; – where no margin applies.",
        records,
        *([("Claim", lambda c: c["claim"])] if any(c["claim"] for c in records) else []),
        ("Contrast", lambda c: f"{c['b']} − {c['a']}"),
        ("Metric", lambda c: words.base_metric(metric(c))),
        ("Condition", lambda c: c["condition"]),
        ("#n", lambda c: str(c["n_pairs"])),
        ("#Difference", lambda c: difference(c["mean_difference"], metric(c)) + unit(metric(c))),
        (
            "#95 % interval",
            lambda c: interval(c["ci_low"], c["ci_high"], lambda v: difference(v, metric(c))),
        ),
        ("#p", lambda c: p_number(c["p_value"])),
        ("#Holm p", lambda c: p_number(c["p_adjusted"])),
        ("#TOST p", lambda c: p_number(c["p_tost_adjusted"])),
        ("Verdict", lambda c: _verdict(c)),
    )


def effects(records: list[dict]) -> Table:
    return table(
        "effects",
        "tables",
        "Effect sizes",
        "None of these decides a verdict. d_z: the mean difference in units of the differences' sd."
        " A12: the chance that a run of the first-named arm scores above one of the second; Cliff's"
        " δ = 2 A12 − 1; both ignore the pairing and carry no interval for that reason. Win rate:"
        " share of seeds on which the first-named arm scores higher. In brackets 95 % intervals."
        " Seed r: correlation of the two arms' scores over seeds. MDE: the smallest difference that"
        " these seeds show at 80 % power; both describe the sample and carry no interval.",
        records,
        ("Contrast", lambda c: f"{c['b']} − {c['a']}"),
        ("Metric", lambda c: words.base_metric(c["metric"])),
        ("Condition", lambda c: c["condition"]),
        (
            "#d_z",
            lambda c: f"{number(c['dz'], 2)} {interval(*c['dz_ci'], lambda v: number(v, 2))}",
        ),
        ("#A12", lambda c: number(c["a12"], 2)),
        ("#Cliff's δ", lambda c: number(c["cliffs_delta"], 2)),
        (
            "#Win rate",
            lambda c: (
                f"{number(c['win_rate'], 2)} {interval(*c['win_rate_ci'], lambda v: number(v, 2))}"
            ),
        ),
        ("#Seed r", lambda c: number(c["seed_correlation"], 2)),
        (
            "#MDE",
            lambda c: difference(c["minimum_detectable_difference"], c["metric"], signed=False),
        ),
    )


def other_tests(records: list[dict]) -> Table:
    posterior = lambda side: lambda c: share((c["bayes"] or {}).get(side))  # noqa: E731
    return table(
        "other_tests",
        "tables",
        "Secondary tests",
        "None of these decides a verdict or is corrected. Below, within, above: posterior shares of"
        " the mean difference by the margin (by 0 without one), from the Bayesian t test of the"
        " differences. ASO ε: upper 95 % limit of the violation of stochastic dominance; below 0.5"
        " leans to the first-named arm.",
        records,
        ("Contrast", lambda c: f"{c['b']} − {c['a']}"),
        ("Metric", lambda c: words.base_metric(c["metric"])),
        ("Condition", lambda c: c["condition"]),
        ("#Paired t p", lambda c: p_number(c["p_t"])),
        ("#Wilcoxon p", lambda c: p_number(c["p_wilcoxon"])),
        ("#Below", posterior("below")),
        ("#Within", posterior("within")),
        ("#Above", posterior("above")),
        ("#ASO ε", lambda c: share(c["aso_epsilon"])),
    )


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
        ("#Mean", lambda a: Link(score(a["mean"], a["metric"]), seeds_at[a["metric"]])),
        (
            "#95 % interval",
            lambda a: interval(
                a["ci_low"], a["ci_high"], lambda v: score(v, a["metric"]), a["reason"]
            ),
        ),
        ("#sd", lambda a: score(a["sd"], a["metric"])),
        ("#Median", lambda a: score(a["median"], a["metric"])),
        ("#IQM", lambda a: score(a["iqm"], a["metric"])),
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
    rows: dict[tuple, dict] = {}
    for p in points:
        rows.setdefault((p["condition"], p["seed"]), {})[p["arm"]] = p["value"]

    def cell(row: tuple, arm: str) -> str:
        (condition, seed), shown = row, score(rows[row].get(arm), metric)
        anchor = anchors.get((arm, condition, str(seed)))
        return Link(shown, f"#{anchor}") if anchor and arm in rows[row] else shown

    return table(
        f"seeds-{number}",
        "tables",
        f"Scores of every seed: {metric}",
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
        ("#Untrained", lambda r: score(r["untrained"], r["metric"])),
        ("#Trained", lambda r: score(r["trained"], r["metric"])),
        ("#Gain, points", lambda r: difference(r["mean_difference"], r["metric"])),
        (
            "#95 % interval",
            lambda r: interval(
                r["ci_low"], r["ci_high"], lambda v: difference(v, r["metric"]), r["reason"]
            ),
        ),
    )


def omnibus(records: list[dict]) -> Table:
    return table(
        "omnibus",
        "secondary",
        "Friedman's test and mean ranks",
        "Secondary: it is no gate to the claims.",
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


def _verdict(c: dict) -> str:
    text = c["verdict"]
    if c["within_margin"] and text != "equivalent":
        text += ", within the margin"
    if c["reason"]:
        text += f" ({c['reason'].replace('_', ' ')})"
    return text

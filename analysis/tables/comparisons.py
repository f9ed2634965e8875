"""Tables of comparisons: differences, published figures, effect sizes and secondary tests."""

from __future__ import annotations

from analysis.inputs import FRACTION
from analysis.tables.table import NONE, Table, interval, share, table
from analysis.wording import (
    after_difference,
    after_score,
    difference,
    number,
    numbers,
    p_number,
)

ABOUT = "≈"  # before a published figure that was read off a plot


def comparisons(name: str, title: str, records: list[dict]) -> Table:
    claimed = any(c["claim"] for c in records)
    adjusted = (
        [
            ("#Adjusted p for support", lambda c: p_number(c["p_supports"])),
            ("#for refutation", lambda c: p_number(c["p_refutes"])),
        ]
        if claimed
        else [
            ("#Adjusted p", lambda c: p_number(c["p_adjusted"])),
            ("#Equivalence p", lambda c: p_number(c["p_tost_adjusted"])),
        ]
    )
    return table(
        name,
        "answers" if name == "comparisons" else "tables",
        title,
        "Tests are paired by unit: replicate, or seed. Differences are in percentage points for"
        " accuracies, as the contrast is written, with 95 % paired-t intervals; simultaneous ones"
        " (Bonferroni) hold together in 95 % of studies. "
        + (
            "Adjusted p decides, by max-T over the family: a claim is supported where that for"
            " support is at most α, refuted where that for refutation is."
            if claimed
            else "Adjusted p: by max-T over the family. Equivalence p: likewise, of both hypotheses"
            " that equivalence takes; – where no margin applies."
        )
        + " p: two-sided sign-flip test that the mean is 0, not corrected; Holm p: the same over"
        " this family.",
        records,
        *([("Claim", lambda c: c["claim"])] if claimed else []),
        ("Verdict", lambda c: _verdict(c)),
        ("Contrast", lambda c: f"{c['b']} − {c['a']}"),
        ("Metric", lambda c: numbers.base_metric(c["metric"])),
        ("Condition", lambda c: c["condition"]),
        ("#n", lambda c: str(c["n_units"])),
        (
            "#Difference",
            lambda c: difference(c["mean_difference"], c["unit"]) + after_difference(c["unit"]),
        ),
        (
            "#95 % interval",
            lambda c: interval(c["ci_low"], c["ci_high"], lambda v: difference(v, c["unit"])),
        ),
        (
            "#Simultaneous",
            lambda c: interval(*c["simultaneous_ci"], lambda v: difference(v, c["unit"])),
        ),
        *adjusted,
        ("#p", lambda c: p_number(c["p_value"])),
        ("#Holm p", lambda c: p_number(c["p_holm"])),
    )


def published(rows: list[dict]) -> Table:
    return table(
        "published",
        "answers",
        "Published and found",
        f"Published: what a paper printed, at its own scale; {ABOUT} was read off a plot. Within:"
        " whether the published difference lies in the 95 % interval of the one found. Both are the"
        " first-named arm minus the second. None of the published figures enters a test.",
        rows,
        ("Claim", lambda r: r["claim"]),
        ("Contrast", lambda r: f"{r['b']} − {r['a']}"),
        ("Metric", lambda r: numbers.base_metric(r["metric"])),
        ("Condition", lambda r: r["condition"]),
        ("Published", figures),
        ("#Difference", published_difference),
        (
            "#Found",
            lambda r: difference(r["mean_difference"], r["unit"]) + after_difference(r["unit"]),
        ),
        (
            "#95 % interval",
            lambda r: interval(r["ci_low"], r["ci_high"], lambda v: difference(v, r["unit"])),
        ),
        ("Within", within),
        ("Source", lambda r: r["source"] or NONE),
    )


def figures(row: dict) -> str:
    """`b 76.76 %, a ≈ 74.4 %`, in the order of the contrast; a dash where there are none."""
    shown = []
    for figure in row["figures"]:
        name = figure["arm"] + (f", {figure['condition']}," if figure["condition"] else "")
        about = f"{ABOUT} " if figure["approximate"] else ""
        shown.append(f"{name} {about}{_score(figure['value'], row['unit'])}")
    return "; ".join(shown) or NONE


def within(row: dict) -> str:
    """Whether the published difference lies in the interval of ours."""
    return {True: "yes", False: "no", None: NONE}[row["within_interval"]]


def published_difference(row: dict) -> str:
    """The difference of the published figures with its unit."""
    if row["published_difference"] is None:
        return NONE
    about = f"{ABOUT} " if row["approximate"] else ""
    unit = row["unit"]
    return about + difference(row["published_difference"], unit) + after_difference(unit)


def _score(value: float, unit: str | None) -> str:
    """A score as it was printed: 76.76 keeps its second digit."""
    if numbers.is_percent(unit):
        return f"{round(100 * value, 6):g} %"
    return f"{value:,.10g}" + after_score(unit)


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
        ("Metric", lambda c: numbers.base_metric(c["metric"])),
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
            lambda c: difference(c["minimum_detectable_difference"], c["unit"], signed=False),
        ),
    )


def other_tests(records: list[dict]) -> Table:
    posterior = lambda side: lambda c: share((c["bayes"] or {}).get(side))  # noqa: E731
    return table(
        "other_tests",
        "tables",
        "Secondary tests",
        "None of these decides a verdict, and none is corrected. Below, within, above: posterior"
        " shares of the mean difference by the margin (by 0 without one), from the Bayesian t test"
        " of the differences. ASO ε: upper 95 % limit of the violation of stochastic dominance;"
        " below 0.5 favours the first-named arm.",
        records,
        ("Contrast", lambda c: f"{c['b']} − {c['a']}"),
        ("Metric", lambda c: numbers.base_metric(c["metric"])),
        ("Condition", lambda c: c["condition"]),
        ("#Paired t p", lambda c: p_number(c["p_t"])),
        ("#Wilcoxon p", lambda c: p_number(c["p_wilcoxon"])),
        ("#Below", posterior("below")),
        ("#Within", posterior("within")),
        ("#Above", posterior("above")),
        ("#ASO ε", lambda c: share(c["aso_epsilon"])),
    )


def robustness(found: dict | None) -> list[Table]:
    """The claims under other evaluations: a row per claim, and one per claim and evaluation."""
    claims = found["claims"] if found else []
    choices = [
        {"claim": c["claim"], "measure": c["measure"], "n": c["n_units"], **row}
        for c in claims
        for row in c["rows"]
    ]
    return [
        table(
            "robustness",
            "robustness",
            "Each claim under other evaluations",
            "Exploratory, and not corrected: the same trained encoders, judged in other ways. A"
            " claim holds under an evaluation where the mean difference has the claimed sign (an"
            " equivalence: where it is within the margin), surely where the whole 95 % interval"
            " does. Differences are of accuracies, in percentage points, as the contrast is"
            " written.",
            claims,
            ("Claim", lambda c: c["claim"]),
            ("Metric declared", lambda c: numbers.base_metric(c["metric"])),
            ("#Difference", lambda c: difference(c["declared_difference"], FRACTION)),
            ("#Holds in", lambda c: f"{c['holds']} of {c['choices']}" if c["choices"] else NONE),
            ("#surely in", lambda c: str(c["surely"]) if c["choices"] else NONE),
            ("Least", lambda c: _extreme(c["least"]) if c["least"] else c["reason"]),
            ("Largest", lambda c: _extreme(c["largest"]) if c["largest"] else NONE),
        ),
        table(
            "robustness_choices",
            "robustness",
            "Every evaluation",
            "kNN: the k nearest training images vote exp(cos / t), k up to the training images of"
            " a class. Probes are linear classifiers on standardised features, with penalty λ."
            " Epochs: the last evaluated ones, on the split that their metric names.",
            choices,
            ("Claim", lambda c: c["claim"]),
            ("Evaluation", lambda c: c["label"]),
            ("#n", lambda c: str(c["n"])),
            ("#Difference", lambda c: difference(c["mean_difference"], FRACTION)),
            (
                "#95 % interval",
                lambda c: interval(c["ci_low"], c["ci_high"], lambda v: difference(v, FRACTION)),
            ),
            ("Holds", lambda c: "surely" if c["surely"] else "yes" if c["holds"] else "no"),
        ),
    ]


def _extreme(row: dict) -> str:
    return f"{difference(row['mean_difference'], FRACTION)} ({row['label']})"


def _verdict(c: dict) -> str:
    text = c["verdict"].replace("_", " ")
    if c["within_margin"] and text != "equivalent":
        text += ", by less than the margin"
    if c["reason"]:
        text += f" ({c['reason'].replace('_', ' ')})"
    return text

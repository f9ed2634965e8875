"""Which tables tell of cost, budgets, curves, search and runs?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from analysis.cells import NONE, Table, cost, interval, percent, ranges, score, setting, table
from analysis.links import Link, anchor, mlflow_run
from analysis.words import difference, number, p_number


def trade_off(records: list[dict], metric: str | None) -> Table:
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
        ("#Score", lambda r: score(r["mean"], r["metric"])),
        (
            "#95 % interval",
            lambda r: interval(r["ci_low"], r["ci_high"], lambda v: score(v, r["metric"])),
        ),
        ("Unit", lambda r: r["unit"]),
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
        " or cannot be had.",
        records,
        ("Arm", lambda r: r["arm"]),
        ("Condition", lambda r: r["condition"]),
        ("Metric", lambda r: r["metric"]),
        ("#Threshold", lambda r: score(r["threshold"], r["metric"])),
        ("#Reached", lambda r: f"{r['reached']} of {r['n']}"),
        ("Unit", lambda r: r["unit"]),
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


def epochs_apart(entries: list[dict]) -> Table:
    rows = [
        {"metric": e["metric"], "condition": e["condition"], **p}
        for e in entries
        for p in e["pairs"]
    ]
    return table(
        "curves",
        "curves",
        "When curves are apart",
        "Smallest max-T p over epochs, adjusted over the epochs of a curve, and the epochs with"
        " p ≤ .05. Without a declared window these rows are exploratory.",
        rows,
        ("Contrast", lambda r: f"{r['b']} − {r['a']}"),
        ("Metric", lambda r: r["metric"]),
        ("Condition", lambda r: r["condition"]),
        ("#n", lambda r: str(r["n"])),
        ("#Smallest p", lambda r: p_number(min(r["p_max_t"]))),
        (
            "Epochs apart",
            lambda r: ranges(
                [e for e, p in zip(r["epochs"], r["p_max_t"], strict=True) if p <= 0.05]
            ),
        ),
    )


def ledger(records: list[dict]) -> Table:
    count = lambda key: lambda r: str(r[key])  # noqa: E731
    return table(
        "ledger",
        "ledger",
        "Ledger of budgets",
        "Search trials and confirmation runs together; seconds are device-seconds.",
        records,
        ("Arm", lambda r: r["arm"]),
        *[
            ("#" + key.capitalize(), count(key))
            for key in (
                "planned",
                "started",
                "failed",
                "diverged",
                "stopped",
                "finished",
                "confirmed",
            )
        ],
        ("#Epochs, search", lambda r: f"{r['search_epochs']:g}"),
        ("#Epochs, confirmation", lambda r: f"{r['confirm_epochs']:g}"),
        ("#Seconds", lambda r: cost(r["seconds"])),
    )


def search(records: list[dict]) -> Table:
    curse = lambda s: s["winners_curse"] or {}  # noqa: E731
    return table(
        "search",
        "search",
        "Search, and how much of its best was luck",
        "The best of many trials is optimistic and never a result. Winner's curse: search best less"
        " the confirmed mean of the same validation metric at the last epoch, with the interval of"
        " that mean.",
        records,
        ("Arm", lambda s: s["arm"]),
        ("#Trials", lambda s: str(len(s["trials"]))),
        ("#Complete", lambda s: str(s["complete"])),
        ("#Search best", lambda s: score((s["best"] or {}).get("value"), s["metric"])),
        ("#Confirmed mean", lambda s: score(curse(s).get("confirmed_mean"), s["metric"])),
        ("#Winner's curse", lambda s: difference(curse(s).get("difference"), s["metric"])),
        (
            "#95 % interval",
            lambda s: interval(
                curse(s).get("ci_low"),
                curse(s).get("ci_high"),
                lambda v: difference(v, s["metric"]),
            ),
        ),
        (
            "#Epochs saved by early stopping",
            lambda s: (
                f"{s['early_stopping']['epochs']:g}"
                + percent(s["early_stopping"]["share_of_planned_epochs"])
            ),
        ),
    )


def winners(records: list[dict]) -> Table:
    found = [s for s in records if s["best"]]
    names = list(dict.fromkeys(n for s in found for n in s["best"]["config"]))
    varied = [n for n in names if len({str(v) for v in _values(records, n)}) > 1]
    same = "; ".join(
        f"{n} {setting(found[0]['best']['config'].get(n))}" for n in names if n not in varied
    )
    return table(
        "winners",
        "search",
        "Winners' settings",
        "As frozen for the confirmation; settings that were searched or differ between arms."
        + (f" The same in every trial of every arm: {same}." if same else ""),
        found,
        ("Arm", lambda s: s["arm"]),
        ("#Trial", lambda s: str(s["best"]["trial"])),
        *[("#" + n, lambda s, n=n: setting(s["best"]["config"].get(n))) for n in varied],
        raw=found,
    )


def _values(records: list[dict], name: str) -> list:
    return [t["config"].get(name) for s in records for t in s["trials"]]


def importance(records: list[dict]) -> Table:
    rows = [
        {"arm": s["arm"], **{k: s["importance"][k] for k in ("trials", "top", "epoch")}, **r}
        for s in records
        for r in s["importance"]["settings"]
    ]
    return table(
        "importance",
        "search",
        "Which settings mattered",
        "PED-ANOVA: how much a setting's values among an arm's best trials differ from those among"
        " all of them, as a share of the sum over its settings. All trials of an arm, stopped ones"
        " too, are judged at the last epoch that each of them reached; one that diverged is none of"
        " the best. Range: when any one trial (or twentieth of them) is left out. p: share of 99"
        " shuffles of the scores that give a setting as much, not corrected. No interval: the"
        " trials of a sampler are not independent, so both are descriptions only.",
        rows,
        ("Arm", lambda r: r["arm"]),
        ("Setting", lambda r: r["setting"]),
        ("#Trials", lambda r: str(r["trials"])),
        ("#Best", lambda r: str(r["top"])),
        ("#Epoch", lambda r: str(r["epoch"])),
        (
            "#Importance",
            lambda r: (
                "only some trials have it"
                if r["importance"] is None
                else number(r["importance"], 2)
            ),
        ),
        (
            "#Range",
            lambda r: (
                NONE if r["low"] is None else f"{number(r['low'], 2)} to {number(r['high'], 2)}"
            ),
        ),
        ("#p, shuffled", lambda r: p_number(r["p_shuffled"])),
    )


def runs(records: list[dict], place: Any) -> Table:
    def mlflow(record: dict) -> str:
        href = mlflow_run(place, record["mlflow_run_id"])
        shown = record["mlflow_run_id"] or NONE
        return Link(shown, href) if href else shown

    place = place if isinstance(place, Mapping) else {}
    if not place:
        lead = " Where MLflow shows them was not recorded."
    elif place.get("command"):
        lead = f" The links to MLflow work while this runs: {place['command']}"
    else:
        lead = " The ids lead to MLflow."
    return table(
        "runs",
        "provenance",
        "Confirmation runs",
        "The scores of every seed, above, lead here." + lead,
        records,
        ("Arm", lambda r: r["arm"]),
        ("Condition", lambda r: r["condition"] or "default"),
        ("#Seed", lambda r: str(r["seed"])),
        ("Status", lambda r: r["status"]),
        ("#Seconds", lambda r: cost(r["seconds"])),
        ("MLflow run", mlflow),
        ("Failure", lambda r: r["failure"] or ""),
        anchors=[anchor(row) for row in range(len(records))],
    )

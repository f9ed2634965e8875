"""Tables of the search: trials, winners, importance of the settings."""

from __future__ import annotations

from analysis.tables.table import NONE, Table, interval, percent, setting, table
from analysis.wording import difference, number, p_number, score


def search(records: list[dict]) -> Table:
    curse = lambda s: s["winners_curse"] or {}  # noqa: E731
    return table(
        "search",
        "search",
        "Search, and how much of its best was luck",
        "The best of many trials is optimistic and never a result. Search best and confirmed mean"
        " are means over the replicates' winners; winner's curse: the one less the other, of one"
        " validation metric at the last epoch, with its interval. Noise: sd of that metric between"
        " trainings of the same settings. Tied: the other complete trials within one standard error"
        " of the winner of their search. Searched: settings of which the arm's trials had"
        " several values.",
        records,
        ("Arm", lambda s: s["arm"]),
        ("Searched", lambda s: ", ".join(s["settings"]) or "nothing"),
        ("#Trials", lambda s: str(len(s["trials"]))),
        ("#Complete", lambda s: str(s["complete"])),
        (
            "#Search best",
            lambda s: score(curse(s).get("search_best", (s["best"] or {}).get("value")), s["unit"]),
        ),
        ("#Confirmed mean", lambda s: score(curse(s).get("confirmed_mean"), s["unit"])),
        ("#Winner's curse", lambda s: difference(curse(s).get("difference"), s["unit"])),
        (
            "#95 % interval",
            lambda s: interval(
                curse(s).get("ci_low"),
                curse(s).get("ci_high"),
                lambda v: difference(v, s["unit"]),
            ),
        ),
        ("#Noise", lambda s: difference(s["ties"]["sd_seed"], s["unit"], signed=False)),
        ("#Tied", lambda s: _tied(s["ties"]["tied"], s["ties"]["others"])),
        (
            "#Epochs saved by early stopping",
            lambda s: (
                f"{s['early_stopping']['epochs']:g}"
                + percent(s["early_stopping"]["share_of_planned_epochs"])
            ),
        ),
    )


def winners(records: list[dict]) -> Table:
    """A row per arm, or per arm and replicate: every replicate froze a winner of its own."""
    found = [{"arm": s["arm"], **w} for s in records for w in s["winners"]]
    names = list(dict.fromkeys(name for s in records for name in s["settings"]))
    replicated = any(w["replicate"] is not None for w in found)
    return table(
        "winners",
        "search",
        "Winners' settings" + (" of each replicate" if replicated else ""),
        "The searched settings as frozen for the confirmation; – where an arm does not take one."
        " Tied: the other complete trials of that search that are tied with the winner.",
        found,
        ("Arm", lambda w: w["arm"]),
        *([("#Replicate", lambda w: str(w["replicate"]))] if replicated else []),
        ("#Trial", lambda w: str(w["trial"])),
        *[("#" + n, lambda w, n=n: setting(w["drawn"].get(n))) for n in names],
        ("#Tied", lambda w: _tied(w["ties"], w["others"])),
    )


def _tied(tied: int | None, others: int) -> str:
    return NONE if tied is None or not others else f"{tied} of {others}"


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
        " too, are judged at the last epoch that each of them reached; one that diverged is never"
        " among the best. Range: when any one trial (or twentieth of them) is left out. p: share of"
        " 99 shuffles of the scores that give a setting as much, not corrected. No interval: the"
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

"""Figures of the search, kept apart from the verdicts; no statistics are computed here."""

from __future__ import annotations

import math

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullFormatter

from analysis.figures.style import (
    GREY,
    PALE,
    WIDTH,
    Drawing,
    grid,
    legend,
    listed,
    look,
    percent_axis,
    short,
)
from analysis.wording import numbers

MOST_ARMS = 6
MOST_SETTINGS = 5


def expected_best(report: dict) -> Drawing | None:
    """Expected best validation score after k complete trials."""
    arms = [s for s in report["search"] if len(s["expected_best"]) > 1]
    if not arms:
        return None
    figure, (panel,) = grid(1, height=2.8)
    names = report["design"]["arms"]
    for s in arms:
        index = names.index(s["arm"]) if s["arm"] in names else len(names)
        k = range(1, len(s["expected_best"]) + 1)
        panel.plot(
            k, s["expected_best"], **look(index), markersize=4, linewidth=1.5, label=short(s["arm"])
        )
        panel.plot(
            k, s["expected_best_biased"], color=look(index)["color"], linewidth=0.7, alpha=0.6
        )
    metric, unit = arms[0]["metric"], arms[0]["unit"]
    panel.set_xlabel("complete trials")
    panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    panel.set_ylabel(f"expected best {numbers.with_unit(metric, unit)}")
    if numbers.is_percent(unit):
        percent_axis(panel.yaxis)
    panel.legend(loc="best", fontsize=8)
    alt = listed(
        [
            f"{s['arm']}: {numbers.number(s['expected_best'][0])} after 1, "
            f"{numbers.number(s['expected_best'][-1])} after {len(s['expected_best'])} trials"
            for s in arms
        ]
    )
    return Drawing(
        "expected-best",
        "search",
        "Expected best of k trials",
        "Validation scores of trials that ran to their end; thick: unbiased estimator, thin: the"
        " biased one of Dodge et al. 2019. No interval: a sampler's trials are not independent."
        " Early stopping selects these trials, so compare shapes, not levels.",
        f"Expected best validation score by number of trials. {alt}.",
        figure,
    )


def slices(report: dict) -> Drawing | None:
    """Validation score of every trial against each searched setting."""
    settings = _settings(report)
    if not settings:
        return None
    names, first = report["design"]["arms"], report["search"][0]
    metric, unit = first["metric"], first["unit"]
    figure, panels = grid(len(settings), height=2.2)
    for panel, setting in zip(panels, settings, strict=False):
        for s in report["search"][:MOST_ARMS]:
            style = look(names.index(s["arm"]) if s["arm"] in names else len(names))
            style.pop("linestyle")
            if setting not in _varying(s):
                continue
            for status, filled in (("finished", True), ("stopped", False)):
                points = [
                    (t["config"][setting], t["value"])
                    for t in s["trials"]
                    if t["status"] == status and t["value"] is not None and setting in t["config"]
                ]
                if points:
                    x, y = zip(*points, strict=True)
                    x = x if _numeric(report, setting) else [short(str(v), 12) for v in x]
                    panel.plot(
                        x,
                        y,
                        linestyle="none",
                        **style,
                        markersize=4.5,
                        markerfacecolor=style["color"] if filled else "white",
                        label=short(s["arm"]) if filled else None,
                    )
        panel.set_xlabel(setting)
        if _wide_range(report, setting):
            panel.set_xscale("log")
            panel.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
            panel.xaxis.set_minor_formatter(NullFormatter())
        if numbers.is_percent(unit):
            percent_axis(panel.yaxis)
    for panel in panels[::2]:
        panel.set_ylabel(numbers.with_unit(metric, unit))
    legend(figure, panels[0])
    return Drawing(
        "slices",
        "search",
        "Searched settings",
        "Filled: ran to the end; open: stopped early, at the score it had then.",
        f"Validation score against each of {', '.join(settings)}; the trials are in the tables.",
        figure,
    )


def winners(report: dict) -> Drawing | None:
    """The winners' settings of every replicate, a strip per arm and setting."""
    arms = [s for s in report["search"] if len(s["winners"]) > 1][:MOST_ARMS]
    settings = [n for n in _settings(report) if _numeric(report, n)]
    if not arms or not settings:
        return None
    names = report["design"]["arms"]
    figure, panels = grid(len(settings), height=2.0, share=False)
    for panel, setting in zip(panels, settings, strict=False):
        for x, s in enumerate(arms):
            style = look(names.index(s["arm"]) if s["arm"] in names else len(names))
            own = [w for w in s["winners"] if setting in w["config"]]
            for i, w in enumerate(own):
                at = x + 0.5 * (i - (len(own) - 1) / 2) / max(1, len(own) - 1)
                panel.plot(at, w["config"][setting], color=style["color"], marker=style["marker"])
        panel.set_xticks(range(len(arms)), [short(s["arm"], 14) for s in arms])
        panel.set_xlim(-0.5, len(arms) - 0.5)
        panel.set_title(setting)
        if _wide_range(report, setting):
            panel.set_yscale("log")
            panel.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
            panel.yaxis.set_minor_formatter(NullFormatter())
    alt = listed([f"{s['arm']}: {len(s['winners'])} winners" for s in arms])
    return Drawing(
        "winners",
        "search",
        "Winners' settings of each replicate",
        "A mark is the winner of one independent search, from left to right in the order of"
        " replicates. Where marks scatter, the search does not determine the setting."
        + _left_out(report),
        f"Winners' {', '.join(settings)} by arm. {alt}.",
        figure,
    )


def parallel(report: dict) -> Drawing | None:
    """Every complete trial as a line through its settings to its score."""
    settings = _settings(report)
    arms = [s for s in report["search"] if s["complete"]][:MOST_ARMS]
    if len(settings) < 2 or not arms:
        return None
    names = report["design"]["arms"]
    figure = Figure(figsize=(WIDTH, 2.9))
    panel = figure.subplots()
    ends = {s: _ends(report, s) for s in settings}
    scores = [t["value"] for s in arms for t in _complete(s)]
    top, bottom = max(scores), min(scores)
    for s in arms:
        style = look(names.index(s["arm"]) if s["arm"] in names else len(names))
        style.pop("marker")
        for t in _complete(s):
            heights = [_height(t["config"].get(name), ends[name]) for name in settings]
            heights.append((t["value"] - bottom) / (top - bottom) if top > bottom else 0.5)
            chosen = t["trial"] == s["best"]["trial"]
            known = [(x, y) for x, y in enumerate(heights) if not math.isnan(y)]
            panel.plot(
                *zip(*known, strict=True),
                **style,
                linewidth=2 if chosen else 0.8,
                alpha=1 if chosen else 0.45,
                label=short(s["arm"]) if chosen else None,
            )
    for x, name in enumerate(settings):
        low, high = ends[name]["shown"]
        panel.text(x, -0.05, low, ha="center", va="top", fontsize=7.5, color=GREY)
        panel.text(x, 1.04, high, ha="center", va="bottom", fontsize=7.5, color=GREY)
        panel.axvline(x, color=PALE, linewidth=0.8, zorder=0)
    metric, unit = arms[0]["metric"], arms[0]["unit"]
    shown = numbers.with_unit(metric, unit)
    small = {"ha": "center", "fontsize": 7.5, "color": GREY}
    panel.text(len(settings), -0.05, numbers.score(bottom, unit), va="top", **small)
    panel.text(len(settings), 1.04, numbers.score(top, unit), va="bottom", **small)
    panel.set_xticks(
        range(len(settings) + 1), [*(short(n, 16) for n in settings), short(shown, 20)]
    )
    panel.tick_params(axis="x", length=0, pad=14)
    panel.set_yticks([])
    panel.spines[["left", "bottom"]].set_visible(False)
    panel.set_ylim(-0.02, 1.02)
    panel.legend(loc="upper left", bbox_to_anchor=(1, 1), fontsize=7.5)
    return Drawing(
        "parallel",
        "search",
        "Complete trials, setting by setting",
        "A line per complete trial; thick: each arm's winner. A line runs straight past a setting"
        " that its arm does not have." + _left_out(report),
        f"Parallel coordinates of {', '.join(settings)} and {metric}.",
        figure,
    )


def _complete(arm: dict) -> list[dict]:
    """The trials of an arm that ran to their end and have a score."""
    return [t for t in arm["trials"] if t["status"] == "finished" and t["value"] is not None]


def _settings(report: dict) -> list[str]:
    """Settings that vary within an arm; what differs between arms alone was not searched."""
    return _all_settings(report)[:MOST_SETTINGS]


def _all_settings(report: dict) -> list[str]:
    return list(dict.fromkeys(name for s in report["search"] for name in _varying(s)))


def _left_out(report: dict) -> str:
    """What is not drawn, in words."""
    settings = len(_all_settings(report)) - MOST_SETTINGS
    arms = len(report["search"]) - MOST_ARMS
    found = [f"{n} more {what}" for n, what in ((settings, "settings"), (arms, "arms")) if n > 0]
    return f" Not drawn: {' and '.join(found)}." if found else ""


def _varying(arm: dict) -> list[str]:
    """Settings that vary within a search; what differs between replicates alone was drawn."""
    seen: dict[str, dict] = {}
    for t in arm["trials"]:
        for name, value in t["config"].items():
            if isinstance(value, str | int | float):
                seen.setdefault(name, {}).setdefault(t["replicate"], set()).add(value)
    return [name for name, own in seen.items() if any(len(v) > 1 for v in own.values())]


def _values(report: dict, setting: str) -> list:
    return [
        t["config"][setting]
        for s in report["search"]
        for t in s["trials"]
        if setting in t["config"]
    ]


def _numeric(report: dict, setting: str) -> bool:
    return all(isinstance(v, int | float) for v in _values(report, setting))


def _wide_range(report: dict, setting: str) -> bool:
    values = _values(report, setting)
    return _numeric(report, setting) and min(values) > 0 and max(values) / min(values) > 8


def _ends(report: dict, setting: str) -> dict:
    values = _values(report, setting)
    if not _numeric(report, setting):
        order = sorted(set(map(str, values)))
        return {"order": order, "shown": (short(order[0], 12), short(order[-1], 12))}
    low, high = min(values), max(values)
    return {
        "low": low,
        "high": high,
        "log": _wide_range(report, setting),
        "shown": (f"{low:.2g}", f"{high:.2g}"),
    }


def _height(value, ends: dict) -> float:
    if value is None:
        return math.nan
    if "order" in ends:
        return ends["order"].index(str(value)) / max(1, len(ends["order"]) - 1)
    low, high = ends["low"], ends["high"]
    if ends["log"]:
        value, low, high = math.log(value), math.log(low), math.log(high)
    return (value - low) / (high - low) if high > low else 0.5

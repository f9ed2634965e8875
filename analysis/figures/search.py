"""Figures of the search, kept apart from the verdicts; no statistics are computed here."""

from __future__ import annotations

import math

from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

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
    for s in arms:
        style = _look(report, s["arm"])
        k = range(1, len(s["expected_best"]) + 1)
        panel.plot(
            k, s["expected_best"], **style, markersize=4, linewidth=1.5, label=short(s["arm"])
        )
        panel.plot(k, s["expected_best_biased"], color=style["color"], linewidth=0.7, alpha=0.6)
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
    first = report["search"][0]
    metric, unit = first["metric"], first["unit"]
    figure, panels = grid(len(settings), height=2.2)
    for panel, setting in zip(panels, settings, strict=False):
        for s in report["search"][:MOST_ARMS]:
            style = _look(report, s["arm"])
            style.pop("linestyle")
            for status, filled in (("finished", True), ("stopped", False)):
                points = [
                    (t["drawn"][setting], t["value"])
                    for t in s["trials"]
                    if t["status"] == status and t["value"] is not None and setting in t["drawn"]
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
            _plain_log_ticks(panel.xaxis)
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
    """The winners' settings of every replicate: a strip per arm and setting, with what tied."""
    arms = [s for s in report["search"] if len(s["winners"]) > 1][:MOST_ARMS]
    settings = _settings(report)
    if not arms or not settings:
        return None
    rows, columns = math.ceil(len(settings) / 3), min(3, len(settings))
    figure = Figure(figsize=(WIDTH, rows * (0.8 + 0.5 * len(arms))))
    panels = figure.subplots(rows, columns, squeeze=False, sharey=True).ravel()
    for panel, setting in zip(panels, settings, strict=False):
        for y, s in enumerate(arms):
            _strip(panel, s, y, setting, _look(report, s["arm"]))
        panel.set_title(setting)
        _range_tried(panel, report, setting)
    for spare in panels[len(settings) :]:
        spare.remove()
    panels[0].set_yticks(range(len(arms)), [short(s["arm"]) for s in arms])
    panels[0].set_ylim(len(arms) - 0.5, -0.5)
    alt = listed([f"{s['arm']}, {n}: {_spread(s, n)}" for s in arms for n in s["settings"]])
    return Drawing(
        "winners",
        "answers",
        "Winners' settings of each replicate",
        "A filled mark is the winner of one independent search, from top to bottom in the order of"
        " replicates; open marks on its level are trials tied with it. Axes span what was tried:"
        " where marks scatter, the search does not determine the setting." + _left_out(report),
        f"Settings of the winners. {alt}.",
        figure,
    )


def _strip(panel, arm: dict, y: int, setting: str, style: dict) -> None:
    """The winners of an arm one below the other around y, each with the trials tied with it."""
    for i, winner in enumerate(arm["winners"]):
        at = y + 0.7 * ((i + 0.5) / len(arm["winners"]) - 0.5)
        same = [t for t in _complete(arm) if t["replicate"] == winner["replicate"]]
        for t in [*(t for t in same if t.get("tied")), winner]:
            value = t["drawn"].get(setting)
            if value is None:
                continue
            won = t["trial"] == winner["trial"]
            panel.plot(
                short(str(value), 12) if isinstance(value, str | bool) else value,
                at,
                color=style["color"],
                marker=style["marker"],
                markersize=4.5,
                markerfacecolor=style["color"] if won else "white",
                zorder=3 if won else 2,
            )


def _range_tried(panel, report: dict, setting: str) -> None:
    """A panel as wide as the values of all trials."""
    if not _numeric(report, setting):
        panel.margins(x=0.2)
        return
    values = _values(report, setting)
    low, high = min(values), max(values)
    panel.xaxis.set_major_locator(MaxNLocator(4))
    if _wide_range(report, setting):
        panel.set_xscale("log")
        _plain_log_ticks(panel.xaxis)
        panel.set_xlim(low / (high / low) ** 0.06, high * (high / low) ** 0.06)
    else:
        panel.set_xlim(low - 0.06 * (high - low), high + 0.06 * (high - low))


def _spread(arm: dict, setting: str) -> str:
    """Winners' values in words: the range, or each that there is."""
    values = [w["drawn"][setting] for w in arm["winners"] if setting in w["drawn"]]
    if values and not any(isinstance(v, str | bool) for v in values):
        return f"{min(values):.3g} to {max(values):.3g}"
    return ", ".join(sorted(set(map(str, values)))) or "none"


def parallel(report: dict) -> Drawing | None:
    """Every complete trial as a line through its settings to its score."""
    settings = _settings(report)
    arms = [s for s in report["search"] if s["complete"]][:MOST_ARMS]
    if len(settings) < 2 or not arms:
        return None
    figure = Figure(figsize=(WIDTH, 3.1))
    panel = figure.subplots()
    ends = {s: _ends(report, s) for s in settings}
    scores = [t["value"] for s in arms for t in _complete(s)]
    top, bottom = max(scores), min(scores)
    for s in arms:
        style = _look(report, s["arm"])
        style.pop("marker")
        won = {(w["replicate"], w["trial"]) for w in s["winners"]}
        for i, t in enumerate(_complete(s)):
            heights = [_height(t["drawn"].get(name), ends[name]) for name in settings]
            heights.append((t["value"] - bottom) / (top - bottom) if top > bottom else 0.5)
            chosen = (t["replicate"], t["trial"]) in won
            known = [(x, y) for x, y in enumerate(heights) if not math.isnan(y)]
            panel.plot(
                *zip(*known, strict=True),
                **style,
                linewidth=2 if chosen else 0.8,
                alpha=1 if chosen else 0.45,
                label=None if i else short(s["arm"]),
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
    legend(figure, panel)
    return Drawing(
        "parallel",
        "search",
        "Complete trials, setting by setting",
        "A line per complete trial; thick: the winners. A line runs straight past a setting"
        " that its arm does not have." + _left_out(report),
        f"Parallel coordinates of {', '.join(settings)} and {metric}.",
        figure,
    )


def _complete(arm: dict) -> list[dict]:
    """The trials of an arm that ran to their end and have a score."""
    return [t for t in arm["trials"] if t["status"] == "finished" and t["value"] is not None]


def _settings(report: dict) -> list[str]:
    """Searched settings; what differs between arms alone was not searched."""
    return _all_settings(report)[:MOST_SETTINGS]


def _all_settings(report: dict) -> list[str]:
    return list(dict.fromkeys(name for s in report["search"] for name in s["settings"]))


def _look(report: dict, arm: str) -> dict:
    names = report["design"]["arms"]
    return look(names.index(arm) if arm in names else len(names))


def _plain_log_ticks(axis: Axis) -> None:
    """1 and 3 of each decade: a range within one decade would have hardly a tick."""
    axis.set_major_locator(LogLocator(subs=(1, 3)))
    axis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.set_minor_formatter(NullFormatter())


def _left_out(report: dict) -> str:
    """What is not drawn, in words."""
    settings = len(_all_settings(report)) - MOST_SETTINGS
    arms = len(report["search"]) - MOST_ARMS
    found = [f"{n} more {what}" for n, what in ((settings, "settings"), (arms, "arms")) if n > 0]
    return f" Not drawn: {' and '.join(found)}." if found else ""


def _values(report: dict, setting: str) -> list:
    return [
        t["drawn"][setting] for s in report["search"] for t in s["trials"] if setting in t["drawn"]
    ]


def _numeric(report: dict, setting: str) -> bool:
    return all(
        isinstance(v, int | float) and not isinstance(v, bool) for v in _values(report, setting)
    )


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

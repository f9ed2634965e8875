"""What the planned units can show, claim by claim, from the spread in an earlier study."""

from __future__ import annotations

import contextlib
import csv
import json
import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from analysis.statistics.power import (
    minimum_detectable_effect,
    sd_upper_limit,
    seeds_for,
    seeds_needed_for_family,
    smallest_p,
)
from study.design import Study
from study.errors import StudyError
from study.planning.budget import better_splits, nearest
from study.storage import Folder, fetch_report, is_address

_SEARCHED = ("search", "recheck")


@dataclass(frozen=True)
class Spread:
    """How far a claim's differences were spread in an earlier study.

    Attributes:
        total: standard deviation of the units' differences.
        units: how many there were; 0 where the study file states the spread.
        search: its part between searches, where that could be told from the seeds'.
        seeds: of each unit.
        unit: what the units were: `replicate` or `seed`; "" where the study file states the spread.
    """

    total: float
    units: int = 0
    search: float | None = None
    seeds: int = 1
    unit: str = ""

    @property
    def seed(self) -> float:
        """The part between seeds: what that between searches leaves of the total."""
        return math.sqrt(max(0.0, self.total**2 - (self.search or 0.0) ** 2) * self.seeds)

    @property
    def limit(self) -> float:
        """The factor to the upper 80 % limit of the true sd: a pilot's is too low half the time."""
        return sd_upper_limit(1.0, self.units) if self.units else 1.0

    def of(self, seeds: int) -> float:
        """The sd of differences of units with so many seeds each."""
        if self.search is None:
            return self.total
        return math.sqrt(self.search**2 + self.seed**2 / seeds)


@dataclass(frozen=True)
class Pilot:
    """What an earlier study has measured: spreads by claim, mean seconds of a trial and a run."""

    spreads: Mapping[str, Spread] = field(default_factory=dict)
    trial_s: float | None = None
    run_s: float | None = None


def gate(study: Study) -> str:
    """Why the design can decide none of its claims, with the nearest one that can; or nothing.

    Example:
        three seeds reach a p of 0.25 at best, whatever they show.
    """
    n, m = _units(study), len(study.claims)
    needed = seeds_needed_for_family(m, study.alpha)
    if not m:
        return ""
    if study.about == "method" and len(study.replicates) == 1:
        return (
            "the claims are about methods, but each arm is searched once: none can be decided, as "
            "another search may find other settings\n"
            f"  try: {nearest(study, needed)}; or --set scope=configuration, for claims about the "
            "settings that one search finds"
        )
    if n < needed:
        claims = "one claim needs" if m == 1 else f"{m} claims need"
        return (
            f"{claims} at least {needed} {_unit(study)}s; with {n} none can be decided\n"
            f"  try: {nearest(study, needed)}"
        )
    looks = study.confirm.looks
    if looks and looks[-1] < n:
        return (
            f"confirm.looks ends at {looks[-1]}, but there are {n} replicates: the looks spend all "
            f"of alpha, so that claims which the last {n - looks[-1]} replicates decide may err in "
            "up to twice as many studies\n"
            f"  try: --set confirm.looks=[{','.join(map(str, [*looks, n]))}]"
        )
    return ""


def power_lines(study: Study, pilot: Pilot) -> Iterator[str]:
    """What each claim's units can show, and what the margin would take.

    Args:
        study: checked.
        pilot: the earlier study.
    """
    n, m = _units(study), len(study.claims)
    if not m:
        yield "claims: none declared; whatever the report compares is exploratory"
        return
    unit, needed = _unit(study), seeds_needed_for_family(m, study.alpha)
    yield (
        f"claims: {m}, about the {study.about}, α = {study.alpha:g} for all together; {needed} "
        f"{unit}s are needed, {n} are planned, whose smallest p is {smallest_p(n):.2g}"
    )
    effect = minimum_detectable_effect(n, m, study.alpha)
    if effect is None:
        return
    stated = Spread(study.pilot_sd) if study.pilot_sd else None
    spreads, told = {}, {}
    for name, metric in ((str(c["id"]), c["metric"]) for c in study.claims):
        cost = metric in study.claimed_costs  # of which neither the pilot's sd is nor the margin
        spreads[name] = pilot.spreads.get(name, None if cost else stated)
        text = _detectable(study, effect, spreads[name], None if cost else study.margin)
        told.setdefault(text, []).append(name)
    for text, claims in told.items():
        yield f"  {', '.join(claims)}: {text}"
    known = [spread for spread in spreads.values() if spread]
    if len(study.replicates) > 1 and any(spread.unit == "seed" for spread in known):
        yield (
            "  note: the earlier study searched once: the luck of a search is not in its sd, and "
            "differences must be larger than that"
        )
    yield from _proposals(study, known)


def _units(study: Study) -> int:
    parts = study.replicates
    return len(parts) if len(parts) > 1 else study.confirm.count


def _unit(study: Study) -> str:
    return "replicate" if len(study.replicates) > 1 else "seed"


def _detectable(study: Study, effect: float, spread: Spread | None, margin: float | None) -> str:
    """What a claim's units can show with 80 % power, and what the margin would take."""
    if spread is None:
        return (
            f"can show {effect:.2f} standard deviations of the paired differences with 80 % power "
            "(pilot_sd, or --pilot STUDY, puts it into the metric's unit)"
        )
    if not math.isfinite(spread.limit):
        return "the pilot has too few units to tell the spread"
    planned = spread.of(study.confirm.count)
    sd = spread.limit * planned
    limit = f", its upper limit {sd:.4f}" if spread.units else ""
    text = (
        f"can show a difference of {effect * sd:.4f} with 80 % power (pilot sd {planned:.4f}"
        f"{limit})"
    )
    if margin is None:
        return text
    wanted = seeds_for(margin / sd, len(study.claims), study.alpha)
    takes = f"{wanted} {_unit(study)}s" if wanted else f"more {_unit(study)}s than can be had"
    return f"{text}; one of {margin:g}, the margin, would take {takes}"


def _proposals(study: Study, spreads: list[Spread]) -> Iterator[str]:
    """Better splits of the same cost, for the claim whose differences are spread widest."""
    divided = [spread for spread in spreads if spread.search is not None]
    if study.search is None or len(study.replicates) == 1:
        return
    if not divided:
        if spreads:
            yield (
                "  the best split between replicates and seeds: not known; a pilot with two seeds "
                "per replicate tells the luck of the search from that of the seed"
            )
        return
    widest = max(divided, key=lambda spread: spread.of(study.confirm.count))
    better = list(better_splits(study, widest.search, widest.seed))
    for options, design, shown in better:
        fewer = design.trials < study.search.trials_per_arm
        yield (
            f"  a better split of the same cost: {options} can show {widest.limit * shown:.4f}"
            + ", as far as fewer trials leave the spread as it is" * fewer
        )
    if not better:
        yield "  the cost is split well: no other split between replicates and seeds shows 5 % less"


def pilot_sds(report: Path) -> dict[str, Spread]:
    """The spread of the units' differences in an earlier report, by claim.

    Args:
        report: a `report.json`; none gives none.

    Raises:
        StudyError: it is damaged.
    """
    if not report.exists():
        return {}
    try:
        return dict(_spreads(json.loads(report.read_text())["comparisons"]))
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        raise StudyError(
            f"{report} is damaged: it is not what study.report wrote\n"
            f"  try: python -m study.report {report.parent.parent.name}, which writes it again"
        ) from None


def _spreads(comparisons: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, Spread]]:
    for comparison in comparisons:
        dz, mean = comparison["dz"], comparison["mean_difference"]
        if comparison.get("claim") and dz and mean:
            units = comparison.get("n_units") or comparison.get("n_pairs") or 0
            yield (
                str(comparison["claim"]),
                Spread(
                    abs(mean / dz),
                    units,
                    comparison.get("sd_search"),
                    max(1, len(comparison.get("seeds") or ()) // max(1, units)),
                    comparison.get("unit_of_analysis", "seed"),
                ),
            )


def pilot_of(storage: str, named: str | None, own: str) -> Pilot:
    """What an earlier study has measured: the one that is named, or one of the same name.

    Raises:
        StudyError: the named one does not exist, or is damaged.
    """
    with contextlib.ExitStack() as stack:
        if is_address(storage):
            path = Path(stack.enter_context(tempfile.TemporaryDirectory())) / (named or own)
            fetch_report(storage, path, needed=bool(named))
        else:
            path = Path(storage) / (named or own)
        folder = Folder(path)
        if named:
            folder.load()
        spreads = pilot_sds(folder.report / "report.json")
        return Pilot(spreads, *_mean_seconds(folder.runs_csv))


def _mean_seconds(runs: Path) -> tuple[float | None, float | None]:
    """Of a trial, and of a run of the confirmation, in an earlier table of runs."""
    spent: dict[bool, list[float]] = {True: [], False: []}
    if not runs.exists():
        return None, None
    with contextlib.suppress(ValueError, KeyError, TypeError, csv.Error), runs.open() as table:
        for row in csv.DictReader(table):
            if row["status"] in ("finished", "stopped", "diverged"):
                spent[row["phase"] in _SEARCHED].append(float(row["seconds"]))
    trial, run = (fmean(found) if found else None for found in (spent[True], spent[False]))
    return trial, run

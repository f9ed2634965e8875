"""What the planned units can show: power by claim from a pilot's spread, and better designs."""

from __future__ import annotations

import contextlib
import json
import math
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from analysis.statistics.power import (
    best_split,
    minimum_detectable_effect,
    sd_upper_limit,
    seeds_for,
    seeds_needed_for_family,
    smallest_p,
)
from study.design import Study, arms_of
from study.planning.duration import share_trained
from study.storage import Folder, fetch_report, is_address


@dataclass(frozen=True)
class Spread:
    """How far a claim's differences were spread in an earlier study.

    Attributes:
        total: standard deviation of the units' differences.
        units: how many there were; 0 where the study file states the spread.
        search, seed: its parts between searches and between seeds, where they could be told apart.
    """

    total: float
    units: int = 0
    search: float | None = None
    seed: float | None = None

    @property
    def upper(self) -> float:
        """The upper 80 % limit of the true one: that of a small pilot is too low half the time."""
        return sd_upper_limit(self.total, self.units) if self.units else self.total


def gate(study: Study) -> str:
    """Why the design can decide none of its claims, with the nearest one that can; or nothing.

    Example:
        three seeds reach a p of 0.25 at best, whatever they show.
    """
    n, m = _units(study), len(study.claims)
    needed = seeds_needed_for_family(m, study.alpha)
    if not m:
        return ""
    if study.about == "method" and study.search and study.search.replicates == 1:
        return (
            "scope is method, but each arm is searched once: no claim can be decided, as another "
            f"search may find other settings\n  try: {_as_replicates(study, needed)}, or --set "
            "scope=configuration"
        )
    if n >= needed:
        return ""
    unit, remedy = "seeds", f"--set confirm.seeds={needed}"
    if len(study.replicates) > 1:
        unit, remedy = "replicates", _as_replicates(study, needed)
    claims = "one claim needs" if m == 1 else f"{m} claims need"
    return f"{claims} at least {needed} {unit}; with {n} none can be decided\n  try: {remedy}"


def _as_replicates(study: Study, needed: int) -> str:
    """As many replicates as are needed, each with fewer trials or seeds, at about the same cost."""
    assert study.search is not None
    total = study.search.replicates * study.search.trials_per_arm
    trials = max(1, total // needed)
    seeds = max(1, study.search.replicates * study.confirm.count // needed)
    return (
        f"--set search.replicates={needed} --set search.trials_per_arm={trials} --set "
        f"confirm.seeds={seeds}, at about the same cost"
    )


def power_lines(study: Study, pilot: Mapping[str, Spread]) -> Iterator[str]:
    """What each claim's units can show, and what the margin would take.

    Args:
        study: checked.
        pilot: the spread in an earlier study, by claim.
    """
    n, m = _units(study), len(study.claims)
    if not m:
        yield "claims: none declared; whatever the report compares is exploratory"
        return
    unit = "replicates" if len(study.replicates) > 1 else "seeds"
    yield (
        f"claims: {m}, about the {study.about}, α = {study.alpha:g} for all together; smallest p "
        f"that {n} {unit} can reach: {smallest_p(n):.2g}"
    )
    effect = minimum_detectable_effect(n, m, study.alpha)
    if effect is None:
        return
    for claim in study.claims:
        stated = Spread(study.pilot_sd) if study.pilot_sd else None
        spread = pilot.get(str(claim["id"]), stated)
        yield f"  {claim['id']}: {_detectable(study, effect, spread, m, unit)}"
        if spread and spread.search is not None and spread.seed is not None:
            yield from _better_split(study, spread)


def _units(study: Study) -> int:
    parts = study.replicates
    return len(parts) if len(parts) > 1 else study.confirm.count


def _detectable(study: Study, effect: float, spread: Spread | None, m: int, unit: str) -> str:
    """What a claim's units can show with 80 % power, and what the margin would take."""
    if spread is None:
        return (
            f"can show {effect:.2f} standard deviations of the paired differences with 80 % power "
            "(pilot_sd, or --pilot STUDY, puts it into the metric's unit)"
        )
    if not math.isfinite(spread.upper):
        return "the pilot has too few units to tell the spread"
    sd = spread.upper
    limit = f", its upper limit {sd:.4f}" if spread.units else ""
    text = (
        f"can show a difference of {effect * sd:.4f} with 80 % power (pilot sd {spread.total:.4f}"
        f"{limit})"
    )
    if study.margin is None:
        return text
    wanted = seeds_for(study.margin / sd, m, study.alpha)
    takes = f"{wanted} {unit}" if wanted else f"more {unit} than can be had"
    return f"{text}; one of {study.margin:g}, the margin, would take {takes}"


def _better_split(study: Study, spread: Spread) -> Iterator[str]:
    """Another number of replicates and seeds that measures better at the same cost, if any does."""
    search = study.search
    if search is None or len(study.replicates) == 1:
        return
    arms = arms_of(study)
    longest = max((a.length(study.tuned_under) or (1, 1))[1] for a in arms.values())
    trials = search.trials_per_arm * share_trained(search.pruned, longest)
    c_search, c_confirm = len(arms) * trials, float(len(arms) * len(study.conditions))
    now, seeds = len(study.replicates), study.confirm.count
    found = best_split(
        c_search,
        c_confirm,
        spread.search,
        spread.seed,
        now * (c_search + seeds * c_confirm),
        needed=seeds_needed_for_family(len(study.claims), study.alpha),
    )
    error = math.sqrt((spread.search**2 + spread.seed**2 / seeds) / now)
    if found and found.se < 0.95 * error:
        yield (
            f"    at the same cost {found.replicates} replicates of {found.seeds} "
            f"seed{'s' * (found.seeds > 1)} would have a standard error of {found.se:.4f} instead "
            f"of {error:.4f}"
        )


def pilot_sds(report: Path) -> dict[str, Spread]:
    """The spread of the units' differences in an earlier report, by claim.

    Args:
        report: a `report.json`; none gives none.
    """
    if not report.exists():
        return {}
    found = {}
    for comparison in json.loads(report.read_text())["comparisons"]:
        dz, mean = comparison["dz"], comparison["mean_difference"]
        if comparison.get("claim") and dz and mean:
            units = comparison.get("n_units") or comparison.get("n_pairs") or 0
            found[str(comparison["claim"])] = Spread(
                abs(mean / dz), units, comparison.get("sd_search"), comparison.get("sd_seed")
            )
    return found


def pilot_of(storage: str, named: str | None, own: str) -> dict[str, Spread]:
    """The spread in an earlier study: the one that is named, or one of the same name.

    Raises:
        StudyError: the named one does not exist.
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
        return pilot_sds(folder.report / "report.json")

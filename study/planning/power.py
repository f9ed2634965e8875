"""What the planned seeds can show: power by claim, from a pilot's spread."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from analysis.statistics.power import (
    minimum_detectable_effect,
    seeds_for,
    seeds_needed_for_family,
    smallest_p,
)
from study.design import Study
from study.storage import Folder, fetch_report, is_address


def power_lines(study: Study, pilot: Mapping[str, float]) -> Iterator[str]:
    n, m = len(study.confirm.seed_list), len(study.claims)
    if not m:
        yield "claims: none declared; whatever the report compares is exploratory"
        return
    needed = seeds_needed_for_family(m, study.alpha)
    yield (
        f"claims: {m}, α = {study.alpha:g} by Holm; smallest p that {n} seeds can reach: "
        f"{smallest_p(n):.2g}"
    )
    if n < needed:
        yield (
            f"  WARNING: {m} claims need at least {needed} seeds; with {n} none can be decided"
            f"  (try: --set confirm.seeds={needed})"
        )
    effect = minimum_detectable_effect(n, m, study.alpha)
    if effect is None:
        return
    for claim in study.claims:
        sd = pilot.get(str(claim["id"]), study.pilot_sd)
        yield f"  {claim['id']}: {_detectable(study, effect, sd, m)}"


def _detectable(study: Study, effect: float, sd: float | None, m: int) -> str:
    """What a claim's seeds can show with 80 % power, and what the margin would take."""
    if sd is None:
        return (
            f"can show {effect:.2f} standard deviations of the paired differences with 80 % power "
            "(pilot_sd, or --pilot STUDY, puts it into the metric's unit)"
        )
    text = f"can show a difference of {effect * sd:.4f} with 80 % power (pilot sd {sd:.4f})"
    if study.margin is None:
        return text
    seeds = seeds_for(study.margin / sd, m, study.alpha)
    wanted = f"{seeds} seeds" if seeds else "more seeds than can be had"
    return f"{text}; one of {study.margin:g}, the margin, would take {wanted}"


def pilot_sds(report: Path) -> dict[str, float]:
    """Standard deviations of the paired differences in an earlier report, by claim.

    Args:
        report: a `report.json`; none gives none.
    """
    if not report.exists():
        return {}
    found = {}
    for comparison in json.loads(report.read_text())["comparisons"]:
        dz, mean = comparison["dz"], comparison["mean_difference"]
        if comparison.get("claim") and dz and mean:
            found[str(comparison["claim"])] = abs(mean / dz)
    return found


def pilot_of(storage: str, named: str | None, own: str) -> dict[str, float]:
    """The spread in an earlier study: the one that is named, or one of the same name.

    Raises:
        StudyError: the named one does not exist.
    """
    from study.planning.power import pilot_sds

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

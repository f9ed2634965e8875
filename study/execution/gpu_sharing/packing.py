"""Packing: how many trainings share a card, as many as fit and make it faster.

The decision and what is kept of it. The trainings that it rests on are real ones, run by
`study.execution.gpu_sharing.bench`; nothing here knows Ray or a GPU.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from study.design import Study, timed
from study.execution.gpu_sharing.heaviest_trainings import heaviest
from study.records import digest, work, write_whole

MARGIN = 0.10  # of the card's memory stays free: for fragments, and what other trainings need more
WORTH = 1.05  # one more training must raise the steps per second of the card by this factor
NOT_FASTER = 2  # numbers in a row that end the search: a single slow one may be noise
MOST = 16  # on one card; beyond it the processes' own cost on the host is what counts


class Unmeasured(Exception):
    """What happens on a card could not be measured; the text says why."""


@dataclass(frozen=True)
class Card:
    """The kind of card that trainings are packed on.

    Attributes:
        name: as its driver tells.
        gib: its memory.
        most: trainings that the cores beside it allow at a time, at least 2.
    """

    name: str
    gib: float
    most: int


@dataclass(frozen=True)
class Seen:
    """What so many trainings at a time did on one card.

    Attributes:
        together: their number.
        steps_per_s: training steps of all of them.
        gib: memory of the card at its peak, with each process's CUDA context and with whatever
            else was on the card.
    """

    together: int
    steps_per_s: float
    gib: float


class Bench(Protocol):
    """A card on which trainings can be run to see what they do."""

    card: Card

    def memory(self, training: Mapping[str, Any]) -> float:
        """GiB of the card while one such training runs; raises Unmeasured."""

    def see(self, training: Mapping[str, Any], together: int) -> Seen:
        """Run so many at a time; called with 1, 2, 3, … ; raises Unmeasured."""


@dataclass(frozen=True)
class Packing:
    """How many trainings share a card, and why."""

    together: int
    seen: tuple[Seen, ...]
    why: str


def pack(measure: Callable[[int], Seen], *, gib: float, most: int) -> Packing:
    """Measure 1, 2, 3, … trainings on a card, as long as it may pay, and decide.

    The next number is tried only if, by what was seen, it leaves `MARGIN` of the memory free.
    Chosen is the smallest number that no larger one beats by `WORTH`.

    Args:
        measure: runs so many trainings on one card at the same time.
        gib: memory of the card.
        most: not more than this.

    Raises:
        Unmeasured: not even one training could be measured.
    """
    seen = [measure(1)]
    why = _reason_to_stop(seen, gib=gib, most=most)
    while why is None:
        try:
            found = measure(len(seen) + 1)
        except Unmeasured as reason:
            why = f"{len(seen) + 1} at a time could not be run: {reason}"
            break
        if found.gib > (1 - MARGIN) * gib:
            why = f"{found.together} take {found.gib:.1f} GiB, more than {1 - MARGIN:.0%} of it"
            break
        seen.append(found)
        why = _reason_to_stop(seen, gib=gib, most=most)
    return Packing(_chosen(seen), tuple(seen), why)


def _reason_to_stop(seen: Sequence[Seen], *, gib: float, most: int) -> str | None:
    count = len(seen)
    if count >= most:
        return (
            f"no more than {most} at a time by the number of cores"
            if most < MOST
            else (f"no more than {MOST} are tried")
        )
    if count > NOT_FASTER:
        before = max(s.steps_per_s for s in seen[:-NOT_FASTER])
        if max(s.steps_per_s for s in seen[-NOT_FASTER:]) < WORTH * before:
            return f"more make it less than {WORTH - 1:.0%} faster"
    # The context of a process and what others hold on the card are in `gib`, so this is never
    # too little.
    if seen[-1].gib * (count + 1) / count > (1 - MARGIN) * gib:
        return f"{count + 1} would need more than {1 - MARGIN:.0%} of its memory"
    return None


def _chosen(seen: Sequence[Seen]) -> int:
    return next(
        s.together
        for i, s in enumerate(seen)
        if all(later.steps_per_s < WORTH * s.steps_per_s for later in seen[i + 1 :])
    )


def trainings_per_card(
    study: Study,
    folder: Path,
    *,
    open_bench: Callable[[], AbstractContextManager[Bench]],
    say: Callable[[str], None],
) -> int:
    """How many trainings of a study one card takes, measured once per study and kind of card.

    Args:
        study: the study; its heaviest trainings are measured.
        folder: of the study; what was measured is kept in `packing.json`.
        open_bench: gives a card; raises Unmeasured where there is none to measure on.
        say: called with the result, or why it is one per card, in one line.

    Returns:
        1 if it could not be measured: two trainings that do not fit would end each other; and 1
        where seconds count, since trainings that share a card slow each other down.
    """
    clock = _clock(study)
    if clock:
        say(f"gpus: auto is one training per card: {clock}")
        return 1
    file = folder / "packing.json"
    try:
        with open_bench() as bench:
            trainings = [
                work(study.trains, settings) | study.task(required=[])
                for settings in heaviest(study)
            ]
            asked = digest([asdict(bench.card), [training["config"] for training in trainings]])
            known = _kept(file, asked)
            packing = known or _measured(bench, trainings)
    except Unmeasured as reason:
        say(f"gpus: auto is one training per card: {reason}")
        return 1
    if not known:
        kept = {"asked": asked, "card": asdict(bench.card)} | asdict(packing)
        write_whole(file, json.dumps(kept, indent=2))
    say(f"gpus: auto is {_described(packing, bench.card)}{', as measured before' if known else ''}")
    return packing.together


def _clock(study: Study) -> str:
    """How the study's results depend on the time that trainings take, or nothing."""
    if any(timed(study, condition) for condition in study.conditions):
        return "trainings are budgeted in seconds"
    search = study.search
    if "seconds" in study.claimed_costs:
        return "claims are about seconds"
    if search and "seconds" in search.metrics:
        return "search.metric has seconds"
    if search and search.budget and search.budget.device_hours is not None:
        return "search.budget has device_hours"
    return ""


def _measured(bench: Bench, trainings: Sequence[Mapping[str, Any]]) -> Packing:
    heavy = max(trainings, key=bench.memory) if len(trainings) > 1 else trainings[0]
    return pack(
        lambda together: bench.see(heavy, together),
        gib=bench.card.gib,
        most=min(bench.card.most, MOST),
    )


def _kept(file: Path, asked: str) -> Packing | None:
    """What an earlier command measured, if it is about the same trainings and the same card."""
    try:
        data = json.loads(file.read_text())
        if data["asked"] == asked:
            seen = tuple(Seen(**one) for one in data["seen"])
            return Packing(int(data["together"]), seen, str(data["why"]))
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None


def _described(packing: Packing, card: Card) -> str:
    one = packing.together == 1
    rates = ", ".join(f"{s.together}: {s.steps_per_s:.1f}" for s in packing.seen)
    at = next(s for s in packing.seen if s.together == packing.together)
    return (
        f"{packing.together} training{'s' * (not one)} per card ({card.name}): {at.gib:.1f} of "
        f"{card.gib:.1f} GiB at the heaviest settings; steps/s with so many at a time {rates}; "
        f"{packing.why}"
    )

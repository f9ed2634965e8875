"""The replicates of a study: each a search of its own and the confirmation of its winners.

A study that searches once, or not at all, is its own only one. Replicates are worked on in order,
so that a study that is cut short has whole ones; a later one begins where those before it leave
slots free. What a replicate finds depends on nothing but the study file, however many run side by
side.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from optuna.storages import BaseStorage

from study.design import Study
from study.phases.confirmation import ConfirmSource, confirmation_jobs
from study.phases.optuna_storage import open_storage
from study.phases.rebuild import lost_records
from study.phases.search import SearchSource
from study.records import Ending, Job, Ledger, Record
from study.workload import Settings


class Folder(Protocol):
    """The study's folder, which keeps each replicate's winners."""

    path: Path

    def winners(self, replicate: int | None = None) -> dict[str, Settings | None] | None:
        """Those of a replicate, if its search has ended."""

    def freeze(self, winners: Mapping[str, Settings | None], replicate: int | None = None) -> None:
        """Keep them before anything is confirmed."""


class ReplicatesSource:
    """Hands out the jobs of all replicates, search and confirmation.

    Args:
        study: with one replicate or more.
        folder: of the study.
        ledger: where endings are kept.
        slots: tells how many jobs run at the same time; asked when a search begins.
        decided: asked at each planned look, with the number of replicates that are complete by
            then; True ends the study there.
    """

    def __init__(
        self,
        study: Study,
        folder: Folder,
        ledger: Ledger,
        *,
        slots: Callable[[], int],
        decided: Callable[[int], bool] = lambda units: False,
    ) -> None:
        # Opening it takes half a second: once for all replicates, and only if one is searched.
        storage = functools.cache(lambda: open_storage(folder.path))
        lost = lost_records(study, folder.path, ledger)
        self._parts = {
            part.number: _Replicate(part, folder, ledger, slots, storage, part.number in lost)
            for part in study.replicates
        }
        self._decided = decided
        # The last one is the report itself.
        self._looks = [look for look in study.confirm.looks or [] if look < len(self._parts)]
        self._look_if_due()

    def remaining(self) -> int:
        """Jobs still to be handed out, those after a look included while it has not decided."""
        return sum(part.remaining() for part in self._parts.values())

    def next(self) -> Job | None:
        """A job of the first replicate that has one to start now, none beyond the next look."""
        for number, part in self._parts.items():
            if self._looks and number > self._looks[0]:
                return None
            job = part.next()
            if job is not None:
                return job
        return None

    def _look_if_due(self) -> None:
        """Ask whether the claims are decided once the replicates up to a look are complete."""
        while self._looks and all(
            part.complete for number, part in self._parts.items() if number <= self._looks[0]
        ):
            look = self._looks.pop(0)
            if self._decided(look):
                self._parts = {n: part for n, part in self._parts.items() if n <= look}
                self._looks = []

    def on_records(self, job: Job, records: Sequence[Record]) -> bool:
        """As of the replicate's phase."""
        return self._parts[job.replicate].source(job).on_records(job, records)

    def on_end(self, ending: Ending) -> None:
        """Keep the ending; may freeze the replicate's winners and begin its confirmation."""
        self._parts[ending.job.replicate].on_end(ending)
        self._look_if_due()

    def planned(self) -> dict[str, int]:
        """Jobs that each arm is to have, rechecks aside."""
        counts: dict[str, int] = {}
        for part in self._parts.values():
            for arm, count in part.planned().items():
                counts[arm] = counts.get(arm, 0) + count
        return counts

    def caveats(self) -> list[str]:
        """Why the search is not reproducible, for the user; none if it is."""
        return next(iter(self._parts.values())).caveats()


class _Replicate:
    """One replicate: its search, its rechecks, its confirmation, one after the other."""

    def __init__(
        self,
        study: Study,
        folder: Folder,
        ledger: Ledger,
        slots: Callable[[], int],
        storage: Callable[[], BaseStorage],
        lost: bool,
    ) -> None:
        self._study, self._folder, self._ledger, self._slots = study, folder, ledger, slots
        self._storage = storage
        self._opened: SearchSource | None = None
        self._rechecks: ConfirmSource | None = None
        self._confirm: ConfirmSource | None = None
        self._running: dict[str, str] = {}  # phase by key
        without_search = {arm: {} for arm in study.arms} if study.search is None else None
        winners = without_search or folder.winners(study.number)
        if winners is not None:
            self._begin_confirmation(winners)
        # Trials and rechecks whose records were lost since; nothing else of the search is redone.
        self._again: list[SearchSource | ConfirmSource] = []
        if self._confirm is not None and lost:
            self._again.append(self._search)
        if self._confirm is not None and self._lacks_rechecks():
            jobs = [job for job in self._search.recheck_jobs() if ledger.read(job.key) is None]
            self._rechecks = ConfirmSource(jobs, ledger, study.trains)
            self._again.append(self._rechecks)

    def _lacks_rechecks(self) -> bool:
        """Whether fewer were kept than there can be; opening the search tells how many."""
        asked = self._study.search.rechecks if self._study.search else None
        if asked is None:
            return False
        kept = sum(1 for _ in self._ledger.all("recheck", self._study.number))
        return kept < len(self._study.arms) * asked.top * len(asked.seeds)

    @property
    def _search(self) -> SearchSource:
        """Opened when first needed: every arm of it has an Optuna study."""
        if self._opened is None:
            self._opened = SearchSource(
                self._study,
                self._folder.path,
                self._ledger,
                slots=self._slots(),
                storage=self._storage(),
            )
        return self._opened

    def caveats(self) -> list[str]:
        return [] if self._confirm is not None else self._search.caveats()

    def planned(self) -> dict[str, int]:
        trials = self._study.search.trials_per_arm if self._study.search else 0
        runs = self._study.confirm.count * len(self._study.conditions)
        known = self._opened.planned() if self._opened else {}
        return {arm: known.get(arm, trials) + runs for arm in self._study.arms}

    def remaining(self) -> int:
        if self._confirm is not None:
            return self._confirm.remaining() + self._left_again
        runs = self._study.confirm.count * len(self._study.conditions) * len(self._study.arms)
        if self._rechecks is not None:
            return self._rechecks.remaining() + runs
        return self._search.remaining() + runs

    @property
    def _left_again(self) -> int:
        return sum(_left(source) for source in self._again)

    @property
    def complete(self) -> bool:
        """Whether its confirmation has ended."""
        return self._confirm is not None and not self.remaining() and not self._running

    def next(self) -> Job | None:
        if self._confirm is None:
            self._advance()
        source = self._confirm or self._rechecks or self._search
        job = next((again for again in self._again if _left(again)), source).next()
        if job is not None:
            self._running[job.key] = job.phase
        return job

    def source(self, job: Job) -> SearchSource | ConfirmSource:
        if job.phase == "search":
            return self._search
        found = self._rechecks if job.phase == "recheck" else self._confirm
        assert found is not None
        return found

    def on_end(self, ending: Ending) -> None:
        self.source(ending.job).on_end(ending)
        self._running.pop(ending.job.key, None)

    def _advance(self) -> None:
        """Begin the next phase once all jobs of this one have ended."""
        current = self._rechecks or self._search
        if self._running or current.remaining():
            return
        if self._rechecks is None:
            jobs = self._search.recheck_jobs()
            self._rechecks = ConfirmSource(jobs, self._ledger, self._study.trains)
            if self._rechecks.remaining():
                return
        winners = self._search.winners()
        self._folder.freeze(winners, self._study.number)
        self._begin_confirmation(winners)

    def _begin_confirmation(self, winners: Mapping[str, Settings | None]) -> None:
        jobs = confirmation_jobs(self._study, winners, self._folder.path)
        self._confirm = ConfirmSource(jobs, self._ledger, self._study.trains)


def _left(again: SearchSource | ConfirmSource) -> int:
    """Jobs with lost records; a search that has ended has no other interrupted ones."""
    return again.interrupted if isinstance(again, SearchSource) else again.remaining()

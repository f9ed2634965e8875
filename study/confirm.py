"""How are the winners trained again, on fresh seeds that all arms and conditions share?"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path

from contrastive.config import TrainConfig
from study.job import Job, Record, work
from study.ledger import Ending, Ledger
from study.spec import Settings, Study


def confirmation_jobs(
    study: Study, winners: Mapping[str, Settings | None], folder: Path
) -> list[Job]:
    """All runs of the confirmation, seed by seed: an interrupted study is balanced and paired.

    Args:
        study: with its seeds.
        winners: what the search chose for each arm; an arm without a winner has no runs.
        folder: of the study.
    """
    cells = itertools.product(study.confirm.seed_list, study.conditions, study.arms)
    return [
        _job(study, arm, condition, seed, chosen, folder)
        for seed, condition, arm in cells
        if (chosen := winners.get(arm)) is not None
    ]


def _job(study: Study, arm: str, condition: str, seed: int, chosen: Settings, folder: Path) -> Job:
    # The condition has the last word here too; what it sets was never searched.
    config = TrainConfig(**(study.fixed(arm, condition) | chosen | study.conditions[condition]))
    return Job(
        phase="confirm",
        arm=arm,
        condition=condition,
        seed=seed,
        number=None,
        **work(config),
        drawn=dict(chosen),
        checkpoint=str(folder / "checkpoints" / f"confirm-{arm}-{condition}-{seed:04d}.pt"),
    )


class ConfirmSource:
    """Hands out the runs that have not ended yet, in order; never stops one.

    A run that failed for a reason of the machine is left out of the ledger by the caller, so that
    the same seed is run again; diverged ones and those that raise are results.
    """

    def __init__(self, jobs: Sequence[Job], ledger: Ledger) -> None:
        self._ledger = ledger
        self._waiting = [job for job in jobs if ledger.read(job.key) is None]

    def remaining(self) -> int:
        """Runs still to be handed out."""
        return len(self._waiting)

    def next(self) -> Job | None:
        """The next run."""
        return self._waiting.pop(0) if self._waiting else None

    def on_records(self, job: Job, records: Sequence[Record]) -> bool:
        """Confirmation runs are never stopped early."""
        return False

    def on_end(self, ending: Ending) -> None:
        """Keep the ending."""
        self._ledger.write(ending)

"""The confirmation phase: the winners are trained again on fresh seeds, shared by all arms."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path

from study.design import Study, arms_of, epochs_on_test, twin_seed
from study.errors import StudyError
from study.records import Ending, Job, Ledger, Record, work
from study.workload import Settings, Workload


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
    on_test = epochs_on_test(study)
    return [
        _job(study, arm, condition, seed, chosen, folder, on_test.get((arm, condition), {}))
        for seed, condition, arm in cells
        if (chosen := winners.get(arm)) is not None
    ]


def _job(
    study: Study,
    arm: str,
    condition: str,
    seed: int,
    chosen: Settings,
    folder: Path,
    test_epochs: dict[str, list[int]],
) -> Job:
    settings = arms_of(study)[arm].complete(condition, chosen)
    return Job(
        phase="confirm",
        arm=arm,
        condition=condition,
        seed=seed,
        training_seed=twin_seed(study, arm, seed),
        number=None,
        **work(study.trains, settings),
        **study.task(required=[*study.confirm.metrics, *study.claimed_costs]),
        drawn=dict(chosen),
        folder=str(folder),
        replicate=study.number,
        test_epochs=test_epochs,
        to_keep=tuple(study.confirm.keep or ()),
    )


def same_training(ended: Job, planned: Job, workload: Workload) -> bool:
    """Whether both train the same; a setting that came later has its default in older records."""
    defaults = dict(workload.defaults)
    return defaults | ended.config == defaults | planned.config


class ConfirmSource:
    """Hands out the runs that have not ended yet, in order; never stops one.

    A run that failed is run again when the study is resumed, with the same seed: its machine may
    have been at fault. One that diverged is a result.

    Raises:
        StudyError: a run was made with other settings than the winners' of now.
    """

    def __init__(self, jobs: Sequence[Job], ledger: Ledger, workload: Workload) -> None:
        self._ledger = ledger
        ended = {job.key: ledger.read(job.key) for job in jobs}
        others = [
            j.key for j in jobs if (e := ended[j.key]) and not same_training(e.job, j, workload)
        ]
        if others:
            raise StudyError(
                f"{len(others)} runs, the first {others[0]}, were made with other settings than "
                "those that are to be confirmed now\n"
                "  try: restore winners.json and search.db of the study's folder, or start anew "
                "with --name"
            )
        self._waiting = [
            job for job in jobs if (e := ended[job.key]) is None or e.outcome == "failed"
        ]

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

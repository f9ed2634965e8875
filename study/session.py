"""A session: one command's work on a study, from search to confirmation to report."""

from __future__ import annotations

import contextlib
import functools
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

# Names of the lazy packages are looked up in functions: Ray starts while they are imported.
from analysis.errors import TableError
from study import phases, planning
from study.design import Study
from study.errors import StudyError
from study.execution.ray_thread import RayThread
from study.execution.watchdog import Stopping
from study.masking import masked
from study.records import Ending, Environment, Ledger, environment_here
from study.reporting import (
    Seen,
    close_study,
    ended_units,
    hardware,
    note_look,
    seen_elsewhere,
    versions,
    write_tables,
)
from study.storage import Folder, RemoteStudy, fetch_others, is_address, shown
from study.tracking import Display, Tracker
from study.workload import own_code


@dataclass(frozen=True)
class Request:
    """What a command asks to be done with a study.

    Attributes:
        study: checked.
        storage: folder, or address, in which studies are kept.
        address: of a Ray cluster; None: this machine.
        resume: continue an existing study.
        command: as the user could type it again, without --name and --resume.
        named: the same with --name.
        own_process: whether the process is the command's own, which may end it.
        other_environment: continue although it changed, which moves numbers.
        pilot: an earlier study that has measured the spread, for the plan.
        stopping: asks to end before all is done.
    """

    study: Study
    storage: str = "studies"
    address: str | None = None
    resume: bool = False
    command: str = ""
    named: str = ""
    own_process: bool = False
    other_environment: bool = False
    pilot: str | None = None
    stopping: Stopping = field(default_factory=Stopping)


def carry_out(request: Request, console: Console) -> tuple[int, Folder]:
    """The whole study, from wherever it stands.

    Returns:
        0, or 1 if a training failed; and the study's folder.

    Raises:
        StudyError: the study exists and is not to be resumed, or has another design.
        Paused: it cannot continue as things are, but can be resumed.
    """
    study = request.study
    check_environment(study)
    remote = None
    if is_address(request.storage):
        remote = RemoteStudy(request.storage, study.name, _warn)
    folder = Folder(remote.path if remote else Path(request.storage) / study.name)
    storage = shown(request.storage) if remote else request.storage
    ray = RayThread(request.address, study)
    if not request.resume:
        if remote:
            remote.refuse_existing(command=request.command, named=request.named)
        folder.refuse_existing(command=request.command, named=request.named, storage=storage)
    elif not remote:
        folder.refuse_missing(command=request.command, storage=storage)
    try:
        with folder.locked(), remote.kept() if remote else contextlib.nullcontext():
            return _begun(request, folder, remote, ray, storage, console), folder
    finally:
        ray.end()
        if not request.own_process:  # which can say why it ends in the meantime
            ray.close()


def _print_plan(request: Request, console: Console) -> None:
    """What the user should know before anything is spent."""
    from study.execution import slots_here

    study = request.study
    if refused := planning.gate(study):
        console.print(f"WARNING: {refused}", style="bold red", markup=False)
    for line in planning.identical_lines(study):
        console.print(f"note: {line}", markup=False)
    if study.trains.open:
        console.print(f"note: {study.workload} takes any setting: names cannot be checked")
    if not request.resume:
        pilot = planning.pilot_of(request.storage, request.pilot, study.name)
        slots = None if request.address else slots_here(study.resources)
        for line in planning.start_lines(study, slots=slots, pilot=pilot):
            console.print(line, markup=False)


def _begun(
    request: Request,
    folder: Folder,
    remote: RemoteStudy | None,
    ray: RayThread,
    storage: str,
    console: Console,
) -> int:
    """A session; of one that was refused before anything ran nothing is left."""
    fresh = not (folder.study_yaml.exists() or folder.has_trained())
    try:
        return _session(request, folder, ray, storage, console)
    except StudyError:
        if fresh and not (folder.path / "runs").exists():
            # The next try shall not be refused because the study exists.
            if remote:
                remote.forget()
            shutil.rmtree(folder.path, ignore_errors=True)
        raise


def _session(
    request: Request, folder: Folder, ray: RayThread, storage: str, console: Console
) -> int:
    study = request.study
    environment = _environment(request)
    identity = folder.open(
        study, command=request.command, storage=storage,
        environment=environment, other_environment=request.other_environment,
    )  # fmt: skip
    if not request.resume:
        ray.begin()
    with console.status("the plan is made while Ray starts"):
        _print_plan(request, console)
    sessions = [entry for entry in folder.log.entries() if "session" in entry]
    if not sessions or sessions[-1].get("seeds") != study.all_seeds:
        _note_seen(request, folder, console)
    number = len(folder.log.entries()) + 1
    folder.log.append(
        session=number, command=masked(request.named), versions=versions(), hardware=hardware(),
        seeds=study.all_seeds, hash=folder.hash(), units=ended_units(folder, study),
        environment=environment,
    )  # fmt: skip
    tags = {
        "study": study.name, "study.id": identity, "study.hash": folder.hash(),
        "question": study.question, "mlflow.note.content": study.question,
    }  # fmt: skip
    tracker = Tracker(study.name, tags=tags, warn=_warn, applies=study.trains.applies)
    try:
        return Session(request, folder, tracker, console, number, storage, ray).run()
    finally:
        tracker.close()


def _environment(request: Request) -> Environment | None:
    """Of the trainings of this session; None on a cluster, whose nodes say it run by run."""
    if request.address:
        return None
    resources, code = request.study.resources, own_code(request.study.beside)
    found = environment_here(threads=resources.cpus, gpus=bool(resources.gpus))
    return found | ({"own code": code} if code else {})


def _note_seen(request: Request, folder: Folder, console: Console) -> None:
    """Say, and log, which units of a new or a grown study another study has shown already."""
    for seen in seen_before(request.study, request.storage):
        console.print(seen.told(request.study), style="" if seen.same else "bold red", markup=False)
        for entry in seen.entries():
            folder.log.append(**entry)


def seen_before(study: Study, storage: str) -> list[Seen]:
    """`seen_elsewhere` for a folder of studies, or an address; raises StudyError."""
    if not is_address(storage):
        return seen_elsewhere(study, Path(storage))
    with tempfile.TemporaryDirectory() as copies:
        fetch_others(storage, study.name, Path(copies))
        return seen_elsewhere(study, Path(copies))


def check_environment(study: Study) -> None:
    """Refuse trainings that the installed packages do not allow; raises StudyError."""
    trainings = [study.fixed(arm, c) for arm in study.arms for c in study.conditions]
    try:
        study.trains.check_environment(trainings)
    except ValueError as error:
        raise StudyError(str(error)) from None


def _warn(text: str) -> None:
    print(masked(text), file=sys.stderr)


class Session:
    """One session of one study, from wherever it stands to its report."""

    def __init__(
        self,
        request: Request,
        folder: Folder,
        tracker: Tracker,
        console: Console,
        number: int,
        storage: str,
        ray: RayThread,
    ) -> None:
        self.study, self.ray = request.study, ray
        self.own_process, self.stopping = request.own_process, request.stopping
        self.folder, self.tracker, self.console = folder, tracker, console
        self.number, self.storage = number, storage
        stamp = {"design": folder.hash(), "log": folder.log.hashes()[-1]}
        stamp |= {"code": code} if (code := own_code(request.study.beside)) else {}
        self.ledger = Ledger(folder.path, stamp)
        self.share: Any = None

    def run(self) -> int:
        try:
            self._train()
        except BaseException:
            with contextlib.suppress(Exception):  # the reason for stopping is what matters
                self._write_tables()
            raise
        self.ray.end()
        self._write_tables()
        return self._report()

    def _train(self) -> None:
        """All searches and confirmations in one go: no slot waits for a phase, no worker ends."""
        phases.mend_history(self.study, self.folder.path, self.ledger, say=_warn)
        source = phases.ReplicatesSource(
            self.study, self.folder, self.ledger, slots=self._slots, decided=self._decided
        )
        search = self.study.search
        names: tuple[str, ...] = ("confirm",)
        if search is not None:
            names = ("search", "recheck", "confirm") if search.rechecks else ("search", "confirm")
        for phase in names:
            self.tracker.phase(phase, params=self._params())
        self._execute(names, source)
        for phase in names:
            self.tracker.phase(phase, params={}, done=True)
        for part, winners in self.folder.frozen(self.study):
            for arm in (arm for arm, found in winners.items() if found is None):
                where = f" in replicate {part.number}" if part.number else ""
                text = f"{arm}: no trial of its search{where} finished"
                self.console.print(text, style="bold red")

    def _decided(self, units: int) -> bool:
        """Whether all claims are decided at a planned look, which is logged."""
        from analysis.verdicts import decide_at_look

        self._write_tables()
        note_look(self.folder, by="the study")
        try:
            verdicts = decide_at_look(
                self.folder.study_yaml, self.folder.results_csv, runs=self.folder.runs_csv
            )
        except TableError as error:
            raise StudyError(str(error)) from None
        open_claims = [claim for claim, verdict in verdicts.items() if verdict is None]
        state = f"still open: {', '.join(open_claims)}" if open_claims else "all claims are decided"
        self.console.print(f"look after {units} replicates: {state}", markup=False)
        return not open_claims

    def _execute(self, names: Sequence[str], source: phases.ReplicatesSource) -> None:
        earlier = [ending for phase in names for ending in self.ledger.all(phase)]
        self.tracker.backfill(earlier)
        if not source.remaining():
            return
        from study.execution import execute

        for caveat in source.caveats():
            self.console.print(f"note: {caveat}", markup=False)
        self._slots()
        metric = self.study.shown_metric
        title = "search and confirmation" if "search" in names else "confirmation"
        display = Display(
            title, source.planned(), metric=metric, better=self.study.better(metric),
            judge=self._score, console=self.console,
        )  # fmt: skip
        for ending in earlier:
            display.earlier(ending)
        with display:
            execute(
                source,
                share=self.share,
                folder=self.folder.path,
                session=f"session-{self.number:03d}",
                retries=self.study.resources.retries,
                monitors=(display, self.tracker),
                own_process=self.own_process,
                patience=self.study.resources.patience,
                warn=_warn,
                stopping=self.stopping,
            )

    def _score(self, ending: Ending) -> float | None:
        """Of a trial, as it is judged."""
        found = phases.judged(ending, self.study)
        return found[0] if found else None

    def _slots(self) -> int:
        """Start Ray when the first job is about to run, not to write a report again."""
        if self.share is None:
            from study.execution import share

            with self.console.status("Ray is starting, which takes some seconds"):
                self.ray.wait()
            self.share = share(self.study.resources)
            if self.share.gpus and self.study.resources.gpus == "auto":
                self.share = share(self.study.resources, together=self._together())
            self.console.print(f"{self.study.name}: {self.share}", markup=False)
        return self.share.slots

    def _together(self) -> int:
        """Trainings per card, which `gpus: auto` leaves open."""
        from study.execution.gpu_sharing.bench import bench
        from study.execution.gpu_sharing.packing import trainings_per_card

        return trainings_per_card(
            self.study,
            self.folder.path,
            open_bench=functools.partial(bench, self.study.resources.cpus),
            say=functools.partial(self.console.print, markup=False),
        )

    def _params(self) -> dict[str, Any]:
        search = self.study.search
        return {
            "arms": ", ".join(self.study.arms),
            "conditions": ", ".join(self.study.conditions),
            "confirm.seeds": self.study.all_seeds,
            "search.replicates": len(self.study.replicates) if search else 0,
            "search.trials_per_arm": search.trials_per_arm if search else 0,
            "margin": self.study.margin,
            "alpha": self.study.alpha,
        } | {f"trial.{name}": value for name, value in self.study.trial.items()}

    def _report(self) -> int:
        return close_study(self.folder, self.tracker, self.console, storage=self.storage)

    def _write_tables(self) -> None:
        write_tables(self.folder, self.study, self.tracker.flush())
        self._note_place()

    def _note_place(self) -> None:
        """Where MLflow has the runs, for the report's links; once unless it changes."""
        noted = [entry["mlflow"] for entry in self.folder.log.entries() if "mlflow" in entry]
        place = self.tracker.place()
        if place and place != (noted[-1] if noted else None):
            self.folder.log.append(mlflow=place)

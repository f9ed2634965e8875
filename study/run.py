"""The run command: search, confirmation and report of one study, `python -m study.run STUDY.yaml`.

The same command with `--resume` continues after anything that ended it.
"""

from __future__ import annotations

from study.environment import quieten

quieten()  # before Ray, MLflow and PyTorch are imported

import errno  # noqa: E402
import re  # noqa: E402
import shlex  # noqa: E402
import signal  # noqa: E402
import sys  # noqa: E402
from collections.abc import Sequence  # noqa: E402
from dataclasses import dataclass  # noqa: E402
from pathlib import Path  # noqa: E402
from types import FrameType  # noqa: E402
from typing import TYPE_CHECKING, Annotated  # noqa: E402

import typer  # noqa: E402
from rich.console import Console  # noqa: E402

from analysis.broken_pipe import outliving_readers  # noqa: E402
from study.commands import call, leave  # noqa: E402
from study.errors import (  # noqa: E402
    DONE,
    FAILED,
    INTERRUPTED,
    TO_BE_CONTINUED,
    WRONG_INPUT,
    Paused,
    StudyError,
)  # fmt: skip
from study.execution.watchdog import STOP_WITHIN_S, Stopping  # noqa: E402

if TYPE_CHECKING:
    from study.design import Study

Storage = Annotated[
    str,
    typer.Option(
        metavar="DIR",
        help="Where studies are kept: a folder, or s3://bucket/prefix, gs://…, file:///…",
    ),
]


def run(
    spec: Annotated[
        str,
        typer.Argument(
            help="The study file, e.g. search_spaces/pos.yaml; with --resume also a study's name."
        ),
    ],
    profile: Annotated[
        str | None, typer.Option(help="One of the file's profiles, e.g. paper.")
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Override a key, e.g. --set trial.epochs=5; may be repeated.",
        ),
    ] = None,
    name: Annotated[str | None, typer.Option(help="Of the study, instead of the file's.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an existing study.")] = False,
    other_environment: Annotated[
        bool,
        typer.Option(
            "--other-environment",
            help="Resume although processor, threads or versions differ; the report says so.",
        ),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and stop.")] = False,
    pilot: Annotated[
        str | None,
        typer.Option(metavar="STUDY", help="For the plan: an earlier study, which has the spread."),
    ] = None,
    address: Annotated[
        str | None, typer.Option(help="Of a running Ray cluster; default: this machine.")
    ] = None,
    stop_after: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Stop then, e.g. 7h30m, to be resumed; also on SIGUSR1, as Slurm warns.",
        ),
    ] = None,
    storage: Storage = "studies",
) -> int:
    """Search each arm, confirm the winners on fresh paired seeds, report."""
    asked = _Asked(spec, profile, tuple(overrides or ()), name, address, storage)
    stopped = _Stopped()
    for number in _STOPPING:
        signal.signal(number, stopped.by)
    try:
        if stop_after is not None:
            signal.setitimer(signal.ITIMER_REAL, _seconds(stop_after))
        if dry_run:
            return _planned(asked, pilot)
        with outliving_readers():
            return _carried_out(
                asked, resume=resume, pilot=pilot, other=other_environment,
                stopping=stopped.stopping,
            )  # fmt: skip
    except StudyError as error:
        print(error, file=sys.stderr)
        return WRONG_INPUT
    except Paused as paused:
        print(f"the study pauses: {paused}", file=sys.stderr)
        return FAILED
    except OSError as error:
        return _disk_error(error, asked)
    except KeyboardInterrupt:
        print(
            f"\n{stopped.why}; what has finished is kept, what was running goes on from its "
            f"checkpoint\n  to continue: {asked.named} --resume",
            file=sys.stderr,
        )
        return stopped.code
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


# Ctrl-C, the end of a container or job, Slurm's warning before it, and --stop-after.
_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGALRM)


class _Stopped:
    """What has stopped the command, if anything has."""

    code, why = INTERRUPTED, "interrupted"

    def __init__(self) -> None:
        self.stopping = Stopping()

    def by(self, number: int, frame: FrameType | None) -> None:
        """A signal's handler."""
        stopping = self.stopping
        if not stopping.asked:
            if number in (signal.SIGUSR1, signal.SIGALRM):
                asked = "SIGUSR1" if number == signal.SIGUSR1 else "--stop-after"
                self.code, self.why = TO_BE_CONTINUED, f"stopped by {asked}"
            stopping.asked = True
            if stopping.heeded:  # it raises KeyboardInterrupt once the trainings have ended
                signal.setitimer(signal.ITIMER_REAL, STOP_WITHIN_S + 10)  # unless it hangs
                return
        elif not stopping.heeded:
            return  # a second Ctrl-C while Ray is being shut down would only break the orderly end
        stopping.heeded = False
        raise KeyboardInterrupt


_TIME = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?", re.ASCII)


def _seconds(text: str) -> int:
    """`7h30m` as seconds; raises StudyError."""
    found = _TIME.fullmatch(text.strip())
    parts = [int(part or 0) for part in found.groups()] if found else [0]
    total = sum(part * unit for part, unit in zip(parts, (86400, 3600, 60, 1), strict=False))
    if not 0 < total < 10**9:
        raise StudyError(
            f"--stop-after is `{text}`\n  allowed: days, hours, minutes, seconds: 7h30m, 90m, 45s"
        )
    return total


@dataclass(frozen=True)
class _Asked:
    """The command as the user could type it again."""

    spec: str
    profile: str | None
    overrides: tuple[str, ...]
    name: str | None
    address: str | None
    storage: str

    @property
    def command(self) -> str:
        """Without --name and --resume."""
        words = ["python", "-m", "study.run", self.spec]
        words += ["--profile", self.profile] if self.profile else []
        for override in self.overrides:
            words += ["--set", override]
        words += ["--address", self.address] if self.address else []
        words += ["--storage", self.storage] if self.storage != "studies" else []
        return shlex.join(words)

    @property
    def named(self) -> str:
        """For this very study, without --resume."""
        return self.command + (f" --name {shlex.quote(self.name)}" if self.name else "")


def _study(asked: _Asked, *, resume: bool = False) -> Study:
    from study.spec import load_study

    file, recorded = Path(asked.spec), Path(asked.storage) / asked.spec / "study.yaml"
    if resume and not file.exists() and recorded.exists():
        file = recorded  # `--resume NAME`: the design is there
    return load_study(file, profile=asked.profile, overrides=asked.overrides, name=asked.name)


def _planned(asked: _Asked, pilot: str | None) -> int:
    from study.execution import slots_here
    from study.planning import gate, pilot_of, plan_lines
    from study.session import check_environment, seen_before

    study, console = _study(asked), _console()
    check_environment(study)
    earlier = pilot_of(asked.storage, pilot, study.name)
    if refused := gate(study):
        console.print(f"WARNING: {refused}", style="bold red", markup=False)
    begun = (Path(asked.storage) / study.name / "study.yaml").exists()
    for seen in () if begun else seen_before(study, asked.storage):
        console.print(seen.told(study), style="" if seen.same else "bold red", markup=False)
    for line in plan_lines(study, slots=slots_here(study.resources), pilot=earlier):
        console.print(line, markup=False)
    return DONE


def _carried_out(
    asked: _Asked, *, resume: bool, pilot: str | None, other: bool, stopping: Stopping
) -> int:
    console = _console()
    with console.status(f"reading {asked.spec}"):  # in a terminal, until the next line
        from study.session import Request, carry_out

        study = _study(asked, resume=resume)
    request = Request(
        study,
        storage=asked.storage,
        address=asked.address,
        resume=resume,
        command=asked.command,
        named=asked.named,
        own_process=True,
        other_environment=other,
        pilot=pilot,
        stopping=stopping,
    )
    return carry_out(request, console)[0]


def _console() -> Console:
    return Console(highlight=False, soft_wrap=True)


def _disk_error(error: OSError, asked: _Asked) -> int:
    place = error.filename or asked.storage
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        print(
            f"{place} cannot be written or read ({error.strerror})\n"
            "  try: --storage DIR with a folder that is yours",
            file=sys.stderr,
        )
        return WRONG_INPUT
    if error.errno not in (errno.ENOSPC, errno.EDQUOT):
        raise error
    print(
        f"the study pauses: the disk is full ({place}); what has finished is kept\n"
        f"  try: make room, then {asked.named} --resume",
        file=sys.stderr,
    )
    return FAILED


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    return call(run, argv, name="python -m study.run")


if __name__ == "__main__":
    leave(main())

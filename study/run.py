"""Is method A really better than B? `python -m study.run STUDY.yaml` finds out.

Search, confirmation and report of one study; the same command with `--resume` goes on after
anything that ended it.
"""

from __future__ import annotations

from study.environment import quieten

quieten()  # before Ray, MLflow and PyTorch are imported

import argparse  # noqa: E402
import errno  # noqa: E402
import shlex  # noqa: E402
import signal  # noqa: E402
import sys  # noqa: E402
from collections.abc import Sequence  # noqa: E402
from types import FrameType  # noqa: E402

from rich.console import Console  # noqa: E402

from study.errors import Paused, StudyError  # noqa: E402

FAILED, WRONG_INPUT, INTERRUPTED = 1, 2, 130


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    args = _parser().parse_args(argv)
    console = Console(highlight=False, soft_wrap=True)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    try:
        from study.session import plan_study, run_study

        if args.dry_run:
            return plan_study(args, console)
        return run_study(args, console, command=_command(args), named=_named(args))
    except StudyError as error:
        print(error, file=sys.stderr)
        return WRONG_INPUT
    except Paused as paused:
        print(f"the study pauses: {paused}", file=sys.stderr)
        return FAILED
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            print(
                f"{error.filename or args.storage} cannot be written or read ({error.strerror})\n"
                "  try: --storage DIR with a folder that is yours",
                file=sys.stderr,
            )
            return WRONG_INPUT
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        print(
            f"the study pauses: the disk is full ({error.filename or args.storage}); what has "
            f"finished is kept\n  try: make room, then {_named(args)} --resume",
            file=sys.stderr,
        )
        return FAILED
    except KeyboardInterrupt:
        print(
            f"\ninterrupted; what has finished is kept\n  to go on: {_named(args)} --resume",
            file=sys.stderr,
        )
        return INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m study.run",
        description="Search each arm, confirm the winners on fresh paired seeds, report.",
    )
    parser.add_argument("spec", help="the study's YAML file, e.g. search_spaces/pos.yaml")
    parser.add_argument("--profile", help="one of the file's profiles, e.g. paper")
    parser.add_argument(
        "--set", dest="overrides", action="append", default=[], metavar="KEY=VALUE",
        help="override a key, e.g. --set trial.epochs=5; may be repeated",
    )  # fmt: skip
    parser.add_argument("--name", help="of the study, instead of the file's")
    parser.add_argument("--resume", action="store_true", help="go on with an existing study")
    parser.add_argument("--dry-run", action="store_true", help="print the plan and stop")
    parser.add_argument(
        "--pilot", metavar="STUDY", help="with --dry-run: an earlier study that tells the spread"
    )
    parser.add_argument("--address", help="of a running Ray cluster; default: this machine")
    parser.add_argument(
        "--storage",
        default="studies",
        metavar="DIR",
        help="where studies are kept (studies): a folder, or s3://bucket/prefix, gs://…, file:///…",
    )
    return parser


def _command(args: argparse.Namespace) -> str:
    """The command as the user could type it again, without --name and --resume."""
    words = ["python", "-m", "study.run", args.spec]
    if args.profile:
        words += ["--profile", args.profile]
    for override in args.overrides:
        words += ["--set", override]
    if args.address:
        words += ["--address", args.address]
    if args.storage != "studies":
        words += ["--storage", args.storage]
    return shlex.join(words)


def _named(args: argparse.Namespace) -> str:
    """The command for this very study, to which --resume can be added."""
    return _command(args) + (f" --name {shlex.quote(args.name)}" if args.name else "")


def _interrupt(number: int, frame: FrameType | None) -> None:
    # A second Ctrl-C while Ray is being shut down would only break the orderly end.
    for other in (signal.SIGINT, signal.SIGTERM):
        signal.signal(other, signal.SIG_IGN)
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())

"""Functions as commands: how `python -m study.run` and `contrastive-study` call them."""

from __future__ import annotations

import functools
import gc
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

import typer

from analysis.broken_pipe import run
from study.errors import WRONG_INPUT
from study.masking import masked_output


def as_command(function: Callable[..., int]) -> Callable[..., None]:
    """A function that returns an exit code, as typer wants it."""

    @functools.wraps(function)
    def command(*args: object, **options: object) -> None:
        raise typer.Exit(run(lambda: function(*args, **options)))

    return command


def call(function: Callable[..., int], argv: Sequence[str] | None, *, name: str) -> int:
    """Run one function with the arguments of a command line.

    Args:
        function: its parameters are the options; returns the exit code.
        argv: the arguments; None: those of this process.
        name: of the program, in its help.

    Returns:
        the exit code; 2 for arguments that cannot be used.
    """
    app = new_app(add_completion=False)
    app.command()(as_command(function))
    return exit_code(app, argv, name=name)


def new_app(**options: bool) -> typer.Typer:
    """A command-line program in this project's manner: `-h`, plain tracebacks."""
    helps = {"help_option_names": ["-h", "--help"]}
    return typer.Typer(context_settings=helps, pretty_exceptions_enable=False, **options)


def exit_code(app: typer.Typer, argv: Sequence[str] | None, *, name: str) -> int:
    """Run a program and return its exit code instead of ending the process."""
    try:
        with masked_output():
            app(list(sys.argv[1:] if argv is None else argv), prog_name=name)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else WRONG_INPUT * bool(ended.code)
    return 0


def leave(code: int) -> NoReturn:
    """End this process."""
    if "triton" not in sys.modules:  # which complains of everything that it is left with
        gc.freeze()  # else Python looks through a million objects before it ends: a second
    sys.exit(code)

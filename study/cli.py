"""The console command `contrastive-study`: run, report, analyse, train, list, show, new, ui."""

from __future__ import annotations

from study.environment import quieten

quieten()  # before Ray, MLflow and PyTorch are imported

import importlib  # noqa: E402
import os  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
from collections.abc import Callable, Sequence  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Annotated, NoReturn  # noqa: E402

import typer  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

from study import report as report_command  # noqa: E402
from study import run as run_command  # noqa: E402
from study.commands import as_command, exit_code, leave, new_app  # noqa: E402
from study.errors import DONE, WRONG_INPUT, StudyError  # noqa: E402
from study.run import Storage  # noqa: E402

app = new_app(no_args_is_help=True)
_PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}

app.command("run")(as_command(run_command.run))
app.command("report")(as_command(report_command.report))


def _passed_on(module: str, context: typer.Context) -> int:
    """Call the `main` of another package, by name, with the arguments as they are."""
    main: Callable[[Sequence[str]], int] = importlib.import_module(module).main
    try:
        return main(context.args)
    except SystemExit as ended:  # argparse, after --help or a wrong option
        return ended.code if isinstance(ended.code, int) else WRONG_INPUT


@app.command("analyse", context_settings=_PASSED_ON, help="Verdicts for any table of results.")
@as_command
def analyse(context: typer.Context) -> int:
    """As `python -m analysis.report`."""
    return _passed_on("analysis.report", context)


@app.command("train", context_settings=_PASSED_ON, help="One training, without Ray or MLflow.")
@as_command
def train(context: typer.Context) -> int:
    """As `python -m contrastive.train`."""
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # for losses and encoders of the user's own
    return _passed_on("contrastive.train", context)


@app.command("list")
@as_command
def list_(storage: Storage = "studies") -> int:
    """All studies: state, verdicts, disk use."""
    from study.reporting import studies_in

    found = studies_in(Path(storage))
    if not found:
        print(f"no studies in {storage}; contrastive-study new FILE writes a study file")
        return DONE
    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("study", "state", "verdicts", "disk", "last command"):
        table.add_column(title, justify="right" if title == "disk" else "left")
    for study in found:
        verdicts = ", ".join(f"{claim} {verdict}" for claim, verdict in study.verdicts.items())
        state = study.fault or study.state
        changed = study.changed[:16].replace("T", " ")  # to the minute
        table.add_row(study.name, state, verdicts or "·", _size(study.megabytes), changed)
    Console(highlight=False, markup=False).print(table)
    return DONE


@app.command("show")
@as_command
def show(
    name: Annotated[str, typer.Argument(help="Of the study.")], storage: Storage = "studies"
) -> int:
    """One study: its question, state, verdicts, and the command that continues it."""
    from study.reporting import overview_of

    try:
        study = overview_of(Path(storage) / name)
    except StudyError as error:
        print(error, file=sys.stderr)
        return WRONG_INPUT
    runs = ", ".join(f"{count} {outcome}" for outcome, count in study.runs.items())
    lines = {
        "study": f"{study.name}: {study.question}" if study.question else study.name,
        "state": study.fault or study.state,
        "runs": runs or "none yet",
        "folder": f"{study.path}, {_size(study.megabytes)}",
        "started": study.started,
        "continue": study.command,
    }
    for title, text in lines.items():
        if text:
            print(f"{title + ':':10} {text}")
    if study.sentences:
        print("", *study.sentences, sep="\n")
    if study.report.exists():
        print(f"\nreport:    {study.report}")
    return DONE


@app.command("new")
@as_command
def new(
    file: Annotated[Path, typer.Argument(help="To be written, e.g. my_study.yaml.")],
    function: Annotated[
        str | None,
        typer.Option(metavar="MODULE:FUNCTION", help="A training function of yours to compare."),
    ] = None,
) -> int:
    """Write a commented study file to begin with."""
    from study.spec.template import template

    if file.exists():
        print(f"{file} exists; nothing was written\n  try: another name", file=sys.stderr)
        return WRONG_INPUT
    try:
        text = template(file.stem, function, beside=str(file.resolve().parent))
        file.write_text(text)
    except (StudyError, OSError) as error:
        print(error, file=sys.stderr)
        return WRONG_INPUT
    print(f"written: {file}\n  the plan:  contrastive-study run {file} --dry-run")
    print(f"  the study: contrastive-study run {file}")
    return DONE


@app.command("ui")
@as_command
def ui(port: Annotated[int, typer.Option(help="To listen on, on 127.0.0.1.")] = 5000) -> int:
    """Browse what was logged: MLflow on 127.0.0.1 with this folder's store."""
    from study.tracking import browse_url, tracking_uri, ui_command, ui_environment

    if tracking_uri().startswith(("http://", "https://")):
        print(f"the runs are on a tracking server: {browse_url()}")
        return DONE
    database = tracking_uri().removeprefix("sqlite:///")
    if tracking_uri().startswith("sqlite:") and not Path(database).exists():
        print(
            f"there is no {database}: no study has run here\n"
            "  try: the folder in which studies were started, or MLFLOW_TRACKING_URI",
            file=sys.stderr,
        )
        return WRONG_INPUT
    print(f"http://127.0.0.1:{port}   (Ctrl-C ends it)", flush=True)
    try:
        return subprocess.run(ui_command(port), env=ui_environment(), check=False).returncode
    except KeyboardInterrupt:
        return DONE


def _size(megabytes: float) -> str:
    return f"{megabytes / 1000:.1f} GB" if megabytes >= 1000 else f"{megabytes:.1f} MB"


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    return exit_code(app, argv, name="contrastive-study")


def program() -> NoReturn:
    """The command `contrastive-study`."""
    leave(main())


if __name__ == "__main__":
    program()

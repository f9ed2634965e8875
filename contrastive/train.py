"""The command for one training: `python -m contrastive.train --loss debiased_pos --dataset cifar10`

Runs without Ray and MLflow: a line per epoch, then the figures on the test split. A loss of your
own is `--loss my_losses:barlow --lambda_ 0.005`, its module in the working directory or installed.
"""

from __future__ import annotations

import argparse
import errno
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError

from contrastive.catalogue import LOSS_OPTIONS, PartError, accepted, imported
from contrastive.config import BUDGETS, SETTINGS, Budget, TrainConfig, conflict
from contrastive.data import DataError
from contrastive.messages import first_line, nearest
from contrastive.parts import SettingsError
from contrastive.training.compiled import CompileError
from contrastive.training.loop import Diverged, train
from contrastive.workload import WORKLOAD, Contrastive

DONE, FAILED, WRONG_INPUT = 0, 1, 2
PIPE_CLOSED = 141  # 128 + SIGPIPE, what a shell says of any command that ended this way


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    try:
        workload = _with_own_parts(argv)
    except ValueError as error:
        print(error, file=sys.stderr)
        return WRONG_INPUT
    args = vars(_parser(workload).parse_args(argv))
    seed, device, out = args.pop("seed"), args.pop("device"), args.pop("out")
    given = {name: value for name, value in args.items() if value is not None}
    try:
        given |= _budget(given)
        config = TrainConfig(**{n: v for n, v in given.items() if n in SETTINGS})
        options = workload.parts.options_of(config.loss, given, text=True)
    except (_Refused, SettingsError) as refused:
        allowed = f"; allowed: {refused.allowed}" if getattr(refused, "allowed", "") else ""
        print(f"{refused}{allowed}", file=sys.stderr)
        return WRONG_INPUT
    except ValidationError as error:
        print("\n".join(_faults(error)), file=sys.stderr)
        return WRONG_INPUT
    faults = [*_without_effect(workload, config.loss, given), *_place_faults(out, device)]
    if faults:
        print("\n".join(faults), file=sys.stderr)
        return WRONG_INPUT
    records: list[dict[str, Any]] = []
    try:
        workload.try_parts()
        for record in train(config, seed, device=device, options=options):
            records.append({"epoch": record.epoch, **record.metrics})
            print(_line(record.epoch, record.metrics), flush=True)
    except (DataError, PartError, CompileError) as error:
        print(error, file=sys.stderr)
        return WRONG_INPUT
    except Diverged as diverged:
        print(f"diverged: {diverged}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return 130
    if out:
        out.write_text(json.dumps(records, indent=1) + "\n")
    return DONE


def _with_own_parts(argv: Sequence[str] | None) -> Contrastive:
    """The workload with the own parts that the command names: their options are options of it."""
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for name in ("dataset", "encoder", "loss"):
        parser.add_argument(f"--{name}", default=argparse.SUPPRESS)
    parser.add_argument("--evaluations", nargs="+", default=[])
    named, _ = parser.parse_known_args(argv)
    return WORKLOAD.extended([vars(named)], imported)


class _Refused(ValueError):
    """An option that TrainConfig cannot judge."""


def _budget(given: dict[str, Any]) -> dict[str, Any]:
    """`--budget views=5000000` as TrainConfig takes it.

    Raises:
        _Refused: it is no budget, or `--epochs` contradicts it.
    """
    if "budget" not in given:
        return {}
    unit, _, amount = given["budget"].partition("=")
    try:
        budget = {unit: float(amount) if unit == "seconds" else int(amount)}
        Budget(**budget)
    except (ValueError, TypeError):
        near = nearest(unit, BUDGETS)
        raise _Refused(
            f"--budget {given['budget']} is no budget; allowed: epochs=N, views=N or seconds=S, "
            f"N whole numbers, all above 0; try: --budget {near or 'views'}=600"
        ) from None
    fault = conflict({"budget": budget} | {k: v for k, v in given.items() if k == "epochs"})
    if fault:
        raise _Refused("; ".join((f"--budget {given['budget']}: {fault}", _WAY_OUT[unit])))
    return {"budget": budget}


_WAY_OUT = {
    "epochs": "try: one of --budget and --epochs",
    "views": "try: one of --budget and --epochs",
    "seconds": "try: --epochs 1000",
}


def _without_effect(workload: Contrastive, loss: str, given: Iterable[str]) -> Iterator[str]:
    """Options that the loss does not take: ignoring them would suggest that they had an effect."""
    for name in (name for name in given if not workload.applies(name, {"loss": loss})):
        takers = ", ".join(other for other in LOSS_OPTIONS if name in accepted(other))
        yield f"--{name.replace('_', '-')}: the loss {loss} does not take it; allowed with {takers}"


def _place_faults(out: Path | None, device: str | None) -> Iterator[str]:
    """What is wrong with --out or --device, found before hours of training."""
    if out and not (out.parent.is_dir() and os.access(out.parent, os.W_OK)):
        yield f"--out {out}: there is no folder {out.parent} that can be written to"
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        yield f"--device {device}: {first_line(error)}; allowed: cpu, cuda with a GPU, cuda:1, …"


def _parser(workload: Contrastive) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m contrastive.train",
        description="Train one encoder and evaluate it; without Ray or MLflow.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    defaults = workload.defaults
    special = {
        "budget": "epochs=N, views=N or seconds=S, instead of --epochs",
        "evaluations": "functions module:function of representations and labels",
    }
    for name in workload.hints:
        # The values are checked, all at once, by TrainConfig; here they stay text.
        parser.add_argument(
            *dict.fromkeys((f"--{name.replace('_', '-')}", f"--{name}")),
            dest=name,
            metavar="X",
            nargs="+" if name == "evaluations" else None,
            help=special.get(name, f"default: {defaults.get(name)}"),
            default=argparse.SUPPRESS,
        )
    parser.add_argument("--seed", type=int, default=1, help="of weights, order and draws")
    parser.add_argument("--device", default=None, help="cpu, cuda, cuda:1; None: GPU if any")
    parser.add_argument("--out", type=Path, default=None, help="JSON file for all epochs")
    return parser


def _faults(error: ValidationError) -> list[str]:
    by_name: dict[str, list[dict[str, Any]]] = {}
    for details in error.errors(include_url=False):
        name = str(details["loc"][0]) if details["loc"] else ""
        by_name.setdefault(name, []).append(details)
    lines = []
    for name, found in by_name.items():
        messages = (str(d["msg"]).removeprefix("Value error, ") for d in found)
        said = " or ".join(dict.fromkeys(messages))
        if not name:
            lines.append(said)
            continue
        value = found[0]["input"]
        expected = found[0].get("ctx", {}).get("expected", "")
        known = [part.strip("'") for part in expected.replace(" or ", ", ").split(", ")]
        close = nearest(value, known)
        hint = f"; try: --{name.replace('_', '-')} {close}" if close else ""
        lines.append(f"--{name.replace('_', '-')} {value}: {said}{hint}")
    return lines


def _line(epoch: int, metrics: dict[str, float]) -> str:
    shown = {
        name: value
        for name, value in metrics.items()
        if name not in ("views", "flops") and name.count("/") < 2  # of one class: in --out
    }
    parts = [f"{name} {value:.4g}" for name, value in sorted(shown.items())]
    return f"epoch {epoch:3d}  " + "  ".join(parts)


def _command() -> int:
    """`main`, ended silently where the reader of its output closes it, as `head -1` does."""
    sys.stdout.reconfigure(errors="backslashreplace")  # terminals without Unicode
    try:
        try:
            return main()
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        _drop_output()
        return PIPE_CLOSED
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        _drop_output()
        place = error.filename or "the output"
        print(f"{place} cannot be written: {error.strerror}", file=sys.stderr)
        return 1


def _drop_output() -> None:
    # Python flushes once more at its end, and would complain then.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(_command())

"""The table of results, read and checked.

It is tidy (`arm, condition, replicate, seed, epoch, metric, value, correct, total, status`). What
is ambiguous is refused, and rows that no verdict may rest on are marked.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.errors import TableError, nearest
from analysis.inputs.claim_checks import DEFAULT_CONDITION
from analysis.inputs.metric import FRACTION, Metrics
from analysis.inputs.plain_yaml import control_character
from analysis.inputs.replicates import Replicates, check_replicates, numbered

REQUIRED = ("arm", "seed", "metric", "value")
OPTIONAL = ("condition", "replicate", "epoch", "correct", "total", "status", "phase")
MOST_SEEDS = 2000  # a report on so many takes 5 s and 0.7 GB
LARGEST = 1e100  # squares of sums of such numbers are still finite
STATUSES = ("finished", "diverged", "failed")


@dataclass(frozen=True)
class Results:
    """The checked table.

    Attributes:
        frame: one row per value of a run that finished; `epoch` is nan for final figures and
            `flaw` names why no verdict may rest on the row (None, `duplicate_rows` or
            `search_phase_scores`).
        failures: (arm, condition, seed) -> `diverged` or `failed`; such runs have no rows.
        notes: sentences for the report's reader about what was ignored.
        source: where the table came from, as shown in messages.
        replicates: seed -> replicate, the independent search whose winner it trained; empty
            without a `replicate` column.
    """

    frame: pd.DataFrame
    failures: dict[tuple[str, str, object], str]
    notes: list[str] = field(default_factory=list)
    source: str = "table"
    replicates: dict = field(default_factory=dict)

    @property
    def unit(self) -> str:
        """What is drawn at random, and counted: `replicate`, or `seed` below two of them."""
        return "replicate" if len(set(self.replicates.values())) > 1 else "seed"

    def unit_of(self, seed) -> object:
        """The replicate of a seed where replicates are the unit, else the seed."""
        return self.replicates.get(seed, seed) if self.unit == "replicate" else seed

    @property
    def arms(self) -> list[str]:
        return list(pd.unique(self.frame["arm"]))

    @property
    def conditions(self) -> list[str]:
        return list(pd.unique(self.frame["condition"]))

    @property
    def final(self) -> pd.DataFrame:
        return self.frame[self.frame["epoch"].isna()]

    @property
    def curves(self) -> pd.DataFrame:
        return self.frame[self.frame["epoch"].notna()]


def read_table(source: str | Path | pd.DataFrame, *, what: str = "results") -> pd.DataFrame:
    """A CSV or Parquet file, or a frame, with CSV cells left as text.

    Raises:
        TableError: the file is missing, empty or not a table.
    """
    if isinstance(source, pd.DataFrame):
        return source.reset_index(drop=True)
    path = Path(source)
    if not path.is_file():
        raise TableError(
            f"the {what} table does not exist",
            where=str(path),
            allowed="a CSV or Parquet file",
            try_="check the path; a study writes results.csv and runs.csv into its folder",
        )
    try:
        if _is_parquet(path):
            return pd.read_parquet(path).reset_index(drop=True)
        # Text first: an arm called `NA` or `0.10` keeps its name.
        table = pd.read_csv(path, dtype=str, keep_default_na=False, skipinitialspace=True)
        # pandas takes the first cells for row names; one column means other separators, see below.
        if not isinstance(table.index, pd.RangeIndex) and len(table.columns) > 1:
            raise ValueError("lines have more cells than the header")
        return table
    except pd.errors.EmptyDataError:
        raise _empty(str(path)) from None
    except UnicodeDecodeError as error:
        raise TableError(
            f"not UTF-8 text (byte {error.start} is 0x{error.object[error.start]:02x})",
            where=str(path),
            allowed="UTF-8 CSV with a header line, or Parquet",
            try_="export it as UTF-8; a Parquet file must be called *.parquet",
        ) from None
    except (pd.errors.ParserError, OSError, ValueError) as error:
        raise TableError(
            f"not readable as a table ({str(error).splitlines()[0]})",
            where=str(path),
            allowed="UTF-8 CSV with a header line, or Parquet",
            try_="open the file and check that every line has as many cells as the header",
        ) from None


def read_results(
    source: str | Path | pd.DataFrame,
    *,
    metrics: Metrics | None = None,
    percent: bool = False,
    failures: dict[tuple[str, str, object], str] | None = None,
    searched: set | None = None,
    replicates: Replicates | None = None,
) -> Results:
    """Read and check a table of results.

    Args:
        source: path of a CSV or Parquet file, or a frame; columns `arm, seed, metric, value` and
            optionally `condition, replicate, epoch, correct, total, status, phase`.
        metrics: knows which metrics are fractions; from their names if not given.
        percent: accuracies are in percent; they are divided by 100 here.
        failures: runs known from elsewhere not to have finished; their rows are set aside.
        searched: seeds that the search phase used; rows with them are flawed.
        replicates: what the table of runs says about replicates.

    Raises:
        TableError: one message that says what is wrong, where, what is allowed, what to do.
    """
    raw = read_table(source)
    where = source if isinstance(source, str | Path) else "results table"
    at = _locator(source)
    notes = _check_columns(raw, str(where))
    if raw.empty:
        raise _empty(str(where))

    frame = pd.DataFrame(index=raw.index)
    for column in ("arm", "metric"):
        frame[column] = _names(raw, column, at)
    frame["condition"] = (
        _names(raw, "condition", at, blank=DEFAULT_CONDITION)
        if "condition" in raw
        else pd.Series(DEFAULT_CONDITION, index=raw.index, dtype=object)
    )
    frame["seed"] = _seeds(raw, at)
    frame["epoch"] = _numbers(raw, "epoch", at) if "epoch" in raw else np.nan
    status = _statuses(raw, at)
    of_seed = check_replicates(frame, raw.get("replicate"), at, replicates or Replicates())
    frame, gone = _set_failures_aside(frame, status, failures or {})
    raw = raw.loc[frame.index]

    frame["value"] = _numbers(raw, "value", at, needed=True)
    for column in ("correct", "total"):
        frame[column] = _numbers(raw, column, at) if column in raw else np.nan
    frame = _check_accuracies(frame, at, metrics or Metrics(), percent=percent)
    _check_counts(frame, at)
    frame["flaw"] = _flaws(frame, raw, searched or set())
    notes += _flaw_notes(frame, at)
    key = ["arm", "condition", "seed", "epoch", "metric"]
    frame = frame.drop_duplicates(key).reset_index(drop=True)
    return Results(frame, gone, notes, str(where), of_seed)


def _flaw_notes(frame: pd.DataFrame, at: Callable[[Any], str]) -> list[str]:
    """What to say about rows that make comparisons invalid."""
    notes, doubled = [], frame.index[frame["flaw"] == "duplicate_rows"]
    if len(doubled):
        notes.append(
            f"{len(doubled)} rows repeat the arm, condition, seed, epoch and metric of another row"
            f" (first: {at(doubled[0])}); comparisons that rest on them are invalid. Keep one row"
            " per run, or number the repeats as seeds."
        )
    if (frame["flaw"] == "search_phase_scores").any():
        notes.append("Scores of the search phase are in the table; verdicts on them are invalid.")
    return notes


def exact_value(value: float, correct: float, total: float) -> Fraction | float:
    """An accuracy as the fraction of its counts where they are known, else the value."""
    if np.isnan(correct) or np.isnan(total):
        return float(value)
    return Fraction(int(correct), int(total))


def _empty(where: str) -> TableError:
    return TableError(
        "the table has no rows",
        where=where,
        allowed=f"columns {', '.join(REQUIRED)} and >= 1 row",
        try_="run the confirmation phase first, or check that the export wrote its rows",
    )


def _locator(source: str | Path | pd.DataFrame) -> Callable[[int], str]:
    # Line 1 of a CSV is its header; what has no lines is addressed by row number, from 0.
    if isinstance(source, pd.DataFrame):
        return lambda row: f"results table, row {row}"
    if _is_parquet(Path(source)):
        return lambda row: f"{source}, row {row}"
    return lambda row: f"{source}:{row + 2}"


def _is_parquet(path: Path) -> bool:
    return path.suffix.lower() in (".parquet", ".pq")


def _check_columns(raw: pd.DataFrame, where: str) -> list[str]:
    known = REQUIRED + OPTIONAL
    missing = [c for c in REQUIRED if c not in raw]
    unknown = [str(c) for c in raw.columns if c not in known]
    for column in unknown:
        near = nearest(column.strip().lower(), known, alike=0.75)
        if near and near not in raw:
            raise TableError(
                f"unknown column {column!r}",
                where=where,
                allowed=", ".join(known),
                try_=f"rename it to {near!r}, or drop it",
            )
    if missing:
        raise TableError(
            f"no column {', '.join(map(repr, missing))}; there are {', '.join(map(repr, raw))}",
            where=where,
            allowed=", ".join(known),
            try_=(
                "separate the cells by commas"
                if len(raw.columns) == 1 and re.search("[;\t]", unknown[0] if unknown else "")
                else "one row per arm, condition, seed and metric, with its value"
            ),
        )
    if not unknown:
        return []
    return [f"Columns that the report does not use were ignored: {', '.join(unknown)}."]


def _names(raw: pd.DataFrame, column: str, at, *, blank: str | None = None) -> pd.Series:
    text = raw[column].astype(object).where(raw[column].notna(), "")
    text = text.map(lambda value: str(value).strip())
    empty = text == ""
    if empty.any() and blank is None:
        raise TableError(
            f"{column} is empty",
            where=at(text.index[empty][0]),
            allowed="a name",
            try_="fill the cell, or drop the row",
        )
    for name in text.unique():
        if found := control_character(name):
            raise TableError(
                f"{column} is {name!a}, with a control character, {found}",
                where=at(text.index[text == name][0]),
                allowed="names that can be shown on one line",
                try_="rename it in every row",
            )
    return text.mask(empty, blank) if empty.any() else text


def _seeds(raw: pd.DataFrame, at) -> pd.Series:
    text = _names(raw, "seed", at)
    unreal = text.str.lower().str.lstrip("+-").isin(["inf", "infinity", "nan"])
    if unreal.any():
        row = text.index[unreal][0]
        raise TableError(
            f"seed is {text[row]!r}",
            where=at(row),
            allowed="a whole number, or a name",
            try_="fill in the seed of the run, or drop the row",
        )
    seeds = numbered(text)
    if (units := seeds.nunique()) > MOST_SEEDS:
        raise TableError(
            f"the table has {units:,} seeds",
            where=at(text.index[0]),
            allowed=f"at most {MOST_SEEDS:,}",
            try_="number repeated runs from 1 in every arm: arms are compared at equal seeds",
        )
    return seeds


def _numbers(raw: pd.DataFrame, column: str, at, *, needed: bool = False) -> pd.Series:
    cells = raw[column]
    numbers = pd.to_numeric(cells, errors="coerce").astype(float)
    blank = (
        cells.isna()
        if pd.api.types.is_numeric_dtype(cells)
        else (cells.isna() | (cells.astype(str).str.strip() == ""))
    )
    wrong = ~(numbers.abs() <= LARGEST) & (needed | ~blank)
    if wrong.any():
        row = wrong.index[wrong][0]
        shown = "empty" if blank[row] else repr(str(cells[row]))
        more = f" (and {int(wrong.sum()) - 1} more cells)" if wrong.sum() > 1 else ""
        raise TableError(
            f"{column} is {shown}{more}",
            where=at(row),
            allowed=f"a finite number of at most {LARGEST:g} in size"
            + ("" if needed else ", or an empty cell"),
            try_="mark a run that broke with status diverged or failed, or drop the row",
        )
    return numbers


def _statuses(raw: pd.DataFrame, at) -> pd.Series:
    if "status" not in raw:
        return pd.Series("finished", index=raw.index)
    status = _names(raw, "status", at, blank="finished").str.lower()
    wrong = ~status.isin(STATUSES)
    if wrong.any():
        row = wrong.index[wrong][0]
        near = nearest(status[row], STATUSES) or "finished"
        raise TableError(
            f"status is {status[row]!r}",
            where=at(row),
            allowed=", ".join(STATUSES),
            try_=f"{near!r}",
        )
    return status


def _set_failures_aside(frame, status, known):
    """Take every row of a broken run out: half a curve is not a result."""
    gone = dict(known)
    broken = frame.loc[status != "finished", ["arm", "condition", "seed"]]
    for row, run in zip(broken.index, broken.itertuples(index=False, name=None), strict=True):
        gone.setdefault(run, status[row])
    if not gone:
        return frame, gone
    runs = pd.MultiIndex.from_frame(frame[["arm", "condition", "seed"]])
    return frame[~runs.isin(list(gone))].copy(), gone


def _check_accuracies(frame: pd.DataFrame, at, metrics: Metrics, *, percent: bool) -> pd.DataFrame:
    fractions = [m for m in pd.unique(frame["metric"]) if metrics.unit(m) == FRACTION]
    accuracy = frame["metric"].isin(fractions) | frame["total"].notna()
    if percent and accuracy.any() and frame.loc[accuracy, "value"].max() <= 1:
        raise TableError(
            "--percent was given, but no accuracy is above 1: they are fractions already",
            where=at(frame.index[accuracy][0]),
            allowed="with --percent, accuracies in [0, 100]",
            try_="leave --percent out",
        )
    if percent:
        frame = frame.assign(value=frame["value"].where(~accuracy, frame["value"] / 100))
    outside = accuracy & ((frame["value"] < 0) | (frame["value"] > 1))
    if outside.any():
        row = frame.index[outside][0]
        value, metric = frame.loc[row, "value"], frame.loc[row, "metric"]
        asks = "; is it in percent?" if 1 < value <= 100 else ""
        raise TableError(
            f"{metric} is {value:g}, which is not a fraction{asks}",
            where=at(row),
            allowed="accuracies in [0, 1]",
            try_="divide them by 100, or pass --percent if all accuracies are in percent",
        )
    return frame


def _check_counts(frame: pd.DataFrame, at) -> None:
    correct, total = frame["correct"], frame["total"]
    counted = correct.notna() | total.notna()
    wrong = counted & ~(
        (correct >= 0)
        & (correct <= total)
        & (total > 0)
        & (correct == correct.round())
        & (total == total.round())
        & ((frame["value"] - correct / total).abs() < 5e-5)
    )
    if wrong.any():
        row = frame.index[wrong][0]
        raise TableError(
            f"correct {correct[row]:g} of total {total[row]:g} does not give value"
            f" {frame.loc[row, 'value']:g}",
            where=at(row),
            allowed="integers, 0 <= correct <= total, value = correct / total",
            try_="export the counts of the same evaluation, or leave both cells empty",
        )


def _flaws(frame: pd.DataFrame, raw: pd.DataFrame, searched: set) -> pd.Series:
    flaw = pd.Series(None, index=frame.index, dtype=object)
    doubled = frame.duplicated(["arm", "condition", "seed", "epoch", "metric"], keep=False)
    flaw[doubled] = "duplicate_rows"
    from_search = frame["seed"].isin(searched) if searched else pd.Series(False, index=frame.index)
    if "phase" in raw:
        from_search |= raw["phase"].astype(str).str.strip().str.lower() == "search"
    flaw[from_search] = "search_phase_scores"
    return flaw

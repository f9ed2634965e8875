"""The replicates of a table: which independent search each confirmation seed belongs to.

Without a `replicate` column, or where it is empty, there are none, and the seed is the unit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from analysis.errors import TableError


@dataclass(frozen=True)
class Replicates:
    """What a table of runs says: `of` is seed -> replicate, `listed` all (arm, replicate)."""

    of: Mapping[Any, Any] = field(default_factory=dict)
    listed: frozenset = frozenset()


def in_order(labels) -> list:
    """Seeds or replicates in their order: numbers by size, then names."""
    return sorted(labels, key=lambda label: (isinstance(label, str), label))


def numbered(text: pd.Series) -> pd.Series:
    """Labels as whole numbers where all of them are, and where 64 bits keep them apart."""
    numbers = pd.to_numeric(text, errors="coerce")
    if numbers.dtype.kind == "f":
        exact = np.isfinite(numbers).all() and (numbers.abs() < 2**53).all()
        whole = exact and (numbers == numbers.round()).all()
    else:
        whole = numbers.dtype.kind == "i"  # wider ones come as unsigned, or as objects
    return numbers.astype("int64") if whole else text


def check_replicates(
    frame: pd.DataFrame, column: pd.Series | None, at: Callable[[int], str], known: Replicates
) -> dict[Any, Any]:
    """seed -> replicate of a table, empty where it has no replicates.

    Args:
        frame: with `arm` and `seed`, rows of broken runs included.
        column: the cells of `replicate`, or None.
        known: what runs.csv says; a replicate that it lists for an arm may have no rows yet.

    Raises:
        TableError: cells are empty in part, a seed is in two replicates, or an arm lacks a
            replicate that others have.
    """
    if column is None:
        return {}
    text = column.astype(object).where(column.notna(), "").map(lambda cell: str(cell).strip())
    empty = text == ""
    if empty.all():
        return {}
    if empty.any():
        raise TableError(
            f"replicate is empty in {int(empty.sum())} rows and given in the others",
            where=at(text.index[empty][0]),
            allowed="a number in every row, or in none",
            try_="fill the cells, or drop the column: the seed is the unit then",
        )
    labels = numbered(text)
    pairs = pd.DataFrame({"seed": frame["seed"], "replicate": labels}).drop_duplicates()
    shared = pairs[pairs.duplicated("seed")]
    if len(shared):
        row = shared.index[0]
        seed = pairs.loc[row, "seed"]
        both = pairs.loc[pairs["seed"] == seed, "replicate"].tolist()
        raise TableError(
            f"seed {seed} is in the replicates {' and '.join(map(str, both))}",
            where=at(row),
            allowed="seeds that differ between replicates",
            try_="give each replicate seeds of its own: shared ones make replicates dependent",
        )
    _same_in_every_arm(frame, labels, known, at)
    found = dict(zip(pairs["seed"].tolist(), pairs["replicate"].tolist(), strict=True))
    return {**known.of, **found}


def _same_in_every_arm(frame, labels, known: Replicates, at) -> None:
    every = set(labels.tolist())
    for arm, own in labels.groupby(frame["arm"], sort=False):
        missing = [r for r in in_order(every - set(own.tolist())) if (arm, r) not in known.listed]
        if missing:
            shown = ", ".join(map(str, missing[:5])) + (", …" if len(missing) > 5 else "")
            raise TableError(
                f"{arm} has no rows of replicate {shown}, which other arms have",
                where=at(own.index[0]),
                allowed="the same replicates in every arm",
                try_="add its runs, with status failed or diverged where they broke, or drop the"
                " replicate from every arm",
            )

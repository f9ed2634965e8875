"""The report as JSON data: cleaned for writing, and compared number by number."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd


def clean(value: Any) -> Any:
    """Plain JSON values: numpy numbers as Python's, nan and infinities as None."""
    if isinstance(value, dict):
        return {str(key): clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | np.ndarray):
        return [clean(item) for item in value]
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(value) if np.isfinite(value) else None
    return (
        value if isinstance(value, str) else None if value is None or value is pd.NA else str(value)
    )


def differences(
    old: Mapping[str, Any], new: Mapping[str, Any], *, tolerance: float = 1e-9
) -> list[str]:
    """Where two reports disagree, as `path: old -> new`.

    Left out are versions and provenance, and what was computed from kept features: they are no
    records of the runs. Numbers agree within a relative tolerance.
    """
    skip = ("versions", "provenance", "embedding", "robustness")
    return _differences(
        {k: v for k, v in old.items() if k not in skip},
        {k: v for k, v in clean(dict(new)).items() if k not in skip},
        "",
        tolerance,
    )


def _differences(old: Any, new: Any, path: str, tolerance: float) -> list[str]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        keys = list(dict.fromkeys([*old, *new]))
        return [
            line
            for key in keys
            for line in _differences(
                old.get(key), new.get(key), f"{path}.{key}".lstrip("."), tolerance
            )
        ]
    if isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            return [f"{path}: {len(old)} entries -> {len(new)} entries"]
        return [
            line
            for i, (x, y) in enumerate(zip(old, new, strict=True))
            for line in _differences(x, y, f"{path}[{i}]", tolerance)
        ]
    numbers = all(isinstance(x, int | float) and not isinstance(x, bool) for x in (old, new))
    same = math.isclose(old, new, rel_tol=tolerance, abs_tol=1e-12) if numbers else old == new
    return [] if same else [f"{path}: {old!r} -> {new!r}"]

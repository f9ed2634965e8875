"""Fair searches, paired confirmations and verdicts: is method A better than method B?

From Python: `study.load_study`, `study.run_study` and `study.run_once`; a training function is
given a `study.Run` and may see `study.Stopped`. From the shell: `contrastive-study`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from study.api import RunResult, StudyResult, run_once, run_study
    from study.design import Study
    from study.errors import Paused, SpecError, StudyError
    from study.spec import load_study
    from study.workload import Run, Stopped

__all__ = [
    "Paused",
    "Run",
    "RunResult",
    "SpecError",
    "Stopped",
    "Study",
    "StudyError",
    "StudyResult",
    "load_study",
    "run_once",
    "run_study",
]

# Imported when first asked for: a training function that needs `Stopped` shall not load Optuna.
# `study.run` and `study.report` are modules.
_HOMES = {
    "Paused": "study.errors",
    "Run": "study.workload.run",
    "RunResult": "study.api",
    "SpecError": "study.errors",
    "Stopped": "study.workload.run",
    "Study": "study.design.study",
    "StudyError": "study.errors",
    "StudyResult": "study.api",
    "load_study": "study.spec.load",
    "run_once": "study.api",
    "run_study": "study.api",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])

"""A study's folder, found beside its table or its plan: what was declared there, and who looked.

A table that stands in such a folder, with the `study.yaml` and the log that `study.run` wrote, is
bound by them: its claims are the declared ones, and reading it is a look.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from analysis.inputs.plan import Plan, read_plan
from analysis.inputs.session_log import SessionLog, looks_taken

_RECORDED = re.compile(r"^hash: '?[0-9a-f]{64}'?$", re.MULTILINE)
# What makes two plans the same for the verdicts.
_DECIDES = ("claims", "margin", "alpha", "scope", "looks", "looks_planned", "correction")


@dataclass(frozen=True)
class StudyFolder:
    """A folder with the design that a study recorded; `path` is the folder's."""

    path: Path

    @property
    def plan(self) -> Path:
        """The recorded design."""
        return self.path / "study.yaml"

    @property
    def runs(self) -> Path | None:
        """The table of runs, if there is one."""
        file = self.path / "runs.csv"
        return file if file.exists() else None

    def bind(self, plan: Plan) -> Plan:
        """The plan, marked as overridden where it decides otherwise than the recorded one."""
        recorded = read_plan(self.plan)
        same = all(getattr(plan, key) == getattr(recorded, key) for key in _DECIDES)
        overridden = plan.overridden if same or plan.overridden else ("declared",)
        return replace(
            plan, planned_n=recorded.planned_n, seeds=recorded.seeds, overridden=overridden
        )

    def look(self, units: int, planned: int | None) -> list[dict[str, Any]]:
        """The looks that were taken; this one is logged if it comes before the planned units."""
        log = SessionLog(self.path)
        if not planned or not log.file.exists():
            return []
        looks = looks_taken(log.entries(), planned, log.breaks())
        if units < planned:
            with contextlib.suppress(OSError):  # the report marks it all the same
                log.append(look=True, units=units, planned=planned, by="analysis.report")
        return looks


def study_folder_of(*sources: Any) -> StudyFolder | None:
    """The folder of a study in which one of the sources lies; None where none does.

    Args:
        sources: paths of a table and a plan; anything else lies nowhere.
    """
    for source in sources:
        if isinstance(source, str | Path):
            folder = Path(source).parent
            with contextlib.suppress(OSError, UnicodeDecodeError):
                if _RECORDED.search((folder / "study.yaml").read_text(encoding="utf-8")):
                    return StudyFolder(folder)
    return None

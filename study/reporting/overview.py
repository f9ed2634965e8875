"""An overview of studies: state, verdicts, disk use, and the command that continues each."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from analysis.wording import one_line_verdicts
from study.errors import StudyError, first_line
from study.records import Ledger
from study.storage import Folder, state_of


@dataclass(frozen=True)
class Overview:
    """What a study's folder tells at a glance.

    Attributes:
        name: of the study.
        path: of its folder.
        question: as declared.
        state: how far it has come.
        verdicts: by claim.
        sentences: what the report says, one for each claim.
        runs: of search and confirmation together, by outcome.
        megabytes: that its folder takes.
        started, changed: times of the first and the last command, ISO 8601.
        command: that continues or repeats it.
        fault: what is wrong with the folder, or "".
    """

    name: str
    path: Path
    question: str = ""
    state: str = ""
    verdicts: dict[str, str] = field(default_factory=dict)
    sentences: tuple[str, ...] = ()
    runs: dict[str, int] = field(default_factory=dict)
    megabytes: float = 0.0
    started: str = ""
    changed: str = ""
    command: str = ""
    fault: str = ""

    @property
    def report(self) -> Path:
        """The report as one HTML file, where there is one."""
        return self.path / "report" / "report.html"


def studies_in(storage: Path) -> list[Overview]:
    """All studies that a folder keeps, the one that was worked on last first."""
    found = [overview_of(file.parent) for file in storage.glob("*/study.yaml")]
    return sorted(found, key=lambda study: study.changed, reverse=True)


def overview_of(path: Path) -> Overview:
    """One study; a damaged one says so in `fault`.

    Raises:
        StudyError: there is no study.
    """
    folder = Folder(path)
    if not folder.study_yaml.exists():
        folder.load()  # raises, and says what is there instead
    sessions: list[dict[str, Any]] = []
    question, runs, fault = "", Counter(), ""
    try:
        sessions = [entry for entry in folder.log.entries() if "command" in entry]
        question, ledger = folder.load().question, Ledger(folder.path, forgiving=True)
        phases = ("search", "recheck", "confirm")
        runs = Counter(ending.outcome for phase in phases for ending in ledger.all(phase))
    except (StudyError, OSError) as error:
        fault = first_line(error)
    last = sessions[-1] if sessions else {}
    command = str(last.get("command", ""))
    verdicts, sentences = _answers(folder.report / "report.json")
    return Overview(
        name=path.name,
        path=path,
        question=question,
        state=state_of(lambda name: (folder.path / name).exists()),
        verdicts=verdicts,
        sentences=sentences,
        runs=dict(runs),
        megabytes=_size(path) / 1e6,
        started=str(sessions[0].get("at", "")) if sessions else "",
        changed=str(last.get("at", "")),
        command=f"{command} --resume" if command else "",
        fault=fault,
    )


def _size(path: Path) -> int:
    """Bytes of all files; those that a running study replaces meanwhile are passed over."""
    total = 0
    for file in path.rglob("*"):
        with contextlib.suppress(OSError):
            total += file.stat().st_size * file.is_file()
    return total


def _answers(report: Path) -> tuple[dict[str, str], tuple[str, ...]]:
    """Verdicts by claim, and the report's sentences; nothing where it cannot be read."""
    try:
        data: dict[str, Any] = json.loads(report.read_text())
        verdicts = {str(claim["id"]): str(claim["verdict"]) for claim in data["claims"]}
        return verdicts, tuple(one_line_verdicts(data))
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return {}, ()

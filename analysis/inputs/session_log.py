"""The log of a study, `sessions.jsonl`: its sessions and all looks at its results; its folder.

Each line carries in `before` the hash of all that stands before it, and `sessions.sha256` lists the
hash of the log after every line. A line that was changed, taken out or cut off is thereby noticed,
unless both files are written anew; the records of the runs name hashes of the log for that case.

A table that stands in such a folder, with the `study.yaml` and the log that `study.run` wrote, is
bound by them: its claims are the declared ones, and reading it is a look.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock

from analysis.inputs.plan import Plan, read_plan

Entry = Mapping[str, Any]
_RECORDED = re.compile(r"^hash: '?[0-9a-f]{64}'?$", re.MULTILINE)
# What makes two plans the same for the verdicts.
_DECIDES = ("claims", "margin", "alpha", "scope", "looks", "looks_planned", "correction")
LOST = ", so that looks may be missing"  # what a break says where the log has lost lines


class SessionLog:
    """The log in a study's folder; reading it needs no more than the file.

    Args:
        folder: of the study.
    """

    def __init__(self, folder: Path) -> None:
        self.file = folder / "sessions.jsonl"
        self._hashes = folder / "sessions.sha256"
        self._lock = folder / "sessions.lock"

    def append(self, **facts: Any) -> None:
        """Add a line: what ran when, on what, or who looked.

        Raises:
            OSError: it cannot be written.
        """
        now = datetime.now(UTC).isoformat(timespec="seconds")
        with FileLock(self._lock):
            content = self._content()
            if content and not content.endswith(b"\n"):
                content = content + b"\n"  # after a line that a crash has torn
            entry = {"at": now, **facts, "before": self._before(content)}
            content += json.dumps(entry).encode() + b"\n"
            _extend(self.file, content[self._size() :])
            _extend(self._hashes, f"{_hash(content)}\n".encode())

    def entries(self) -> list[dict[str, Any]]:
        """All entries; a line that a crash has torn is passed over."""
        found = (_parsed(line) for line in self._content().splitlines())
        return [entry for entry in found if entry is not None]

    def hashes(self) -> list[str]:
        """The hash of the log before its first line and after every line."""
        whole, found = hashlib.sha256(), [_hash(b"")]
        for line in self._content().splitlines(keepends=True):
            whole.update(line)
            found.append(whole.hexdigest())
        return found

    def breaks(self) -> list[str]:
        """Where the log is not what was written; nothing where it is."""
        known, name = self.hashes(), self.file.name
        for number, line in enumerate(self._content().splitlines(), 1):
            before = (_parsed(line) or {}).get("before", known[number - 1])
            if before != known[number - 1]:
                return [f"{name}:{number}: lines before it were changed or taken out{LOST}"]
        listed = self._listed()
        if listed is None and self._chained():
            return [f"{self._hashes.name} is missing, which has the hashes of {name}{LOST}"]
        if self._emptied(listed):
            return [f"{self._hashes.name} is damaged, which has the hashes of {name}{LOST}"]
        if set(listed or ()) - set(known):
            return [f"{name}: its last lines were changed or taken out{LOST}"]
        return []

    def adopt(self) -> None:
        """Take the log as it is for whole: of a copy that came without its hashes."""
        self._hashes.write_text("".join(f"{known}\n" for known in self.hashes()))

    def _before(self, content: bytes) -> str:
        """The hash of what stands there, or one that keeps a break visible."""
        listed = self._listed()
        if listed is None:
            return "missing" if self._chained() else _hash(content)
        if self._emptied(listed):
            return "missing"
        lost = [known for known in listed if known not in self.hashes()]
        return lost[-1] if lost else _hash(content)

    def _chained(self) -> bool:
        """Whether any line has a hash: those of earlier versions have none."""
        return any("before" in entry for entry in self.entries())

    def _emptied(self, listed: list[str] | None) -> bool:
        """Whether the list has no hash, which a crash explains of a log of one line only."""
        return not listed and sum("before" in entry for entry in self.entries()) > 1

    def _listed(self) -> list[str] | None:
        """The hashes that were noted; the last one may be torn."""
        if not self._hashes.is_file():
            return None
        lines = self._hashes.read_text(errors="replace").splitlines()
        return [line for line in lines if len(line) == 64]

    def _content(self) -> bytes:
        return self.file.read_bytes() if self.file.is_file() else b""

    def _size(self) -> int:
        return self.file.stat().st_size if self.file.is_file() else 0


def looks_taken(
    entries: Iterable[Entry], planned: int, breaks: Iterable[str] = ()
) -> list[dict[str, Any]]:
    """The looks at a study's results that came before its planned number of units.

    A look at `planned` units or more is the report itself. Units that ended before the plan grew
    were seen, as the growth may rest on them.

    Args:
        entries: of the log.
        planned: units of the study as it is planned now: replicates, or seeds.
        breaks: of the log and the study, because of which it may have lost looks.

    Returns:
        For each number of units the first look: `at`, `units`, `why` in words, and `unplanned`
        where no plan of looks can cover it.
    """
    found: dict[tuple[int, str], dict[str, Any]] = {}
    seeds = None
    for entry in entries:
        units, other, why = entry.get("units", 0), entry.get("study", ""), ""
        if "units" not in entry and entry.get("look"):  # of an earlier version
            units = len(entry.get("seeds", ()))
        units = units if isinstance(units, int) else 0  # written by hand
        if entry.get("look") and other:
            why = f"{units} units had been seen in the study {other}, which was noted"
        elif entry.get("look") and units < planned:
            why = f"looked at after {units} of {planned} units"
        elif "session" in entry:
            if seeds is not None and entry.get("seeds") != seeds:
                why = f"the plan grew when {units} units had ended"
            seeds = entry.get("seeds")
        if why and units:
            at = str(entry.get("at", ""))
            look = {"at": at, "units": units, "why": f"{why} on {at[:10]}"}
            if entry.get("unplanned"):
                look["unplanned"] = True
            found.setdefault((units, other), look)
    lost = [{"at": None, "units": None, "why": text, "unplanned": True} for text in breaks]
    return [*found.values(), *lost]


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    return entry if isinstance(entry, dict) else None


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _extend(file: Path, content: bytes) -> None:
    with file.open("ab") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())


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

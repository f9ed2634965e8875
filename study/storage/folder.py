"""A study's folder: what it keeps on disk, and whether a command may touch it."""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from filelock import FileLock, Timeout
from pydantic import ValidationError

from analysis.inputs.plain_yaml import MOST_CHARACTERS, Loader
from analysis.inputs.session_log import SessionLog
from study.design import RECORDED, Study
from study.errors import StudyError, dotted, listing, nearest
from study.records import Environment, Ledger, digest, nearest_differences, write_whole

# What may change when a study is resumed: it neither alters a verdict's meaning nor any past run.
_FREE = ("resources", "beside", "published", "figures", "confirm.keep")
# What is written again from the rest, and what is not; `search.db` is put aside and rebuilt.
_DERIVED = ("runs.csv", "results.csv", "pareto.csv", "report/report.json", "report/report.html")
_ORIGINAL = ("study.yaml", "winners.json", "sessions.jsonl", "sessions.sha256")
_LOCKS = ("lock", "sessions.lock")
_FOLDERS = ("runs", "report")


class Folder:
    """A study's folder: `study.yaml`, `winners.json`, `runs.csv`, `results.csv`, `report/`, …"""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        self.study_yaml = self.path / "study.yaml"
        self.winners_json = self.path / "winners.json"
        self.log = SessionLog(self.path)
        self.runs_csv = self.path / "runs.csv"
        self.results_csv = self.path / "results.csv"
        self.report = self.path / "report"

    def refuse_missing(self, *, command: str, storage: str) -> None:
        """A study that is to be continued must be there; raises StudyError."""
        if not self.study_yaml.exists() and not self.log.entries() and not self.has_trained():
            known = sorted(file.parent.name for file in self.path.parent.glob("*/study.yaml"))
            name, close = self.path.name, nearest(self.path.name, known)
            remedy = f"{command} --name {close} --resume" if close else "the same without --resume"
            raise StudyError(
                f"there is no study `{name}` in {storage} to resume; nothing was started\n"
                f"  allowed: {listing(known) or 'none is there yet'}\n"
                f"  try: {remedy}"
            )

    def refuse_existing(self, *, command: str, named: str, storage: str) -> None:
        """Nothing is overwritten without a word.

        Raises:
            StudyError: the study exists; names the two ways on.
        """
        if self.study_yaml.exists():
            raise already_exists(
                self.path.name,
                where=f"{storage}/{self.path.name}",
                state=state_of(lambda name: (self.path / name).exists()),
                command=command,
                named=named,
                free_name=self._free_name(),
            )

    def open(
        self,
        study: Study,
        *,
        command: str,
        storage: str,
        environment: Environment | None = None,
        other_environment: bool = False,
    ) -> str:
        """Write the design of a new study, or check that an old one may continue; the study's id.

        Call it under `locked`: another command may be running this study.

        Args:
            study: as it is to run now.
            command, storage: for messages.
            environment: in which its trainings will run; None where that is not known.
            other_environment: whether it may be another one than those before.

        Raises:
            StudyError: the folder holds another design, or one that was tampered with; or the study
                would continue in another environment; or a file is damaged.
        """
        here = [dict(environment)] if environment else []
        self._refuse_wrong_kinds()
        if not self.study_yaml.exists():
            self._refuse_without_design(command)
            self._write(study, identity=uuid.uuid4().hex, environments=here)
            return self.identity()
        if self.hash() != self.computed_hash():
            raise StudyError(
                f"{self.study_yaml}: the design was changed by hand after the study began; its "
                "hash no longer fits\n"
                "  try: undo the change; a study may only grow, by --set with --resume"
            )
        differences = self._differences(study)
        if differences:
            raise StudyError(
                f"{storage}/{study.name} was started with another design; nothing was changed\n"
                + "".join(f"  {difference}\n" for difference in differences)
                + "  allowed: more confirm.seeds, more search.replicates (from two on), more "
                "search.trials_per_arm before the confirmation has begun, other resources\n"
                f"  try: {command} --name {self._free_name()}"
            )
        Ledger(self.path).refuse_changed()
        known = self.environments()
        moved = nearest_differences(known, here[0]) if here else []
        if moved and not other_environment:
            raise StudyError(
                f"{storage}/{study.name} ran in another environment, where the same training gives "
                "other numbers; nothing was changed\n"
                + "".join(f"  {difference}\n" for difference in moved)
                + "  try: continue where it began; or add --other-environment: finished runs are "
                "kept, and the report says which runs ran where"
            )
        if moved:  # no training is computed half there, half here
            shutil.rmtree(self.path / "checkpoints", ignore_errors=True)
        self._write(
            study, identity=self.identity(),
            environments=[*known, *here] if moved or not known else known,
        )  # fmt: skip
        return self.identity()

    def has_trained(self) -> bool:
        """Whether any trial or run has begun here, whatever else is left of the study."""
        return (self.path / "search.db").exists() or any((self.path / "runs").rglob("*.json"))

    def environments(self) -> list[dict[str, str]]:
        """In which the study has run; none of a study of an earlier version."""
        return list(self._declared().get("environments", []))

    def identity(self) -> str:
        """The study's id, which tells it from others of the same name."""
        return str(self._declared()["id"])

    def hash(self) -> str:
        """Of the design record."""
        return str(self._declared()["hash"])

    def computed_hash(self) -> str:
        """The hash that the design in `study.yaml` should have."""
        declared = self._declared()
        return _design_hash({k: v for k, v in declared.items() if k not in RECORDED})

    def load(self) -> Study:
        """The study as resolved when it was started.

        Raises:
            StudyError: there is no study in this folder, or it is damaged.
        """
        self._refuse_wrong_kinds()
        if not self.study_yaml.exists():
            others = sorted(p.parent.name for p in self.path.parent.glob("*/study.yaml"))
            known = ", ".join(others) or "none"
            raise StudyError(
                f"there is no study in {self.path}\n  allowed: the name of a study there: {known}\n"
                "  try: --storage DIR if it was kept elsewhere"
            )
        known = {k: v for k, v in self._declared().items() if k in Study.model_fields}
        search = known.get("search")
        if isinstance(search, dict) and search and "replicates" not in search:
            # Recorded before searches could be repeated: its claims were about what one found.
            known.setdefault("scope", "configuration")
        try:
            return Study.model_validate(known)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = dotted(first["loc"])
            raise StudyError(
                f"{self.study_yaml} is damaged: {place}: {first['msg']}\n"
                "  try: restore the file, or start the study again with --name"
            ) from None

    def winners(self, replicate: int | None = None) -> dict[str, Any] | None:
        """The settings frozen at the end of the search, or of a replicate's, if it has ended."""
        frozen = self._frozen()
        return frozen if replicate is None else (frozen or {}).get(str(replicate))

    def frozen(self, study: Study) -> list[tuple[Study, dict[str, Any]]]:
        """The study, or each of its replicates, with its winners: arm by arm, or none yet.

        Without a search an arm is confirmed as it stands.
        """
        if study.search is None:
            return [(study, {arm: {} for arm in study.arms})]
        return [(part, self.winners(part.number) or {}) for part in study.replicates]

    def _frozen(self) -> dict[str, Any] | None:
        if not self.winners_json.exists():
            return None
        try:
            data = json.loads(self.winners_json.read_text())
            if data["hash"] == digest(data["winners"]) and isinstance(data["winners"], dict):
                return data["winners"]
        except (ValueError, KeyError, TypeError):
            pass
        raise StudyError(
            f"{self.winners_json}: the frozen winners were changed or damaged; their hash does not "
            "fit\n  try: restore the file, or remove it to choose the winners again from the search"
        )

    def freeze(self, winners: Mapping[str, Any], replicate: int | None = None) -> None:
        """Keep the winners, with a hash, before anything is confirmed."""
        kept = dict(winners)
        if replicate is not None:
            kept = (self._frozen() or {}) | {str(replicate): kept}
        data = {"hash": digest(kept), "winners": kept}
        write_whole(self.winners_json, json.dumps(data, indent=2))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other drivers out; the kernel lifts the lock when the process ends, however.

        Raises:
            StudyError: another process has the study, or the folder cannot be written.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StudyError(
                f"{self.path} cannot be made: {error.strerror}\n"
                "  try: --storage DIR with a folder that you may write to"
            ) from None
        self._refuse_wrong_kinds()
        try:
            lock = FileLock(self.path / "lock", timeout=0).acquire()
        except Timeout:
            raise StudyError(
                f"another process is running the study in {self.path}\n"
                "  try: wait for it, or end it with Ctrl-C"
            ) from None
        with lock:
            yield

    def _refuse_wrong_kinds(self) -> None:
        """A folder in a file's place, or a file in a folder's, is told before anything is read."""
        runs = [file for file in (self.path / "runs").rglob("*.json") if file.is_dir()]
        for file in (*(self.path / name for name in (*_ORIGINAL, *_DERIVED, *_LOCKS)), *runs):
            if file.is_dir():
                restored = file.name in _ORIGINAL
                then = "restore the file" if restored else "the same study.run with --resume"
                raise StudyError(
                    f"{file} is a folder where a file of the study belongs\n"
                    f"  try: move the folder away, then {then}"
                )
        for name in _FOLDERS:
            if (self.path / name).exists() and not (self.path / name).is_dir():
                raise StudyError(
                    f"{self.path / name} is a file where a folder of the study belongs\n"
                    "  try: move the file away, then restore the folder, or the same study.run "
                    "with --resume"
                )

    def _refuse_without_design(self, command: str) -> None:
        """A study that has begun and lost its design would take any other for its own."""
        begun = [f"began on {entry['at']}" for entry in self.log.entries() if "session" in entry]
        if self.has_trained():
            begun.append("has trained")
        if begun:
            raise StudyError(
                f"{self.study_yaml} is missing, but the study {begun[0]}: what was "
                "declared then is not known\n"
                f"  try: restore the file, or start a new study: {command} --name "
                f"{self._free_name()}"
            )

    def _declared(self) -> dict[str, Any]:
        try:
            with self.study_yaml.open(encoding="utf-8") as file:
                text = file.read(MOST_CHARACTERS + 1)
            data = yaml.load(text, Loader)
            environments = data.get("environments", []) if isinstance(data, dict) else None
            listed = isinstance(environments, list)
            if (
                listed
                and {"id", "hash"} <= data.keys()
                and all(isinstance(known, dict) for known in environments)
            ):
                return data
        except (yaml.YAMLError, ValueError, RecursionError):
            pass
        raise StudyError(
            f"{self.study_yaml} is damaged: it is not what study.run wrote\n"
            "  try: restore the file, or start the study again with --name"
        )

    def _write(
        self, study: Study, *, identity: str, environments: Sequence[dict[str, str]]
    ) -> None:
        declared = study.declared()
        data = {"id": identity, "hash": _design_hash(declared)} | declared
        data |= {"environments": [*environments]} if environments else {}
        header = "# Written by study.run: the study as resolved, and its hash. Do not edit.\n"
        write_whole(self.study_yaml, header + yaml.safe_dump(data, sort_keys=False))

    def _differences(self, study: Study) -> list[str]:
        old, new = _flat(self.load().declared()), _flat(study.declared())
        found = []
        for key in sorted(old.keys() | new.keys()):
            was, now = old.get(key), new.get(key)
            if was == now or _is_free(key):
                continue
            if key == "confirm.seeds" and set(was or []) <= set(now or []):
                continue
            more = isinstance(was, int) and isinstance(now, int) and now > was
            if key == "search.trials_per_arm" and more and not self._confirming():
                continue
            if key == "search.replicates" and more and was > 1:
                continue
            if key == "search.max_failures":
                continue
            # Metrics that a later version declares too; older studies declared none.
            if key.split(".")[0] == "metrics" and not was:
                continue
            found.append(f"{key}: was {_show(was)}, is now {_show(now)}")
        return found

    def _confirming(self) -> bool:
        """Whether anything has been confirmed, or may be with winners that are frozen."""
        return self.winners() is not None or any((self.path / "runs" / "confirm").rglob("*.json"))

    def _free_name(self) -> str:
        stem, number = self.path.name, 2
        while (self.path.parent / f"{stem}-{number}").exists():
            number += 1
        return f"{stem}-{number}"


def already_exists(
    name: str, *, where: str, state: str, command: str, named: str, free_name: str
) -> StudyError:
    """The error for a command that would start a study of a name that is taken."""
    return StudyError(
        f"the study `{name}` already exists in {where} ({state}); nothing was changed\n"
        f"  to continue it:      {named} --resume\n"
        f"  to start a new one:  {command} --name {free_name}"
    )


def state_of(holds: Callable[[str], bool]) -> str:
    """How far a study has come, by which of its files there are."""
    if holds("report/report.html"):
        return "finished, with a report"
    if holds("winners.json"):
        return "in its confirmation phase"
    return "in its search phase"


def _design_hash(declared: Mapping[str, Any]) -> str:
    decides = {key: value for key, value in declared.items() if not _is_free(key)}
    if isinstance(confirm := decides.get("confirm"), Mapping):  # a damaged record has anything
        decides["confirm"] = {k: v for k, v in confirm.items() if not _is_free(f"confirm.{k}")}
    return digest(decides)


def _is_free(key: str) -> bool:
    return key in _FREE or key.split(".")[0] in _FREE


def _flat(data: Any, at: str = "") -> dict[str, Any]:
    if isinstance(data, dict) and data:
        found: dict[str, Any] = {}
        for key, value in data.items():
            found |= _flat(value, f"{at}.{key}" if at else str(key))
        return found
    return {at: data}


def _show(value: Any) -> str:
    return "not set" if value is None else str(value)

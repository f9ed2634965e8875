"""The looks at a study's results: those taken here, and scores that another study has shown.

Whoever sees scores before the planned number of units may stop, grow or start again because of
them. So each look is logged where the study lives, and a study that was designed when another one
had run the same trainings says so.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.inputs import read_plan
from analysis.inputs.session_log import LOST, looks_taken
from study.design import Study
from study.errors import StudyError
from study.records import Ledger, confirmation_key, digest
from study.storage import Folder

# What of a design may differ between studies that are the same.
_NAMES = ("name", "question", "resources", "beside", "published")


def note_look(folder: Folder, *, by: str) -> bool:
    """Log that somebody looks at the results there are; False where there are none.

    Args:
        folder: of the study, with its tables.
        by: the command.

    Raises:
        StudyError: the results are damaged, or the log cannot be written.
    """
    if not _has_results(folder.results_csv):
        return False
    study = folder.load()
    folder.log.append(look=True, units=ended_units(folder, study), planned=planned(study), by=by)
    return True


def _has_results(results: Path) -> bool:
    remedy = "  try: the study.run command with --resume, which writes it again from the runs"
    if not results.exists():
        if any((results.parent / "runs" / "confirm").rglob("*.json")):
            raise StudyError(f"{results} is missing, and there are runs of it\n{remedy}")
        return False
    try:
        with results.open(newline="") as table:
            reader = csv.DictReader(table)
            if "seed" in (reader.fieldnames or ()):  # written before the first row
                return bool([int(row["seed"]) for row in reader])
    except (ValueError, KeyError, TypeError, csv.Error):
        pass
    raise StudyError(f"{results} is damaged: it is not what study.run wrote\n{remedy}")


def planned(study: Study) -> int:
    """The units of a study: its replicates, or the seeds of its only one."""
    return len(study.replicates) if len(study.replicates) > 1 else study.confirm.count


def ended_units(folder: Folder, study: Study) -> int:
    """How many units have all their confirmation runs behind them."""
    ledger, count = Ledger(folder.path, forgiving=True), 0
    for part, winners in folder.frozen(study):
        arms = [arm for arm, won in winners.items() if won is not None]
        seeds = [
            bool(arms)
            and all(
                ledger.holds(confirmation_key(arm, condition, seed, part.number))
                for arm in arms
                for condition in study.conditions
            )
            for seed in part.confirm.seed_list
        ]
        count += all(seeds) if part.number else sum(seeds)
    return count


def looks_at(folder: Folder) -> list[dict[str, Any]]:
    """The looks that came before the planned units, as `analysis` takes them."""
    return looks_taken(folder.log.entries(), planned(folder.load()), breaks(folder))


def breaks(folder: Folder) -> list[str]:
    """Where log, design, search and runs do not belong together (any more)."""
    from study.phases import designs_of  # takes Optuna, which most callers do without

    found = folder.log.breaks()
    designs = {str(entry.get("hash")) for entry in folder.log.entries() if "session" in entry}
    if folder.hash() != folder.computed_hash():
        found.append("study.yaml: the design differs from the one that its hash was taken of")
    elif designs and folder.hash() not in designs:
        found.append(f"study.yaml: no session of the log ran under this design{LOST}")
    logged = [entry["environment"] for entry in folder.log.entries() if entry.get("environment")]
    if any(known not in logged for known in folder.environments()):
        found.append("study.yaml: has an environment in which no session of the log ran")
    if designs_of(folder.path) - designs:
        text = "search.db: trials ran under a design that sessions.jsonl does not have"
        found.append(text + LOST)
    if changed := Ledger(folder.path).changed():
        found.append(_named_changed([str(file.relative_to(folder.path)) for file in changed]))
    return found + list(_runs_of_others(folder, designs))


def _named_changed(files: list[str]) -> str:
    if len(files) == 1:
        return f"{files[0]}: was changed after the run had ended; its checksum does not fit"
    return f"{len(files)} records, the first {files[0]}, were changed after their runs had ended"


def _runs_of_others(folder: Folder, designs: set[Any]) -> Iterator[str]:
    """Runs that name a design or a state of the log that there is not."""
    known, ledger = set(folder.log.hashes()), Ledger(folder.path, forgiving=True)
    endings = [e for phase in ("search", "recheck", "confirm") for e in ledger.all(phase)]
    for what, key, there in (("design", "design", designs), ("line of the log", "log", known)):
        strange = [e.job.key for e in endings if e.stamp.get(key, "") not in {*there, ""}]
        if strange:
            first = f"{len(strange)} runs, the first {strange[0]},"
            yield f"{first} ran under a {what} that sessions.jsonl does not have{LOST}"


@dataclass(frozen=True)
class Seen:
    """Scores of a study that another one has shown before.

    Attributes:
        study: the other one's name.
        units: how many units of this study, of `planned`, have been seen there.
        same: the other one has the same design, so that nothing was changed because of them.
        looks: taken at the other one before it was complete.
    """

    study: str
    units: int
    planned: int
    same: bool
    looks: tuple[dict[str, Any], ...]

    def entries(self) -> list[dict[str, Any]]:
        """What the log of this study says about it."""
        about = {"look": True, "study": self.study, "planned": self.planned}
        if self.same:
            kept = ("units", "unplanned")
            return [about | {k: v for k, v in look.items() if k in kept} for look in self.looks]
        return [about | {"units": self.units, "unplanned": True}]

    def told(self, study: Study) -> str:
        """What the user should know before the study spends anything."""
        if not self.same:
            return (
                f"WARNING: {self.units} of this study's {self.planned} units have been seen: the "
                f"study `{self.study}` has trained the same arms on the same seeds under another "
                "design; claims that were made with scores at hand stay undecided\n"
                f"  try: {_fresh_seeds(study)}"
            )
        text = f"note: the study `{self.study}` has the same design and the same seeds"
        if not self.looks:
            return f"{text}, hence the same results"
        return f"{text}; its looks count here: {', '.join(look['why'] for look in self.looks)}"


def seen_elsewhere(study: Study, storage: Path) -> list[Seen]:
    """The other studies of a folder that have trained this one's arms on its confirmation seeds.

    Counted are units of which both arms of a claim have run there, with the same settings as
    written, the same seed and, where they are searched, the same search seed and space.

    Args:
        study: that is to begin, or to grow.
        storage: folder of studies.
    """
    found = []
    for file in sorted(storage.glob("*/study.yaml")) if study.claims else ():
        folder = Folder(file.parent)
        if folder.path.name == study.name or not (folder.path / "runs" / "confirm").exists():
            continue
        try:
            other = folder.load()
            taken = tuple(looks_taken(folder.log.entries(), planned(other)))
        except StudyError:  # damaged; whoever asks for that study is told
            continue
        units = _shared(study, other, Ledger(folder.path, forgiving=True))
        if units:
            same = _design(study) == _design(other)
            found.append(Seen(folder.path.name, units, planned(study), same, taken))
    return found


def _fresh_seeds(study: Study) -> str:
    highest = max(study.all_seeds)
    if study.search:
        return f"--set search.seed={study.search.seed + 1 if study.replicates[1:] else highest + 1}"
    if study.confirm.count > 12:
        return f"confirm.seeds with other seeds, such as those above {highest}"
    listed = ",".join(str(highest + i) for i in range(1, study.confirm.count + 1))
    return f"--set confirm.seeds=[{listed}]"


def _design(study: Study) -> str:
    return digest({k: v for k, v in study.declared().items() if k not in _NAMES})


def _shared(study: Study, other: Study, ledger: Ledger) -> int:
    """Units of which the other study has all runs of a claim."""
    if study.workload != other.workload:
        return 0
    defaults = dict(study.trains.defaults)
    seen = {
        (training, seed)
        for part in other.replicates
        for arm in other.arms
        for condition in other.conditions
        for training in [_training(part, arm, condition, defaults)]
        for seed in part.confirm.seed_list
        if ledger.holds(confirmation_key(arm, condition, seed, part.number))
    }
    units = set()
    for claim in read_plan(study.declared()).claims:
        if other.metrics and claim.metric.base not in other.metrics:
            continue
        for part in study.replicates if seen else ():
            runs = [_training(part, arm, c, defaults) for arm in (claim.a, claim.b)
                    for c in claim.conditions]  # fmt: skip
            shared = {s for s in part.confirm.seed_list if all((run, s) in seen for run in runs)}
            units |= {part.number} if part.number and shared else shared
    return len(units)


def _training(part: Study, arm: str, condition: str, defaults: dict[str, Any]) -> str:
    """What tells one training from another, its seed aside, before its search has ended."""
    search, searched = part.search, None
    if search:
        fixed = {*part.arms[arm]}.union(*part.conditions.values())
        space = {n: p.model_dump(mode="json") for n, p in search.space.items() if n not in fixed}
        searched = [search.seed, part.sampler_seed, space]
    return digest([defaults | part.fixed(arm, condition), searched])

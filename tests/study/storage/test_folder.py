"""Are a study's files whole, locked, and only ever changed as announced?"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import study as study_package
from analysis.inputs import read_plan
from study.design.study import Study
from study.errors import StudyError
from study.phases.confirmation import ConfirmSource, confirmation_jobs
from study.records.files import digest, write_whole
from study.records.job import Job, Record
from study.records.ledger import Ending, Ledger
from study.records.rows import result_rows
from study.spec.find_workload import resolved
from study.storage.folder import Folder


def study(**changes) -> Study:
    data = {
        "name": "f",
        "trial": {"dataset": "digits", "epochs": 2},
        "arms": {"a": {"loss": "contrastive"}, "b": {"loss": "debiased_pos", "blur_prob": 0.2}},
        "conditions": {"clean": {}, "blurred": {"blur_prob": 0.9}},
        "search": {"trials_per_arm": 3, "space": {"temperature": {"low": 0.1, "high": 1.0}}},
        "confirm": {"seeds": 2},
    }
    return resolved(data | changes)


def opened(path: Path, s: Study, resume: bool = False) -> Folder:
    folder = Folder(path / s.name)
    names = {"command": "python -m study.run f.yaml", "storage": "studies"}
    if not resume:
        folder.refuse_existing(named=names["command"], **names)
    with folder.locked():
        folder.open(s, **names)
    return folder


def test_a_study_is_found_again_as_it_was(tmp_path):
    folder = opened(tmp_path, study())
    assert folder.load().declared() == study().declared()
    again = opened(tmp_path, study(), resume=True)
    assert (again.identity(), again.hash()) == (folder.identity(), folder.hash())


def test_the_hash_is_of_the_design_and_not_of_the_machine(tmp_path):
    hashes = {
        opened(tmp_path / str(i), s).hash()
        for i, s in enumerate(
            [
                study(),
                study(resources={"cpus": 2}),
                study(figures=["embedding"]),
                study(confirm={"seeds": 2, "keep": ["features"]}),
            ]
        )
    }
    assert len(hashes) == 1
    assert opened(tmp_path / "x", study(margin=0.1)).hash() not in hashes
    printed = {"F1": {"a": 0.7, "b": "~0.8", "source": "Table 1"}}
    assert opened(tmp_path / "y", study(published=printed)).hash() in hashes


@pytest.mark.parametrize(
    "change",
    [
        {"confirm": {"seeds": 4}},
        {"confirm": {"seeds": [1, 2, 9]}},
        {"resources": {"cpus": 2}},
        {"published": {"F1": {"a": 0.7, "b": "~0.8"}}},
        {"confirm": {"seeds": 3, "keep": ["features"]}},
        {"figures": ["embedding"]},
        {"search": study().search.model_dump(exclude_none=True) | {"trials_per_arm": 5}},
    ],
)
def test_a_study_may_grow(tmp_path, change):
    opened(tmp_path, study())
    opened(tmp_path, study(**change), resume=True)


def recorded(folder: Folder, data: dict) -> None:
    """Write the study file as an earlier version has written it."""
    del data["hash"]
    kept = {"id": data.pop("id"), "hash": digest(data)}
    folder.study_yaml.write_text(yaml.safe_dump(kept | data, sort_keys=False))
    assert folder.hash() == folder.computed_hash()


def test_a_study_recorded_before_workloads_had_names_goes_on(tmp_path):
    folder = opened(tmp_path, study())
    data = yaml.safe_load(folder.study_yaml.read_text())
    for name in ("workload", "metrics", "resources"):
        data.pop(name)
    recorded(folder, data)
    old = folder.load()
    assert old.better("val/knn_top1") == "higher"
    assert old.better("views") == "lower"
    opened(tmp_path, study(confirm={"seeds": 4}), resume=True)
    assert folder.load().metrics == study().metrics


def test_a_study_recorded_before_replicates_keeps_the_scope_of_its_claims(tmp_path):
    folder = opened(tmp_path, study(scope="configuration"))
    data = yaml.safe_load(folder.study_yaml.read_text())
    del data["scope"], data["resources"], data["search"]["replicates"]
    recorded(folder, data)
    assert folder.load().about == "configuration" == read_plan(folder.study_yaml).scope
    with pytest.raises(StudyError, match="scope: was configuration, is now method"):
        opened(tmp_path, study(), resume=True)
    opened(tmp_path, study(scope="configuration"), resume=True)


def test_a_study_without_its_design_is_not_taken_for_a_new_one(tmp_path):
    folder = opened(tmp_path, study())
    folder.log.append(session=1)
    folder.study_yaml.unlink()
    with pytest.raises(StudyError, match=r"is missing, but the study began on[\s\S]*--name f-2"):
        opened(tmp_path, study(margin=0.5), resume=True)


def test_a_metric_that_turns_round_is_another_design(tmp_path):
    folder = opened(tmp_path, study())
    data = yaml.safe_load(folder.study_yaml.read_text())
    data["metrics"]["val/knn_top1"]["better"] = "lower"
    del data["resources"]
    recorded(folder, data)
    with pytest.raises(StudyError, match=r"val/knn_top1\.better: was lower, is now higher"):
        opened(tmp_path, study(), resume=True)


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"confirm": {"seeds": 1}}, "confirm.seeds"),
        ({"confirm": {"seeds": [5, 6]}}, "confirm.seeds: was [1, 2], is now [5, 6]"),
        ({"trial": {"dataset": "digits", "epochs": 3}}, "trial.epochs: was 2, is now 3"),
        ({"arms": {"a": {"loss": "contrastive"}}}, "arms.b.loss: was debiased_pos"),
        ({"alpha": 0.1}, "alpha: was 0.05, is now 0.1"),
        ({"search": None}, "search"),
    ],
)
def test_anything_else_is_refused(tmp_path, change, part):
    folder = opened(tmp_path, study())
    before = folder.study_yaml.read_bytes()
    with pytest.raises(StudyError) as told:
        opened(tmp_path, study(**change), resume=True)
    assert part in str(told.value)
    assert folder.study_yaml.read_bytes() == before


def test_a_design_changed_by_hand_is_refused(tmp_path):
    folder = opened(tmp_path, study(margin=0.01))
    folder.study_yaml.write_text(folder.study_yaml.read_text().replace("0.01", "0.3"))
    with pytest.raises(StudyError, match="changed by hand"):
        opened(tmp_path, study(margin=0.3), resume=True)


_BOMB = ", ".join(f"&a{i} [{', '.join([f'*a{i - 1}' if i else 'x'] * 9)}]" for i in range(9))


@pytest.mark.parametrize(
    "text",
    [
        "{{{", "", "name: f", "\x00", f"id: [{_BOMB}]\nhash: x", "id: " + "9" * 5000 + "\nhash: x",
        "id: !!python/object/apply:os.getpid []\nhash: x", "id: 2020-13-45\nhash: x",
        "id: " + "[" * 500 + "]" * 500 + "\nhash: x", "id: &x [*x]\nhash: x",
        '"\\e[31m": 1\nid: "\\ud800"\nhash: x', "id: x\nhash: x\n#" + "#" * 300_000,
    ],
    ids=lambda text: ascii(text)[1:20],
)  # fmt: skip
def test_a_damaged_study_file_is_told_and_not_a_traceback(tmp_path, text):
    folder = opened(tmp_path, study())
    folder.study_yaml.write_text(text)
    with pytest.raises(StudyError, match="is damaged"):
        folder.load()


def test_changed_winners_are_refused(tmp_path):
    folder = opened(tmp_path, study())
    folder.freeze({"a": {"temperature": 0.2}, "b": None})
    folder.winners_json.write_text(folder.winners_json.read_text().replace("0.2", "0.9"))
    with pytest.raises(StudyError, match="hash does not"):
        folder.winners()


def test_a_refused_command_changes_nothing(tmp_path):
    folder = opened(tmp_path, study())
    before = folder.study_yaml.read_bytes()
    with folder.locked(), pytest.raises(StudyError, match="another process"):
        opened(tmp_path, study(confirm={"seeds": 5}), resume=True)
    assert folder.study_yaml.read_bytes() == before


def test_more_trials_are_refused_once_something_is_confirmed(tmp_path):
    folder = opened(tmp_path, study())
    job = confirmation_jobs(study(), {"a": {}, "b": {}}, tmp_path)[0]
    Ledger(folder.path).write(ending(job))
    more = study().search.model_dump(exclude_none=True) | {"trials_per_arm": 5}
    with pytest.raises(StudyError, match="trials_per_arm"):
        opened(tmp_path, study(search=more), resume=True)


def test_runs_made_with_other_winners_are_not_taken_for_the_new_ones(tmp_path):
    ledger = Ledger(tmp_path)
    old = confirmation_jobs(study(), {"a": {"temperature": 0.2}, "b": {}}, tmp_path)
    ledger.write(ending(old[0]))
    new = confirmation_jobs(study(), {"a": {"temperature": 0.3}, "b": {}}, tmp_path)
    with pytest.raises(StudyError, match="made with other settings"):
        ConfirmSource(new, ledger, study().trains)


def test_failed_runs_are_run_again_and_diverged_ones_are_not(tmp_path):
    ledger = Ledger(tmp_path)
    jobs = confirmation_jobs(study(), {"a": {}, "b": {}}, tmp_path)
    ledger.write(Ending(jobs[0], "failed", (), "out of memory"))
    ledger.write(Ending(jobs[1], "diverged", (), "epoch 1"))
    source = ConfirmSource(jobs, ledger, study().trains)
    assert source.remaining() == len(jobs) - 1
    assert source.next() == jobs[0]


def test_more_trials_are_refused_once_the_winners_are_frozen(tmp_path):
    folder = opened(tmp_path, study())
    folder.freeze({"a": {"temperature": 0.2}, "b": None})
    assert folder.winners() == {"a": {"temperature": 0.2}, "b": None}
    more = study().search.model_dump(exclude_none=True) | {"trials_per_arm": 5}
    with pytest.raises(StudyError, match="trials_per_arm"):
        opened(tmp_path, study(search=more), resume=True)


def test_two_drivers_of_one_study_are_kept_apart(tmp_path):
    folder = opened(tmp_path, study())
    code = (
        "import sys; from pathlib import Path; from study.storage.folder import Folder\n"
        "with Folder(Path(sys.argv[1])).locked(): print('in', flush=True); sys.stdin.read()"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", code, str(folder.path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        cwd=Path(study_package.__file__).parents[1],
    )  # fmt: skip
    assert other.stdout.readline() == "in\n"
    with pytest.raises(StudyError, match="another process"), folder.locked():
        pass
    other.kill()
    other.communicate()
    with folder.locked():  # the kernel has lifted the dead driver's lock
        pass


def test_a_torn_line_in_the_session_log_is_passed_over(tmp_path):
    folder = opened(tmp_path, study())
    folder.log.append(session=1)
    with folder.log.file.open("a") as log:
        log.write('{"session": 2, "comm')
    assert [entry["session"] for entry in folder.log.entries()] == [1]


def test_confirmation_runs_seed_by_seed_and_conditions_prevail(tmp_path):
    winners = {"a": {"temperature": 0.2}, "b": {"temperature": 0.7}}
    jobs = confirmation_jobs(study(), winners, tmp_path)
    cells = [(job.seed, job.condition, job.arm) for job in jobs]
    assert cells == sorted(cells, key=lambda cell: cell[0])
    assert len(set(cells)) == 2 * 2 * 2
    by_cell = {(job.arm, job.condition): job.config for job in jobs if job.seed == 1}
    assert by_cell["b", "clean"]["temperature"] == 0.7
    assert by_cell["b", "clean"]["blur_prob"] == 0.2
    assert by_cell["b", "blurred"]["blur_prob"] == 0.9


def test_an_arm_without_a_winner_has_no_confirmation(tmp_path):
    jobs = confirmation_jobs(study(), {"a": {}, "b": None}, tmp_path)
    assert {job.arm for job in jobs} == {"a"}


def ending(job: Job) -> Ending:
    records = tuple(
        Record(
            epoch,
            {"val/knn_top1": 0.1 * epoch, "seconds": 1.5 * epoch}
            | ({"test/knn_top1": 0.25} if epoch == 2 else {}),
            {"val/knn_top1": (epoch, 10)} | ({"test/knn_top1": (75, 300)} if epoch == 2 else {}),
        )
        for epoch in range(3)
    )
    return Ending(job, "finished", records)


def test_finished_runs_are_not_handed_out_again(tmp_path):
    ledger = Ledger(tmp_path)
    jobs = confirmation_jobs(study(), {"a": {}, "b": {}}, tmp_path)
    source = ConfirmSource(jobs, ledger, study().trains)
    first = source.next()
    source.on_end(ending(first))
    later = ConfirmSource(jobs, ledger, study().trains)
    assert later.remaining() == len(jobs) - 1
    assert later.next() == jobs[1]


def test_endings_survive_a_round_trip_and_not_only_finite_ones(tmp_path):
    ledger = Ledger(tmp_path)
    job = confirmation_jobs(study(), {"a": {}, "b": {}}, tmp_path)[0]
    ledger.write(ending(job))
    assert ledger.read(job.key) == ending(job)
    broken = Ending(job, "diverged", (Record(1, {"train/loss": math.inf}, {}),), "why")
    ledger.write(broken)
    assert ledger.read(job.key) == broken
    assert list(ledger.all("confirm")) == [broken]
    assert list(ledger.all("search")) == []


def test_result_rows_hold_what_a_seed_determines_and_nothing_else(tmp_path):
    job = confirmation_jobs(study(), {"a": {}, "b": {}}, tmp_path)[0]
    rows = list(result_rows([ending(job)]))
    assert ("a", "clean", "", 1, "", "test/knn_top1", "0.25", 75, 300) in rows
    assert ("a", "clean", "", 1, 1, "val/knn_top1", "0.1", 1, 10) in rows
    assert not any(row[4] == "seconds" for row in rows)


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    file = tmp_path / "deep" / "x.json"
    write_whole(file, "old")

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_whole(file, json.dumps({"new": 1}))
    assert file.read_text() == "old"

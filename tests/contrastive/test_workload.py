"""The contrastive workload, run as a study runs it: by a stand-in for the study's `run`."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import TypeAdapter

from contrastive import workload
from contrastive.config import SETTINGS, TrainConfig
from contrastive.data import image_shape
from contrastive.training import evaluator
from contrastive.training.loop import train
from contrastive.workload import WORKLOAD

TINY = {"dataset": "digits", "train_limit": 60, "batch_size": 20, "epochs": 3}


class Stopped(BaseException):
    """What a study raises in `report` to stop a trial."""


class DivergedRun(Exception):
    """What a study raises in `diverged`."""


@dataclass
class Run:
    """The study's view of one training."""

    folder: Path
    seed: int = 1
    read_test: bool = True
    test_epochs: dict[str, list[int]] = field(default_factory=dict)
    to_keep: tuple[str, ...] = ()
    device: str | None = "cpu"
    threads: int = 1
    prepared: str = ""
    stop_at: int | None = None
    stopping: bool = False
    told: list[tuple[int, dict[str, float], Any]] = field(default_factory=list)
    earlier: list[tuple[int, dict[str, float], Any]] = field(default_factory=list)

    def report(
        self,
        epoch: int,
        metrics: dict[str, float],
        counts: Any = None,
        *,
        last: bool = False,
        earlier: Any = (),
    ) -> None:
        assert last or not earlier
        self.earlier += earlier
        self.told.append((epoch, dict(metrics), counts))
        if epoch == self.stop_at:
            raise Stopped

    def diverged(self, message: str) -> None:
        raise DivergedRun(message)

    @property
    def figures(self) -> list[tuple[int, dict[str, float], Any]]:
        """What was reported, without the time that it took."""
        return [
            (epoch, {n: v for n, v in metrics.items() if n != "seconds"}, counts)
            for epoch, metrics, counts in self.told
        ]


def complete(**more) -> dict[str, Any]:
    return WORKLOAD.complete(TINY | more)


def run(folder: Path, settings: dict[str, Any] | None = None, **options) -> Run:
    found = Run(folder, **options)
    WORKLOAD.train(found, settings or complete())
    return found


def test_a_run_reports_the_records_of_the_training(tmp_path):
    found = run(tmp_path, prepared=WORKLOAD.prepare(TINY)).figures
    expected = [
        (
            record.epoch,
            {n: v for n, v in record.metrics.items() if n != "seconds"},
            {n: (c.correct, c.total) for n, c in record.counts.items()},
        )
        for record in train(TrainConfig(**TINY), 1, device="cpu")
    ]
    assert found == expected
    assert run(tmp_path, prepared=str(tmp_path / "another node")).figures == expected


def test_the_test_split_is_read_only_where_the_run_says_so(tmp_path):
    def names(read_test: bool) -> set[str]:
        told = run(tmp_path, read_test=read_test).told
        return {name for _, metrics, _ in told for name in metrics if name.startswith("test/")}

    assert names(False) == set()
    assert set(WORKLOAD.confirm_metrics) <= names(True)


EARLY = {"test/knn_top1": [0, 1, 2], "test/linear_top1": [2, 3]}


def ended_at(folder: Path, epochs: int) -> dict[str, tuple[int, int]]:
    """Test accuracies of a training that ends at an epoch."""
    _, _, counts = run(folder, complete(epochs=epochs)).told[-1]
    return counts


def test_a_test_curve_is_that_of_trainings_which_end_at_its_epochs(tmp_path):
    found = run(tmp_path, test_epochs=EARLY)
    ends = {epochs: ended_at(tmp_path, epochs) for epochs in (1, 2, 3)}
    knn, linear = "test/knn_top1", "test/linear_top1"
    untrained = {knn: ends[1]["test/untrained_knn_top1"]}
    expected = {
        0: untrained,
        1: {knn: ends[1][knn]},
        2: {knn: ends[2][knn], linear: ends[2][linear]},
        3: {linear: ends[3][linear]},
    }
    assert {epoch: counts for epoch, _, counts in found.earlier} == expected
    assert len({counts[knn] for counts in (untrained, ends[1], ends[2])}) > 1  # not one encoder
    for _, metrics, counts in found.earlier:
        assert metrics == {name: c / n for name, (c, n) in counts.items()}
    # Everything else is as it is without a curve.
    assert found.figures == run(tmp_path).figures


def test_a_test_curve_is_read_with_the_final_figures_and_only_then(tmp_path, monkeypatch):
    moved: list[int] = []
    original = evaluator.on_device
    monkeypatch.setattr(
        evaluator, "on_device", lambda split, *a: moved.append(len(split)) or original(split, *a)
    )
    found = Run(tmp_path, test_epochs=EARLY)
    at_report: list[int] = []
    report = found.report
    monkeypatch.setattr(
        found, "report", lambda *a, **o: at_report.append(moved.count(300)) or report(*a, **o)
    )
    WORKLOAD.train(found, complete())
    assert at_report == [1, 1, 1, 2]  # 300 validation images, then 300 test images
    assert run(tmp_path, test_epochs=EARLY, read_test=False).earlier == []


def test_a_killed_run_reports_the_same_test_curve(tmp_path, monkeypatch):
    whole = run(tmp_path / "whole", test_epochs=EARLY).earlier
    monkeypatch.setattr(workload, "CHECKPOINT_EVERY_S", -1.0)
    folder = tmp_path / "killed"
    folder.mkdir()
    with pytest.raises(Stopped):
        run(folder, stop_at=2, test_epochs=EARLY)
    again = run(folder, test_epochs=EARLY)
    assert again.earlier == whole
    assert len(whole) == 4


def test_a_run_continues_from_its_saved_state_and_reports_the_same(tmp_path, monkeypatch):
    whole = run(tmp_path / "whole").figures
    monkeypatch.setattr(workload, "CHECKPOINT_EVERY_S", -1.0)
    folder = tmp_path / "killed"
    folder.mkdir()
    with pytest.raises(Stopped):
        run(folder, stop_at=2)
    # Epoch 2 was reported but not yet saved: only then may its state be.
    assert torch.load(folder / "state.pt", weights_only=True)["state"]["epoch"] == 1
    trained = []
    original = torch.optim.Adam.step
    monkeypatch.setattr(
        torch.optim.Adam, "step", lambda *a, **o: trained.append(1) or original(*a, **o)
    )
    assert run(folder).figures == whole
    assert len(trained) == 6  # two epochs of three steps


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["truncated", "garbage", "a pickle", "seed", "settings"])
def test_a_damaged_or_foreign_state_costs_its_epochs_only(tmp_path, monkeypatch, damage: str):
    monkeypatch.setattr(workload, "CHECKPOINT_EVERY_S", -1.0)
    other = complete(temperature=0.2) if damage == "settings" else complete()
    with pytest.raises(Stopped):
        run(tmp_path, other, seed=2 if damage == "seed" else 1, stop_at=2)
    file = tmp_path / "state.pt"
    content = file.read_bytes()
    if damage == "truncated":
        file.write_bytes(content[: len(content) // 2])
    elif damage == "garbage":
        file.write_bytes(b"\x00" * 99)
    elif damage == "a pickle":
        torch.save({"seed": Path("x")}, file)
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    assert run(tmp_path).figures == run(fresh).figures


def test_a_state_that_cannot_be_written_costs_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(workload, "CHECKPOINT_EVERY_S", -1.0)
    nowhere = tmp_path / "gone"
    assert [epoch for epoch, *_ in run(nowhere).told] == [0, 1, 2, 3]
    assert not nowhere.exists()


def test_divergence_ends_the_run_as_diverged(tmp_path):
    found = Run(tmp_path)
    with pytest.raises(DivergedRun, match="not finite in epoch 1"):
        WORKLOAD.train(found, complete(learning_rate=1e30))
    assert [epoch for epoch, *_ in found.told] == [0]


def test_what_report_raises_passes_through(tmp_path):
    found = Run(tmp_path, stop_at=1)
    with pytest.raises(Stopped):
        WORKLOAD.train(found, complete())
    assert [epoch for epoch, *_ in found.told] == [0, 1]


@pytest.mark.parametrize("more", [{}, {"loss": "debiased_pos", "tau_plus": "auto"}])
def test_every_recorded_metric_is_declared(tmp_path, more):
    told = run(tmp_path, complete(**more)).told
    recorded = {name for _, metrics, _ in told for name in metrics}
    of_classes = {name for name in recorded if name.startswith("test/linear_top1/")}
    assert of_classes == {f"test/linear_top1/{digit}" for digit in range(10)}
    recorded -= of_classes  # shown beside their mean, never compared
    assert recorded <= set(WORKLOAD.metrics)
    for facts in WORKLOAD.metrics.values():
        assert {"better", "unit"} <= set(facts) <= {"better", "unit", "kind"}
        assert facts["better"] in ("higher", "lower")
    assert {WORKLOAD.search_metric, *WORKLOAD.confirm_metrics} <= set(WORKLOAD.metrics)


def test_settings_have_types_and_defaults_that_fit_them():
    assert tuple(WORKLOAD.hints) == tuple(WORKLOAD.defaults) == SETTINGS
    for name, default in WORKLOAD.defaults.items():
        assert TypeAdapter(WORKLOAD.hints[name]).validate_python(default) == default
    for names in (WORKLOAD.not_searched, WORKLOAD.not_of_arms, WORKLOAD.not_of_conditions,
                  WORKLOAD.length_settings, WORKLOAD.data_settings):  # fmt: skip
        assert set(names) <= set(SETTINGS)


def test_complete_settings_are_json_and_give_the_same_training():
    found = WORKLOAD.complete({"budget": {"views": 9}})
    assert json.loads(json.dumps(found)) == found
    assert TrainConfig(**found) == TrainConfig(budget={"views": 9})


def test_settings_that_stored_studies_do_not_know_are_left_out_until_they_are_set():
    later = {
        "knn_temperature": (0.5, 0.07),
        "formula": ("published", "notebook"),
        "image_size": (None, 9),
        "validation": (True, False),
    }
    stored = set(WORKLOAD.complete({}))
    assert stored < set(SETTINGS)
    for name, (default, other) in later.items():
        assert set(WORKLOAD.complete({name: default})) == stored
        assert WORKLOAD.complete({name: other})[name] == other


def test_the_measures_of_a_split_share_its_representations(tmp_path, monkeypatch):
    encoded: list[int] = []
    original = evaluator.Evaluator.represent
    monkeypatch.setattr(
        evaluator.Evaluator,
        "represent",
        lambda self, model, split, **o: (
            encoded.append(len(split)) or original(self, model, split, **o)
        ),
    )
    run(tmp_path, complete(epochs=1))
    # Bank and validation images at both epochs; the test images once, and once untrained.
    assert encoded == [60, 300, 60, 300, 300, 60, 300]


@pytest.mark.parametrize(
    ("settings", "about", "message"),
    [
        ({"loss": "debiased_pos", "tau_plus": 0.0}, "tau_plus", "teaches nothing"),
        ({"temperature": -1.0}, "temperature", "greater than 0"),
        ({"epochs": 3, "budget": {"views": 9}}, "epochs", "says it again"),
        ({"budget": {"seconds": 9.0}}, "epochs", "needs epochs too"),
        ({"temperatur": 1.0}, "temperatur", "nexpected"),
    ],
)
def test_impossible_settings_name_the_culprit(settings, about: str, message: str):
    with pytest.raises(ValueError, match=message) as refused:
        WORKLOAD.complete(settings)
    assert refused.value.settings[0] == about


def test_options_of_other_losses_do_not_apply():
    assert WORKLOAD.applies("beta", {"loss": "hard_neg"})
    assert not WORKLOAD.applies("beta", {})
    assert WORKLOAD.applies("batch_size", {"loss": "triplet"})
    assert not WORKLOAD.applies("temperature", {"loss": "triplet"})
    assert WORKLOAD.applies("beta", {"loss": ["of another", "type"]})


def test_length_is_told_by_epochs_and_budget():
    assert WORKLOAD.length(TINY) == (3, 3)
    views = {k: v for k, v in TINY.items() if k != "epochs"} | {"budget": {"views": 460}}
    assert WORKLOAD.length(views) == (4, 4)  # 3 steps of 40 views in an epoch
    assert WORKLOAD.length(views, data=False) is None
    timed = TINY | {"budget": {"seconds": 9.0}}
    assert WORKLOAD.length(timed) == (1, 3)
    assert WORKLOAD.timed(timed)
    assert not WORKLOAD.timed(views)
    with pytest.raises(ValueError, match="batch_size is 200") as refused:
        WORKLOAD.length(TINY | {"batch_size": 200})
    assert refused.value.settings == ("batch_size",)
    assert WORKLOAD.length(TINY | {"batch_size": 200}, data=False) == (3, 3)


def test_data_that_are_not_there_name_the_setting():
    with pytest.raises(ValueError, match="cifar10 is not there") as refused:
        WORKLOAD.prepare({"dataset": "cifar10", "dataset_path": "/nowhere/at/all"})
    assert refused.value.settings == ("dataset_path", "dataset")


def test_a_batch_beyond_the_memory_is_refused_before_the_data_are_prepared(monkeypatch):
    monkeypatch.setattr("contrastive.data.memory.total_memory", lambda: 8_000_000)
    monkeypatch.setattr(workload, "prepare", lambda **_: pytest.fail("prepared"))
    # 40 views of 1 channel, twice 4 bytes each: 158 pixels a side are 7,988,480 bytes.
    message = r"the 40 views of a batch of 159x159 pixels, 0.0 GB, .*\n.*up to 158\n"
    with pytest.raises(ValueError, match=message) as refused:
        WORKLOAD.prepare(TINY | {"image_size": 159})
    assert refused.value.settings[0] == "image_size"
    with pytest.raises(pytest.fail.Exception, match="prepared"):
        WORKLOAD.prepare(TINY | {"image_size": 158})


def test_trainings_of_another_image_size_are_of_another_kind_and_shape():
    kind, views = WORKLOAD.weight(TINY | {"image_size": 12})
    assert (kind != WORKLOAD.weight(TINY)[0], views) == (True, 40)
    assert WORKLOAD._image_shape(TINY | {"image_size": 12}) == (1, 12, 12)
    assert image_shape(WORKLOAD.prepare(TINY | {"image_size": 12})) == (1, 12, 12)


def test_without_validation_only_the_test_split_is_measured(tmp_path):
    settings = complete(validation=False, train_limit=70)
    told = run(tmp_path, settings, prepared=WORKLOAD.prepare(settings)).told
    assert [epoch for epoch, *_ in told] == [0, 1, 2, 3]
    names = [{n.partition("/")[0] for n in metrics if "/" in n} for _, metrics, _ in told]
    assert names == [set(), {"train"}, {"train"}, {"train", "test"}]
    assert told[-1][2]["test/knn_top1"][1] == 300
    assert "val/knn_top1" in WORKLOAD.unmeasured(settings)
    assert not WORKLOAD.unmeasured(complete())


def test_weight_grows_with_the_views_of_a_batch_within_a_kind():
    kind, views = WORKLOAD.weight(TINY)
    assert views == 40
    assert WORKLOAD.weight(TINY | {"num_positives": 4}) == (kind, 100)
    assert WORKLOAD.weight(TINY | {"encoder": "resnet18"})[0] != kind


def test_seconds_grow_with_the_epochs():
    short, long = (WORKLOAD.seconds(TINY | {"epochs": epochs}) for epochs in (2, 200))
    assert 0 < 50 * short < long < 150 * short


def test_torchvision_is_checked_only_where_it_is_needed(monkeypatch):
    class Failed:
        returncode, stderr = 1, "Traceback\nRuntimeError: operator torchvision::nms does not exist"

    monkeypatch.setattr(subprocess, "run", lambda *a, **o: Failed)
    WORKLOAD.check_environment([{"encoder": "small_cnn"}, {}])
    with pytest.raises(ValueError, match=r"do not match.*nms does not exist.*force-reinstall"):
        WORKLOAD.check_environment([{}, {"encoder": "resnet18"}])


def test_the_driver_needs_no_pytorch():
    code = (
        "import sys; from contrastive.workload import WORKLOAD as w; w.hints; "
        "w.complete({'dataset': 'digits'}); w.length({}, data=False); w.weight({}); "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

"""Parts of the user's own, in files beside the study or published by a package."""

from __future__ import annotations

import importlib
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_workload import TINY, Run

from contrastive import catalogue
from contrastive.catalogue import imported
from contrastive.config import TrainConfig
from contrastive.data import DataError, cache, load_dataset, prepare
from contrastive.train import main
from contrastive.training.loop import train
from contrastive.workload import WORKLOAD, Contrastive

LOSSES = """
    from typing import Annotated
    import torch
    from pydantic import Field

    def barlow(views, *, lambda_: Annotated[float, Field(gt=0)] = 0.005):
        a, b = ((z - z.mean(0)) / (z.std(0) + 1e-6) for z in views[:2])
        c = a.T @ b / len(a)
        off = c.square().sum() - c.diagonal().square().sum()
        return (c.diagonal() - 1).square().sum() + lambda_ * off

    def supervised(views, *, labels, temperature, tau_plus: float, power: int = 2):
        z = torch.nn.functional.normalize(views, dim=-1).flatten(0, 1)
        same = labels.repeat(len(views))[:, None] == labels.repeat(len(views))
        return ((z @ z.T / temperature - same.float()) ** power).mean() + 0 * tau_plus

    def needy(views, *, weight: float):
        return weight * views.square().mean()

    def other_type(views, *, lambda_: int = 1):
        return lambda_ * views.sum()

    def other_default(views, *, lambda_: Annotated[float, Field(gt=0)] = 25.0):
        return lambda_ * views.square().mean()

    def by_position(views, margin_two=1.0):
        return views.sum()

    def collides(views, *, margin: str = "wide"):
        return views.sum()

    def collides_in_default(views, *, margin: float = 7.0):
        return views.sum()

    def per_anchor(views):
        return views.sum(-1)

    def detached(views):
        return views.detach().sum()

    def breaks(views):
        return views @ views

    number = 3
"""

ENCODERS = """
    import torch
    from torch import nn

    def flat(channels):
        return nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Dropout(0.2),
                             nn.Linear(4 * channels, 16)), 16

    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(1, 8)

        def forward(self, images):
            if float(images.sum()) > 1e9:  # its value is needed: not to be run on the meta device
                raise OverflowError
            return self.layer(images.mean((1, 2, 3))[:, None])

    def looks(channels):
        return Counting(), 8

    def of_other_width(channels):
        return nn.Flatten(), 5

    def no_pair(channels):
        return nn.Flatten()

    class Patches(nn.Module):
        def forward(self, images):
            return images.view(len(images), -1)

    def views_memory(channels):
        return Patches(), 3 * 32 * 32
"""

METRICS = """
    import torch

    def rank_me(representations, labels):
        s = torch.linalg.svdvals(representations)
        p = s / s.sum() + 1e-7
        return float((-(p * p.log()).sum()).exp())

    def spread(representations, labels):
        return representations.std()

    spread.better, spread.unit = "lower", "1"

    def knn_top1(representations, labels):
        return 1.0

    def pair(representations, labels):
        return 1.0, 2.0

    def wrong_way(representations, labels):
        return 1.0

    wrong_way.better = "up"
"""

DATA = """
    import numpy as np

    def load():
        numbers = np.random.RandomState({seed})
        def split(n):
            return numbers.randint(0, 256, (n, 8, 8, 3)).astype(np.uint8), np.arange(n) % 3
        return {{"train": split(60), "test": split(12), "classes": ["a", "b", "c"]}}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working directory with the user's modules; they are forgotten afterwards."""
    for name, text in (("own_losses", LOSSES), ("own_nets", ENCODERS), ("own_metrics", METRICS),
                       ("own_data", DATA.format(seed=0))):  # fmt: skip
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(text))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(catalogue, "_imported", {})
    yield tmp_path
    for name in ("own_losses", "own_nets", "own_metrics", "own_data"):
        sys.modules.pop(name, None)


def extended(*trainings: dict[str, Any]) -> Contrastive:
    return WORKLOAD.extended(trainings, imported)


def figures(folder: Path, settings: dict[str, Any]) -> list[dict[str, float]]:
    found = Run(folder)
    WORKLOAD.train(found, extended(settings).complete(TINY | settings))
    return [metrics for _, metrics, _ in found.figures]


def test_a_loss_trains_and_its_option_is_a_setting(folder):
    loss = {"loss": "own_losses:barlow"}
    plain, weighted = figures(folder, loss), figures(folder, loss | {"lambda_": 0.5})
    assert plain[1]["train/loss"] != weighted[1]["train/loss"]
    assert figures(folder, loss | {"lambda_": 0.005}) == plain  # the default
    workload = extended(loss)
    assert workload.complete(loss)["lambda_"] == 0.005
    assert workload.complete(loss | {"lambda_": 1})["lambda_"] == 1
    assert workload.defaults["lambda_"] == 0.005
    assert workload.applies("lambda_", loss)
    assert not workload.applies("lambda_", {"loss": "supcon"})
    assert not workload.applies("temperature", loss)
    assert "lambda_" not in workload.complete({"loss": "supcon", "lambda_": 1.0})
    assert "lambda_" not in WORKLOAD.hints


@pytest.mark.parametrize(
    ("value", "allowed"),
    [
        (0, "greater than 0"),
        ("1", "valid number"),
        (True, "valid number"),
        (float("nan"), "finite"),
    ],
)
def test_options_are_checked_by_type_and_bounds(folder, value, allowed: str):
    loss = {"loss": "own_losses:barlow", "lambda_": value}
    with pytest.raises(ValueError, match=r"^lambda_ is") as refused:
        extended(loss).complete(loss)
    assert refused.value.settings == ("lambda_",)
    assert allowed in refused.value.allowed


def test_a_loss_is_given_labels_and_the_settings_that_it_shares(folder):
    loss = {"loss": "own_losses:supervised", "power": 4}
    workload = extended(loss)
    assert {"power"} == set(workload.hints) - set(WORKLOAD.hints)
    assert workload.hints["power"] is int
    assert workload.applies("temperature", loss)
    assert workload.applies("tau_plus", loss)
    assert figures(folder, loss) != figures(folder, loss | {"temperature": 0.1})
    assert figures(folder, loss | {"tau_plus": "auto"})[0]["tau_plus"] == pytest.approx(0.1, 0.1)
    workload.try_parts()


def test_an_option_without_default_must_be_set(folder):
    loss = {"loss": "own_losses:needy"}
    with pytest.raises(ValueError, match="weight is not set") as refused:
        extended(loss).complete(loss)
    assert refused.value.settings == ("weight", "loss")
    assert "weight" not in extended(loss).defaults
    extended(loss).try_parts()  # nothing to try it with
    assert extended(loss).complete(loss | {"weight": 2.0})["weight"] == 2.0


def test_losses_may_share_an_option_with_other_defaults_but_not_with_another_type(folder):
    barlow, other = {"loss": "own_losses:barlow"}, {"loss": "own_losses:other_default"}
    workload = extended(barlow, other)
    assert "lambda_" in workload.hints
    assert "lambda_" not in workload.defaults
    assert workload.complete(barlow)["lambda_"] == 0.005
    assert workload.complete(other)["lambda_"] == 25.0
    with pytest.raises(ValueError, match="another type or other bounds than that of own_losses:b"):
        extended(barlow, {"loss": "own_losses:other_type"})


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("own_losses:by_position", r"margin_two may be given by position.*try: def by_position"),
        ("own_losses:collides", "its option margin is str, the setting margin of every training"),
        ("own_losses:collides_in_default", "has the default 7.0, the setting margin"),
        ("own_losses:barlo", "has no barlo; did you mean barlow"),
        ("own_losses:number", "no function but int"),
        ("own_lsses:barlow", r"no module own_lsses; allowed: a file own_lsses\.py"),
    ],
)
def test_a_loss_of_another_form_is_refused(folder, name: str, message: str):
    with pytest.raises(ValueError, match=message) as refused:
        extended({"loss": name})
    assert refused.value.settings == ("loss",)


def test_a_module_that_cannot_be_imported_says_where(folder):
    (folder / "own_broken.py").write_text("import math\n\nx = 1 / 0\n")
    with pytest.raises(ValueError, match=r"importing it fails: ZeroDivisionError.*broken\.py:3\)"):
        extended({"loss": "own_broken:loss"})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loss": "own_losses:per_anchor"}, r"Tensor \(2, 4\); allowed: a floating-point tensor"),
        ({"loss": "own_losses:detached"}, "no gradient"),
        ({"loss": "own_losses:breaks"}, r"own_losses:breaks fails on .*: RuntimeError.*es\.py:4\d"),
        ({"encoder": "own_nets:of_other_width"}, r"Tensor \(2, 256\); allowed: \(2, 5\)"),
        ({"encoder": "own_nets:no_pair"}, r"returned Flatten; allowed: \(module, width\)"),
        ({"encoder": "own_nets:views_memory", "dataset": "cifar10"}, r"RuntimeError.*own_nets\.py"),
        ({"evaluations": ["own_metrics:pair"]}, "returned tuple; allowed: one number"),
    ],
)
def test_a_part_that_fails_is_found_by_a_try(folder, settings, message: str):
    before = torch.get_rng_state()
    with pytest.raises(ValueError, match=message) as refused:
        extended(settings).try_parts()
    assert refused.value.settings == tuple(settings)[:1]
    assert torch.equal(torch.get_rng_state(), before)


def test_good_parts_pass_their_try(folder):
    extended(
        {"loss": "own_losses:barlow", "encoder": "own_nets:flat", "dataset": "digits"},
        {"evaluations": ["own_metrics:rank_me", "own_metrics:spread"], "encoder": "own_nets:looks"},
    ).try_parts()


def test_an_encoder_trains_repeatably_and_its_flops_are_counted_where_they_can_be(folder):
    """Dropout draws from the global generator: seeded, and left alone otherwise."""
    torch.manual_seed(1)
    first = figures(folder, {"encoder": "own_nets:flat"})
    torch.manual_seed(2)
    assert figures(folder, {"encoder": "own_nets:flat"}) == first
    assert first[-1]["flops"] > 0
    assert "flops" not in figures(folder, {"encoder": "own_nets:looks"})[-1]


def test_an_encoder_with_dropout_resumes_exactly(folder):
    config = TrainConfig(**TINY, encoder="own_nets:flat")
    whole = list(train(config, 1))
    state = next(r for r in train(config, 1) if r.epoch == 1).state()
    rest = list(train(config, 1, state=state))
    assert [r.metrics["train/loss"] for r in rest] == [r.metrics["train/loss"] for r in whole[2:]]


def test_evaluations_are_recorded_and_declared(folder):
    settings = {"evaluations": ["own_metrics:rank_me", "own_metrics:spread"], "epochs": 2}
    workload = extended(settings)
    assert workload.metrics["val/rank_me"] == {"better": "higher", "unit": ""}
    assert workload.metrics["test/spread"] == {"better": "lower", "unit": "1"}
    found = figures(folder, settings)
    assert all(record["val/rank_me"] > 1 for record in found)
    assert ["test/rank_me" in record for record in found] == [False, False, True]
    # Built-in figures are the same with or without.
    assert [r["val/knn_top1"] for r in found] == [
        r["val/knn_top1"] for r in figures(folder, {"epochs": 2})
    ]
    assert workload.complete(settings)["evaluations"] == settings["evaluations"]
    assert "evaluations" in workload.not_searched & workload.not_of_arms


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["own_metrics:knn_top1"], "another evaluation records already"),
        (["own_metrics:wrong_way"], "attribute better is 'up'; allowed: higher, lower"),
        (["own_metrics:rank"], "did you mean rank_me"),
    ],
)
def test_evaluations_of_another_form_are_refused(folder, names, message: str):
    with pytest.raises(ValueError, match=message) as refused:
        extended({"evaluations": names})
    assert refused.value.settings == ("evaluations",)


def test_a_dataset_is_split_limited_and_cached_by_its_content(folder, tmp_path):
    data = load_dataset("own_data:load", train_limit=30, cache_dir=tmp_path / "cache")
    assert data.train.images.shape == (30, 3, 8, 8)
    assert (len(data.val), len(data.test), data.classes) == (6, 12, ("a", "b", "c"))
    assert data.augmentation == "natural"
    first = prepare("own_data:load", cache_dir=tmp_path / "cache")
    assert prepare("own_data:load", cache_dir=tmp_path / "cache") == first
    (folder / "own_data.py").write_text(textwrap.dedent(DATA.format(seed=11)))
    importlib.invalidate_caches()
    sys.modules.pop("own_data")
    catalogue._imported.clear()
    changed = prepare("own_data:load", cache_dir=tmp_path / "cache")
    assert changed != first
    assert cache.is_intact(first, verify=True)


def test_a_study_trains_on_an_own_dataset(folder):
    settings = {"dataset": "own_data:load", "batch_size": 20, "epochs": 1}
    workload = extended(settings, {"encoder": "own_nets:flat", "dataset": "own_data:load"})
    workload.try_parts()  # the encoder on images of that dataset
    assert workload.length(settings) == (1, 1)
    found = Run(folder, prepared=workload.prepare(settings))
    workload.train(found, workload.complete(settings))
    assert found.told[-1][2]["test/knn_top1"][1] == 12
    entry = Path(found.prepared)
    moved = Run(folder, prepared=str(folder / "of another node" / entry.name))
    workload.train(moved, workload.complete(settings))
    assert moved.figures == found.figures
    other = Run(folder, prepared=str(folder / "of another node" / "own_data.load-0123-seed0"))
    with pytest.raises(DataError, match="returns other images than where the study was started"):
        workload.train(other, workload.complete(settings))


images, labels = np.zeros((12, 8, 8), np.uint8), np.arange(12) % 3


@pytest.mark.parametrize(
    ("returned", "shape"),
    [
        ({"train": (images, labels)}, (1, 8, 8)),
        ({"train": (images[..., None].repeat(3, -1), labels)}, (3, 8, 8)),
        ({"train": (images[:, None], labels)}, (1, 8, 8)),
        ({"train": (torch.from_numpy(images), torch.from_numpy(labels))}, (1, 8, 8)),
        ({"train": (images, labels), "unlabelled": images}, (1, 8, 8)),
    ],
)
def test_images_may_come_in_several_layouts(folder, monkeypatch, tmp_path, returned, shape):
    monkeypatch.setitem(catalogue._imported, "own:load", lambda: returned)
    data = load_dataset("own:load", cache_dir=tmp_path / "cache")
    assert data.train.images.shape[1:] == shape
    assert data.classes == ("0", "1", "2")


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (None, "returned NoneType without a split train"),
        ({"train": (images, labels), "tset": (images, labels)}, r"'tset'(?s:.*)try: test"),
        ({"train": images}, "returned ndarray as the split train"),
        ({"train": (images / 255, labels)}, "the images are float64"),
        ({"train": (images, labels[:3])}, r"labels are int64 of shape \(3,\), for 12 images"),
        ({"train": (images, labels / 2)}, "labels are float64"),
        ({"train": (images[:, :, :, None].repeat(2, -1), labels)}, "neither 1 nor 3 channels"),
        ({"train": (images, labels), "test": (images[:, :4], labels)}, "several shapes"),
        ({"train": (images, labels), "classes": ["a"]}, "1 classes for labels up to 2"),
        ({"train": (images, 0 * labels)}, "fewer than two classes"),
        ({"train": (images, 0 * labels - 1)}, "no image has a label"),
        ({"train": (images, 0 * labels - 1), "test": (images, labels)}, "no training image of own"),
        ({"train": (images, labels), "test": (images, labels - 1)}, "4 images of the test split"),
        (
            {"train": (images, labels), "test": (images, labels + 1)},
            "test split .* images of 3, ",
        ),
        ({"train": (images, labels), "augmentation": "none"}, "augmentation 'none'"),
    ],
)
def test_a_dataset_of_another_form_is_refused(folder, monkeypatch, tmp_path, returned, message):
    monkeypatch.setitem(catalogue._imported, "own:load", lambda: returned)
    with pytest.raises(DataError, match=message):
        load_dataset("own:load", cache_dir=tmp_path / "cache")


@pytest.mark.parametrize(
    ("settings", "about"),
    [
        ({"false_negatives": "drop"}, "false_negatives is drop, .*: 4 of 11 have none"),
        ({"false_negatives": "drop", "loss": "triplet"}, None),  # which takes no such setting
        ({"imbalance": 0.9}, "imbalance is 0.9, .*: 4 of "),
        ({"tau_plus": "auto"}, None),  # estimated from the labels that there are
    ],
)
def test_unlabelled_images_are_refused_where_a_setting_needs_labels(
    folder, monkeypatch, settings, about
):
    some = {"train": (images, np.where(np.arange(12) < 4, -1, labels)), "test": (images, labels)}
    monkeypatch.setitem(catalogue._imported, "own:load", lambda: some)
    settings = {"dataset": "own:load", "batch_size": 4} | settings
    if about is None:
        WORKLOAD.prepare(settings)
        return
    with pytest.raises(DataError, match=about) as refused:
        WORKLOAD.prepare(settings)
    assert refused.value.settings[0] in settings
    with pytest.raises(DataError, match=about):  # one training, without a study
        next(train(TrainConfig(**settings), 1, device="cpu"))


def test_a_dataset_that_fails_or_is_given_a_path_says_so(folder, tmp_path):
    (folder / "own_data.py").write_text("def load():\n    return open('/nowhere/at/all')\n")
    with pytest.raises(DataError, match=r"own_data:load fails: FileNotFound.*own_data\.py:2\)"):
        load_dataset("own_data:load", cache_dir=tmp_path / "cache")
    with pytest.raises(ValueError, match="leave dataset_path out") as refused:
        WORKLOAD.prepare({"dataset": "own_data:load", "dataset_path": "/here"})
    assert refused.value.settings == ("dataset_path", "dataset")


def test_a_package_publishes_short_names_by_entry_points(folder, monkeypatch):
    package = folder / "vicinity-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: vicinity\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text(
        "[contrastive_study.losses]\nbarlow = own_losses:barlow\n"
    )
    catalogue.published.cache_clear()
    try:
        workload = extended({"loss": "barlow", "lambda_": 0.1})
        assert workload.complete({"loss": "barlow"})["lambda_"] == 0.005
        assert figures(folder, {"loss": "barlow"}) == figures(folder, {"loss": "own_losses:barlow"})
        with pytest.raises(ValueError, match="triplet', 'barlow' or 'module:function'"):
            workload.complete({"loss": "barlw"})
    finally:
        catalogue.published.cache_clear()


def test_settings_of_any_type_are_looked_at_without_harm():
    rough = {"loss": ["a"], "encoder": 3, "dataset": None, "evaluations": [["x"], 4, "rank"]}
    assert extended(rough, {"evaluations": "own:rank"}).hints.keys() == WORKLOAD.hints.keys()


def test_an_unknown_name_lists_the_form_of_own_parts():
    with pytest.raises(ValueError, match="or 'module:function'") as refused:
        WORKLOAD.complete({"loss": "debiased_pso"})
    assert refused.value.settings == ("loss",)
    with pytest.raises(ValueError, match=r"encoder 'resnet8' is unknown.*did you mean 'resnet18'"):
        catalogue.part("encoders", "resnet8", catalogue.ENCODER_NAMES)


COMMAND = ["--dataset", "digits", "--train-limit", "60", "--batch_size", "20", "--epochs", "1"]


def test_the_command_takes_own_parts_and_their_options(folder, capsys):
    more = ["--loss", "own_losses:barlow", "--lambda_", "0.5", "--evaluations",
            "own_metrics:rank_me", "own_metrics:spread"]  # fmt: skip
    assert main([*COMMAND, *more]) == 0
    told = capsys.readouterr().out
    assert "val/rank_me" in told
    assert "test/spread" in told


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (["--loss", "own_losses:barlow", "--lambda_", "0"], ["lambda_ is '0'", "greater than 0"]),
        (["--loss", "own_losses:barlow", "--beta", "1"], ["--beta", "does not take it"]),
        (["--loss", "own_losses:barlo"], ["did you mean barlow"]),
        (["--loss", "own_losses:breaks"], ["own_losses:breaks fails on", "own_losses.py:"]),
        (["--loss", "own_losses:needy"], ["weight is not set"]),
    ],
)
def test_wrong_own_parts_exit_with_2_and_one_clear_message(folder, options, parts, capsys):
    assert main([*COMMAND, *options]) == 2
    told = capsys.readouterr().err
    for part in parts:
        assert part in told
    assert "Traceback" not in told

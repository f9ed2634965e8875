"""Does a training end where its budget ends, and does it know beforehand and count right?"""

from __future__ import annotations

import dataclasses
import io
import json
import math

import pytest
import torch
from pydantic import ValidationError

from contrastive.config import TrainConfig, settings
from contrastive.encoders import SimCLR
from contrastive.train import main
from contrastive.training.evaluator import Evaluator
from contrastive.training.flops import flops_per_view
from contrastive.training.length import extent
from contrastive.training.loop import train

TINY = {"dataset": "digits", "train_limit": 100, "batch_size": 25}


def tiny(**more) -> TrainConfig:
    return TrainConfig(**(TINY | more))


def records(config: TrainConfig, **options) -> list[dict[str, float]]:
    return [
        {name: value for name, value in record.metrics.items() if name != "seconds"}
        for record in train(config, 1, **options)
    ]


@pytest.mark.parametrize("images", [64, 100, 103])
@pytest.mark.parametrize("batch", [2, 25, 64])
@pytest.mark.parametrize("positives", [1, 2, 4])
@pytest.mark.parametrize("views", [1, 299, 300, 301, 4096])
def test_extent_equals_a_count_of_steps(images: int, batch: int, positives: int, views: int):
    config = TrainConfig(batch_size=batch, num_positives=positives, budget={"views": views})
    seen, per_epoch = 0, []
    while seen < views:
        per_epoch.append(0)
        while seen < views and (per_epoch[-1] + 1) * batch <= images:
            seen += batch * (positives + 1)
            per_epoch[-1] += 1
    length = extent(config, images)
    assert (length.epochs, length.last_steps) == (len(per_epoch), per_epoch[-1])
    assert length.all_steps == sum(per_epoch)
    assert [length.steps_of(e + 1) for e in range(len(per_epoch))] == per_epoch


def test_a_budget_of_epochs_is_the_same_as_epochs():
    assert tiny(budget={"epochs": 7}).epochs == 7
    assert extent(tiny(budget={"epochs": 7}), 100) == extent(tiny(epochs=7), 100) == (7, 4, 4)
    assert records(tiny(budget={"epochs": 2})) == records(tiny(epochs=2))


def test_arms_of_different_m_spend_the_same_views_and_flops():
    """To within one step; with whole epochs M = 4 would have spent 2.5 times as much."""
    spent = {m: records(tiny(num_positives=m, budget={"views": 1000})) for m in (1, 4)}
    assert [r["views"] for r in spent[1]] == [0, 200, 400, 600, 800, 1000]
    assert [r["views"] for r in spent[4]] == [0, 500, 1000]
    assert spent[1][-1]["flops"] == spent[4][-1]["flops"] > 0


def test_the_last_epoch_is_cut_at_the_step_that_reaches_the_views_and_evaluated():
    whole, cut = records(tiny(epochs=3)), records(tiny(budget={"views": 460}))
    assert [r["views"] for r in cut] == [0, 200, 400, 500]  # steps of 50
    assert cut[:3] == whole[:3]  # whole epochs are what they were
    assert cut[3]["train/loss"] != whole[3]["train/loss"]
    assert "test/linear_top1" in cut[3]
    assert "val/knn_top1" in cut[3]


def test_only_the_last_record_says_that_it_is_the_last():
    for config in (tiny(epochs=2), tiny(budget={"views": 460})):
        last = [record.last for record in train(config, 1)]
        assert last == [False] * (len(last) - 1) + [True]


@pytest.mark.parametrize("at", [1, 2])
def test_a_training_with_a_cut_epoch_resumes_exactly(at: int):
    config = tiny(budget={"views": 460})
    whole = records(config)
    for record in train(config, 1):
        if record.epoch == at:
            saved = io.BytesIO()
            torch.save(record.state(), saved)
    saved.seek(0)
    state = torch.load(saved, weights_only=True)
    assert records(config, state=state) == whole[at + 1 :]


class Clock:
    """Every look at the time takes a second."""

    now = 0.0

    def perf_counter(self) -> float:
        self.now += 1
        return self.now


def test_seconds_end_a_training_within_an_epoch_and_across_a_resume(monkeypatch):
    monkeypatch.setattr("contrastive.training.loop.time", Clock())
    # An epoch of 4 steps looks at its beginning, before steps 2 to 4 and at its end: 4 s.
    config = tiny(epochs=9, budget={"seconds": 10})
    found = list(train(config, 1))
    # 4 + 4 s, then 2 of 10 are left: a step, a look (1 s), a step, a look (2 s): over.
    assert [r.metrics["views"] for r in found] == [0, 200, 400, 500]
    assert [r.last for r in found] == [False, False, False, True]
    assert "test/linear_top1" in found[-1].metrics
    again = list(train(config, 1, state=found[2].state()))
    assert again == []  # the state is that of the ended training, whose time is over
    limited = list(train(tiny(epochs=1, budget={"seconds": 1e9}), 1))
    assert [r.last for r in limited] == [False, True]


def test_seconds_of_evaluations_are_not_counted(monkeypatch):
    clock = Clock()
    monkeypatch.setattr("contrastive.training.loop.time", clock)
    original = Evaluator.represent

    def slow(self, *args, **options):
        clock.now += 1000
        return original(self, *args, **options)

    monkeypatch.setattr(Evaluator, "represent", slow)
    found = list(train(tiny(epochs=2, budget={"seconds": 100}), 1))
    assert [r.metrics["views"] for r in found] == [0, 200, 400]
    assert found[-1].metrics["seconds"] > 1000


@pytest.mark.parametrize(
    "budget",
    [{}, {"views": 5, "epochs": 1}, {"views": 0}, {"views": 1.5}, {"views": True}, {"steps": 5},
     {"seconds": -1.0}, {"seconds": math.inf}, {"seconds": "600"}],
)  # fmt: skip
def test_impossible_budgets_are_refused(budget):
    with pytest.raises(ValidationError):
        TrainConfig(budget=budget)


@pytest.mark.parametrize("budget", [None, {"views": 460}, {"epochs": 3}, {"seconds": 2.5}])
def test_a_budget_survives_json(budget):
    config = tiny(budget=budget)
    plain = json.loads(json.dumps(settings(config)))
    assert plain["budget"] == budget
    assert TrainConfig(**plain) == config
    assert hash(TrainConfig(**dataclasses.asdict(config))) == hash(config)


def by_hand(convs: list[tuple[int, int, int]], head: list[tuple[int, int]]) -> tuple[int, int]:
    """Forward and backward FLOPs of 3×3 convolutions (in, out, output side) and linear layers."""
    layers = [2 * i * o * 9 * side * side for i, o, side in convs]
    layers += [2 * i * o for i, o in head]
    # A layer's backward pass has two products of the forward's size, for weights and for inputs;
    # the first layer's inputs are images, which need no gradient.
    return sum(layers), 2 * sum(layers) - layers[0]


def test_flops_of_small_cnn_equal_a_count_by_hand():
    forward, backward = by_hand([(1, 32, 8), (32, 64, 4), (64, 128, 2)], [(128, 128), (128, 16)])
    assert flops_per_view("small_cnn", (1, 16, 16), 16) == (forward, backward)


def test_counting_flops_moves_no_generator_and_counts_once():
    flops_per_view.cache_clear()
    before = torch.get_rng_state()
    flops_per_view("small_cnn", (3, 32, 32), 128)
    assert torch.equal(torch.get_rng_state(), before)
    flops_per_view("small_cnn", (3, 32, 32), 128)
    assert flops_per_view.cache_info().misses == 1


def test_flops_grow_with_the_views_a_training_has_seen():
    config = tiny(num_positives=2)
    per_view = flops_per_view("small_cnn", (1, 8, 8), config.projection_dim).training
    found = records(TrainConfig(**(TINY | {"num_positives": 2, "epochs": 2})))
    assert [r["flops"] for r in found] == [r["views"] * per_view for r in found]
    assert found[0]["flops"] == 0
    model = SimCLR("small_cnn", 1, config.projection_dim)
    assert not any(p.is_meta for p in model.parameters())


COMMAND = ["--dataset", "digits", "--train-limit", "60", "--batch_size", "20"]


def test_the_command_takes_a_budget(capsys):
    assert main([*COMMAND, "--budget", "views=200"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines] == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (
            ["--budget", "vews=5"],
            ["--budget vews=5 is no budget", "views=N", "try: --budget views"],
        ),
        (["--budget", "views"], ["is no budget"]),
        (["--budget", "views=many"], ["is no budget"]),
        (["--budget", "views=0"], ["is no budget", "above 0"]),
        (["--budget", "views=200", "--epochs", "3"], ["epochs says it again", "try: one of"]),
        (["--budget", "epochs=2", "--epochs", "3"], ["epochs says it again"]),
        (["--budget", "seconds=2"], ["needs epochs too", "try: --epochs"]),
    ],
)
def test_a_wrong_budget_exits_with_2_and_one_clear_message(options, parts, capsys):
    assert main([*COMMAND, *options]) == 2
    told = capsys.readouterr().err
    for part in parts:
        assert part in told
    assert "Traceback" not in told

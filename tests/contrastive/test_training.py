"""Is a training fixed by its seed, exact on resume, honest about divergence and the test split?"""

from __future__ import annotations

import dataclasses
import io
import math

import pytest
import torch
from pydantic import ValidationError

from contrastive.config import TrainConfig
from contrastive.data import DataError
from contrastive.encoders import ENCODERS, build_model
from contrastive.seeds import derive, generator
from contrastive.training.batches import sources
from contrastive.training.evaluator import Evaluator
from contrastive.training.false_positives import other_class
from contrastive.training.loop import Diverged, StateError, _Training, dataset_of, train

TINY = {"dataset": "digits", "train_limit": 100, "epochs": 3, "batch_size": 25}


def tiny(**settings) -> TrainConfig:
    return TrainConfig(**(TINY | settings))


def metrics(config: TrainConfig, seed: int = 1, **options) -> list[dict[str, float]]:
    return [
        {name: v for name, v in record.metrics.items() if name != "seconds"}
        for record in train(config, seed, **options)
    ]


def test_the_same_seed_gives_the_same_figures_and_another_seed_others():
    assert metrics(tiny()) == metrics(tiny())
    assert metrics(tiny()) != metrics(tiny(), seed=2)


def test_the_global_generator_neither_matters_nor_moves():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    first = metrics(tiny())
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(17)
    assert metrics(tiny()) == first


@pytest.mark.parametrize("loss", ["contrastive", "debiased_neg", "debiased_pos", "hard_neg"])
@pytest.mark.parametrize("aggregation", ["pos_grouping", "loss_combination"])
def test_losses_train_with_several_positives(loss: str, aggregation: str):
    config = tiny(loss=loss, num_positives=2, aggregation=aggregation, epochs=2)
    records = metrics(config)
    assert [r["views"] for r in records] == [0, 300, 600]
    assert all(math.isfinite(r["train/loss"]) for r in records[1:])


def test_a_training_goes_on_exactly_where_its_state_was_saved():
    whole = metrics(tiny())
    for record in train(tiny(), 1):
        if record.epoch == 1:
            saved = io.BytesIO()
            torch.save(record.state(), saved)
    saved.seek(0)
    state = torch.load(saved, weights_only=True)
    assert metrics(tiny(), state=state) == whole[2:]


def test_a_state_of_another_training_is_refused():
    state = next(iter(train(tiny(), 1))).state()
    with pytest.raises(StateError, match="'seed': 1"):
        next(iter(train(tiny(), 2, state=state)))
    with pytest.raises(StateError, match="debiased_neg"):
        next(iter(train(tiny(loss="debiased_neg"), 1, state=state)))


def test_arms_of_a_seed_share_weights_order_and_draws():
    """What pairs the arms: with the loss left out, all that enters the first step is equal."""
    seen = []
    for settings in ({"loss": "contrastive"}, {"loss": "debiased_pos", "tau_plus": 0.2}):
        training = _Training(tiny(**settings), 5, None, "cpu")
        seen.append(training)
    first, second = seen
    for a, b in zip(first.model.parameters(), second.model.parameters(), strict=True):
        assert torch.equal(a, b)
    inputs: list[list[torch.Tensor]] = [[], []]
    for training, kept in zip(seen, inputs, strict=True):
        training.model.register_forward_pre_hook(lambda _, args, kept=kept: kept.append(args[0]))
        training.run_epoch()
    for a, b in zip(*inputs, strict=True):
        assert torch.equal(a, b)


def test_the_test_split_is_read_only_when_asked_and_only_at_the_end(monkeypatch):
    records = metrics(tiny(), read_test=False)
    assert not any(name.startswith("test/") for record in records for name in record)
    records = metrics(tiny())
    having = [i for i, r in enumerate(records) if any(n.startswith("test/") for n in r)]
    assert having == [3]
    reads = []
    original = Evaluator._on_test
    monkeypatch.setattr(
        Evaluator, "_on_test", lambda self, *args: reads.append(1) or original(self, *args)
    )
    list(train(tiny(), 1))
    assert len(reads) == 1


def test_the_loss_of_an_epoch_comes_from_the_configured_loss():
    """An independent first step: NT-Xent by its definition on the embeddings of the first batch."""
    config = tiny(epochs=1, batch_size=100, temperature=0.3)
    training = _Training(config, 3, None, "cpu")
    outputs = []
    training.model.register_forward_hook(lambda _m, _i, out: outputs.append(out.detach()))
    training.run_epoch()
    z = torch.nn.functional.normalize(outputs[0].double(), dim=1)
    logits = z @ z.T / 0.3
    logits.fill_diagonal_(-math.inf)
    target = (torch.arange(200) + 100) % 200
    expected = torch.nn.functional.cross_entropy(logits, target).item()
    assert training.mean_loss == pytest.approx(expected, rel=1e-5)


def test_a_loss_that_is_not_finite_is_divergence_with_its_epoch():
    with pytest.raises(Diverged, match="epoch 1"):
        list(train(tiny(learning_rate=1e30), 1))


def test_weights_that_break_in_the_last_step_are_divergence_too():
    """A single step: its loss is fine, the update is not, and no later loss could tell."""
    with pytest.raises(Diverged, match="epoch 1"):
        list(train(tiny(learning_rate=1e38, epochs=1, batch_size=100), 1))


@pytest.mark.slow
def test_training_beats_the_untrained_encoder():
    last = metrics(TrainConfig(epochs=6), seed=1)[-1]
    assert last["test/knn_top1"] > last["test/untrained_knn_top1"] + 0.03


def test_a_batch_larger_than_the_training_split_is_refused():
    with pytest.raises(DataError, match=r"batch_size is 200.*100 images.*allowed: 2 to 100"):
        list(train(tiny(batch_size=200), 1))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loss": "debiased_pos", "tau_plus": 0.0}, "teaches nothing"),
        ({"loss": "debiased_both", "tau_plus": 0.0}, "teaches nothing"),
        ({"tau_plus": 1.0}, "less than 1"),
        ({"temperature": 0.0}, "greater than 0"),
        ({"loss": "infonce"}, "contrastive"),
        ({"epochs": 0}, "greater than or equal to 1"),
        ({"temperatur": 1.0}, "[Uu]nexpected"),
        ({"learning_rate": float("nan")}, "finite"),
    ],
)
def test_impossible_settings_are_refused(settings, message):
    with pytest.raises(ValidationError, match=message):
        TrainConfig(**settings)


def test_tau_plus_auto_is_what_the_training_labels_imply():
    labels = dataset_of(tiny()).train.labels
    shares = torch.bincount(labels).double() / len(labels)
    training = _Training(tiny(loss="debiased_pos", tau_plus="auto"), 1, None, "cpu")
    assert training.loss_options["tau_plus"] == pytest.approx(float(shares.square().sum()))
    assert training.evaluate().metrics["tau_plus"] == training.loss_options["tau_plus"]


@pytest.mark.parametrize("name", list(ENCODERS))
def test_encoders_have_the_cifar_stem_and_the_simclr_head(name: str):
    model = build_model(name, 3, 16, seed=1).eval()
    width = model.projection_head[0].in_features
    assert width == {"small_cnn": 128, "resnet18": 512, "resnet50": 2048}[name]
    with torch.no_grad():
        images = torch.rand(2, 3, 32, 32)
        assert model.backbone(images).shape == (2, width)
        assert model(images).shape == (2, 16)
    kinds = [type(layer).__name__ for layer in model.projection_head]
    assert kinds == ["Linear", "BatchNorm1d", "ReLU", "Linear"]
    if name != "small_cnn":
        stem = model.backbone.conv1
        assert (stem.kernel_size, stem.stride) == ((3, 3), (1, 1))
        assert isinstance(model.backbone.maxpool, torch.nn.Identity)


def test_the_stem_keeps_the_resolution_of_a_small_image():
    model = build_model("resnet18", 3, 16, seed=1).eval()
    sizes = []
    model.backbone.layer1.register_forward_hook(lambda _m, _i, out: sizes.append(out.shape[-1]))
    with torch.no_grad():
        model(torch.rand(2, 3, 32, 32))
    assert sizes == [32]


class TestFalsePositives:
    labels = torch.tensor([2, 0, 0, 1, 2, 2, 0, 1])

    def test_partners_are_of_another_class_and_all_of_them_occur(self):
        uniform = (torch.arange(64) / 64)[:, None].expand(-1, 8)
        partners = torch.stack([other_class(self.labels, row) for row in uniform])
        for i, label in enumerate(self.labels.tolist()):
            found = set(partners[:, i].tolist())
            assert found == {j for j, other in enumerate(self.labels.tolist()) if other != label}

    def test_unlabelled_images_and_a_single_class_are_refused(self):
        with pytest.raises(DataError, match="unlabelled"):
            other_class(torch.tensor([0, -1, 1]), torch.zeros(3))
        with pytest.raises(DataError, match="two classes"):
            other_class(torch.zeros(4, dtype=torch.long), torch.zeros(4))

    @pytest.mark.parametrize("rate", [0.3, 1.0])
    def test_the_rate_is_the_share_of_replaced_positives(self, rate: float):
        """Within 5 standard errors of a binomial: false alarms below 1e-6."""
        labels = dataset_of(TrainConfig(dataset="digits")).train.labels
        count = len(labels)
        widths = {"false_positive": 1, "partner": 1}
        from contrastive.augmentations import draw_epoch

        draws = draw_epoch(widths, seed=1, epoch=1, views=3, images=count)
        found = sources(labels, draws, 3, rate)
        assert torch.equal(found[0], torch.arange(count))  # anchors are never replaced
        replaced = found[1:] != torch.arange(count)
        tolerance = 5 * math.sqrt(rate * (1 - rate) / replaced.numel())
        assert abs(replaced.float().mean().item() - rate) <= tolerance
        assert not (labels[found[1:]][replaced] == labels.expand(2, -1)[replaced]).any()

    def test_noise_changes_a_training(self):
        assert metrics(tiny(false_positive_rate=0.5)) != metrics(tiny())


def test_seeds_of_different_purposes_are_different():
    purposes = [("order", 1), ("order", 2), ("order", 12), ("weights",), ("augmentation", 1, 2)]
    assert len({derive(0, *p) for p in purposes} | {derive(1, *p) for p in purposes}) == 10
    assert torch.equal(
        torch.rand(3, generator=generator(4, "x")), torch.rand(3, generator=generator(4, "x"))
    )


def test_config_survives_a_round_trip_through_plain_data():
    config = tiny(loss="debiased_pos", tau_plus="auto")
    assert TrainConfig(**dataclasses.asdict(config)) == config

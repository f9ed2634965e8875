"""Does an epoch run on a GPU without the host waiting for it, and with the same results?

There is no GPU in most places where this runs: a GPU's code path is run on the CPU, under a mode
that refuses every operation for which a GPU would have to be waited for.
"""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from contrastive import device
from contrastive.config import TrainConfig
from contrastive.data import Dataset, Split
from contrastive.losses import LOSSES
from contrastive.training.loop import _Training

READING = ("_local_scalar_dense", "is_nonzero", "item", "nonzero", "masked_select", "equal",
           "unique", "lift_fresh", "repeat_interleave")  # fmt: skip


class Waited(AssertionError):
    """An operation read values on the host, or sent some from it."""


class NoWaiting(TorchDispatchMode):
    """Refuses what makes the host wait for a GPU.

    Values that are read, shapes that depend on values (selection by mask), and tensors made of
    Python's numbers, which a GPU would be sent.
    """

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.name().removeprefix("aten::").split(".")[0]
        if name in READING or name.startswith("_unique"):
            raise Waited(name)
        if name.startswith(("index", "_index")):
            for index in args[1] if len(args) > 1 and isinstance(args[1], list | tuple) else ():
                if index is not None and index.dtype in (torch.bool, torch.uint8):
                    raise Waited(f"{name} by a mask")
        return func(*args, **(kwargs or {}))


def synthetic(images: int, kind: str) -> Dataset:
    generator = torch.Generator().manual_seed(0)
    channels, size = (3, 32) if kind == "natural" else (1, 16)

    def split(count: int) -> Split:
        pixels = torch.randint(0, 256, (count, channels, size, size), generator=generator)
        return Split(pixels.to(torch.uint8), torch.arange(count) % 10)

    classes = tuple(str(i) for i in range(10))
    return Dataset("synthetic", split(images), split(20), split(20), classes, kind)


def settings(**more: Any) -> TrainConfig:
    given = {"dataset": "cifar10", "encoder": "small_cnn", "batch_size": 32, "num_positives": 2}
    return TrainConfig(**(given | {"false_positive_rate": 0.3} | more))


@pytest.fixture
def like_a_gpu(monkeypatch):
    """All code takes the path of a device that is not to be waited for."""
    original = device.waits
    for name, module in list(sys.modules.items()):
        if name.startswith("contrastive.") and getattr(module, "waits", None) is original:
            monkeypatch.setattr(module, "waits", lambda _: True)


def steps(training: _Training, mode: Any) -> list[float]:
    """The losses of an epoch's steps, run under a mode; what precedes them may wait."""
    losses, step = [], training._step

    def watched(*batch: Any) -> torch.Tensor:
        with mode:
            loss = step(*batch)
        losses.append(loss.item())
        return loss

    training._step = watched
    training.run_epoch()
    return losses


@pytest.mark.parametrize("loss", list(LOSSES))
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_no_step_waits(loss: str, precision: str, like_a_gpu):
    drop = {"false_negatives": "drop"} if loss == "hard_neg" else {}
    config = settings(loss=loss, precision=precision, **drop)
    training = _Training(config, 1, synthetic(96, "natural"), "cpu")
    device._constant.cache_clear()
    training._step(*_first_batch(training))  # constants are sent once
    assert len(steps(training, NoWaiting())) == 3


def test_no_step_of_digits_waits(like_a_gpu):
    training = _Training(settings(dataset="digits"), 1, synthetic(96, "digits"), "cpu")
    assert len(steps(training, NoWaiting())) == 3


@pytest.mark.parametrize("kind", ["natural", "digits"])
def test_the_mode_would_notice(kind: str):
    """The CPU's own path looks at masks, and the mode says so."""
    training = _Training(settings(), 1, synthetic(96, kind), "cpu")
    with pytest.raises(Waited, match="nonzero"):
        steps(training, NoWaiting())


@pytest.mark.parametrize(
    "act",
    [
        lambda x: x[x > 0],
        lambda x: bool((x > 0).any()),
        lambda x: x.sum().item(),
        lambda x: x + torch.tensor([1.0, 2.0]),
    ],
)
def test_the_mode_refuses(act):
    x = torch.tensor([1.0, -1.0])
    with pytest.raises(Waited), NoWaiting():
        act(x)


@pytest.mark.parametrize("kind", ["natural", "digits"])
def test_both_paths_give_the_same_losses(kind: str, request):
    data = synthetic(96, kind)
    here = steps(_Training(settings(), 1, data, "cpu"), NoMode())
    request.getfixturevalue("like_a_gpu")
    there = steps(_Training(settings(), 1, data, "cpu"), NoMode())
    # Rounding grows from step to step; a wrong draw or mask changes the first digits.
    assert there == pytest.approx(here, rel=2e-4)


def test_a_batch_of_one_label_is_refused_before_the_first_step(like_a_gpu):
    data = synthetic(64, "digits")
    same = Split(data.train.images, torch.zeros(64, dtype=torch.long))
    data = Dataset("synthetic", same, data.val, data.test, data.classes, "digits")
    training = _Training(settings(loss="triplet", false_positive_rate=0), 1, data, "cpu")
    with pytest.raises(ValueError, match=r"same label.*try: a larger batch"):
        training.run_epoch()
    training = _Training(settings(loss="supcon", false_positive_rate=0), 1, data, "cpu")
    training.run_epoch()  # needs no negative


class NoMode:
    """Nothing is watched."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_cuda_says_that_no_step_waits():
    training = _Training(settings(batch_size=16), 1, synthetic(96, "natural"), "cuda")
    training.run_epoch()  # kernels are chosen, constants sent

    class Strict(NoMode):
        def __enter__(self) -> None:
            torch.cuda.set_sync_debug_mode("error")

        def __exit__(self, *_: object) -> None:
            torch.cuda.set_sync_debug_mode("default")

    assert len(steps(training, Strict())) == 6


def _first_batch(training: _Training) -> tuple[Any, ...]:
    return training.choices(1).batch(0, training.config.batch_size)


class Reads(NoWaiting):
    """Counts what `NoWaiting` refuses."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        try:
            return super().__torch_dispatch__(func, types, args, kwargs)
        except Waited:
            self.count += 1
            return func(*args, **(kwargs or {}))


def test_an_evaluation_waits_as_often_for_many_batches_as_for_one(like_a_gpu):
    counts = []
    for images in (96, 1200):  # 512 in a batch of an evaluation
        training = _Training(settings(epochs=5), 1, synthetic(images, "digits"), "cpu")
        training.evaluate()
        with Reads() as mode:
            training.evaluate()
        counts.append(mode.count)
    assert counts[0] == counts[1] <= 3


def test_features_are_computed_in_the_precision_of_the_training():
    training = _Training(settings(precision="bfloat16"), 1, synthetic(96, "digits"), "cpu")
    seen = []
    layer = next(m for m in training.model.backbone.modules() if isinstance(m, torch.nn.Conv2d))
    layer.register_forward_hook(lambda _m, _i, out: seen.append(out.dtype))
    training.evaluate()
    assert set(seen) == {torch.bfloat16}

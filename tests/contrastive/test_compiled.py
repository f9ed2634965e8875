"""Does a compiled encoder train the same, and is a missing compiler told or got around?"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError

from contrastive.config import TrainConfig
from contrastive.training import compiled
from contrastive.training.compiled import GPU_FLOPS_PER_S, REPAID_AFTER_S, wanted
from contrastive.training.loop import _Training, train

ROOT = Path(__file__).parents[2]
TINY = {
    "dataset": "digits",
    "train_limit": 100,
    "epochs": 3,
    "batch_size": 25,
    "precision": "float32",
}


def losses(training: _Training, epochs: int) -> list[float]:
    """Of every step."""
    found, step = [], training._step

    def watched(*batch: Any) -> torch.Tensor:
        loss = step(*batch)
        found.append(loss.item())
        return loss

    training._step = watched
    for _ in range(epochs):
        training.run_epoch()
    return found


@pytest.mark.slow
def test_a_compiled_encoder_gives_the_same_losses_figures_and_names_and_is_compiled_once():
    """One test, since compiling takes 20 s where nothing is cached."""
    plain = _Training(TrainConfig(**TINY, compile="off"), 1, None, "cpu")
    fast = _Training(TrainConfig(**TINY, compile="on"), 1, None, "cpu")
    counted = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    expected, found = losses(plain, 3), losses(fast, 3)
    # Kernels round differently; rounding grows from step to step.
    assert found[0] == pytest.approx(expected[0], rel=1e-6)
    assert found == pytest.approx(expected, rel=1e-3)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == counted + 1
    before, after = plain.evaluate(read_test=True), fast.evaluate(read_test=True)
    for name in ("val/knn_top1", "test/linear_top1", "test/knn_top1"):
        assert after.metrics[name] == pytest.approx(before.metrics[name], abs=0.02)
    assert fast.save()["model"].keys() == plain.save()["model"].keys()
    # A checkpoint of either goes on as the other, and another seed and loss compile nothing.
    plain.load(fast.save())
    config = TrainConfig(**TINY, compile="on", loss="debiased_pos")
    losses(_Training(config, 2, None, "cpu"), 1)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == counted + 1


def test_auto_compiles_on_gpus_where_it_repays_and_never_on_cpus():
    gpu, cpu = torch.device("cuda"), torch.device("cpu")
    enough = REPAID_AFTER_S * GPU_FLOPS_PER_S
    assert wanted("auto", gpu, flops=enough)
    assert not wanted("auto", gpu, flops=0.9 * enough)
    assert not wanted("auto", gpu, flops=enough, seconds=0.9 * REPAID_AFTER_S)
    assert not wanted("auto", cpu, flops=1e30)
    assert wanted("on", cpu, flops=0)
    assert not wanted("off", gpu, flops=1e30)


def test_a_training_on_a_cpu_is_not_compiled_unless_asked():
    training = _Training(TrainConfig(**TINY), 1, None, "cpu")
    assert training.encode is training.model


def test_yaml_says_true_where_somebody_wrote_on():
    assert TrainConfig(compile=True).compile == "on"
    assert TrainConfig(compile=False).compile == "off"
    with pytest.raises(ValidationError, match="'auto', 'on' or 'off'"):
        TrainConfig(compile="yes")


@pytest.mark.slow
def test_more_variants_than_dynamo_keeps_start_anew(monkeypatch):
    resets = []
    monkeypatch.setattr(torch.compiler, "reset", lambda: resets.append(1))
    monkeypatch.setattr(compiled, "_VARIANTS", set())
    for i in [*range(8), 3, 8]:
        compiled.Compiled(torch.nn.Identity(), variant=i, required=True)
        assert len(compiled._VARIANTS) <= 8
    assert len(resets) == 1


def refusing(monkeypatch: pytest.MonkeyPatch) -> None:
    """`torch.compile`, with a backend that refuses as Inductor does where Triton is missing."""
    from torch._inductor.exc import TritonMissing

    def backend(*_: Any) -> Any:
        raise TritonMissing(None)

    real = torch.compile
    monkeypatch.setattr(torch, "compile", lambda *a, **more: real(*a, backend=backend, **more))


def test_without_triton_auto_warns_and_goes_on(monkeypatch):
    refusing(monkeypatch)
    module, images = torch.nn.Linear(3, 2), torch.ones(4, 3)
    run = compiled.Compiled(module, variant="auto without Triton", required=False)
    with pytest.warns(RuntimeWarning, match="not compiled: Cannot find a working triton"):
        found = run(images)
    assert torch.equal(found, module(images))
    assert torch.equal(run(images), found)  # the second time without a word


def test_without_triton_on_says_what_to_do(monkeypatch):
    refusing(monkeypatch)
    run = compiled.Compiled(torch.nn.Linear(3, 2), variant="on without Triton", required=True)
    with pytest.raises(compiled.CompileError, match=r"working triton.*try: compile: off"):
        run(torch.ones(4, 3))


COMMAND = [
    "--dataset",
    "digits",
    "--train-limit",
    "60",
    "--batch_size",
    "20",
    "--epochs",
    "1",
    "--device",
    "cpu",
]


def without_a_compiler(tmp_path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "contrastive.train", *COMMAND, *options]
    nowhere = {"CXX": "/nowhere/g++", "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    environment = os.environ | nowhere | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(
        command, capture_output=True, text=True, timeout=200, check=False, env=environment
    )


@pytest.mark.slow
def test_without_a_compiler_on_says_what_to_do(tmp_path):
    done = without_a_compiler(tmp_path, "--compile", "on")
    assert done.returncode == 2
    assert "compile is on, but the encoder cannot be compiled" in done.stderr
    assert "try: compile: off" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_a_compiler_auto_warns_and_trains(monkeypatch):
    from torch._dynamo.exc import BackendCompilerFailed

    def no_compiler(module: Any, **_: Any) -> Any:
        def run(images: torch.Tensor) -> torch.Tensor:
            raise BackendCompilerFailed(lambda: None, RuntimeError("no C++ compiler"), None)

        return run

    monkeypatch.setattr(torch, "compile", no_compiler)
    monkeypatch.setattr("contrastive.training.loop.wanted", lambda *_, **__: True)
    with pytest.warns(RuntimeWarning, match=r"not compiled.*no C\+\+ compiler"):
        found = [r.metrics["train/loss"] for r in train(TrainConfig(**TINY), 1) if r.epoch]
    monkeypatch.undo()
    assert found == [r.metrics["train/loss"] for r in train(TrainConfig(**TINY), 1) if r.epoch]

"""The compiling of the encoder: when it repays, and what happens where it is impossible."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Hashable

import torch
from torch import Tensor, nn

# Assumed, not measured here: compiling takes a minute when nothing is cached, and saves a tenth of
# the time. `benchmarks/training.py --device cuda --all` prints both for the GPU at hand.
REPAID_AFTER_S = 600.0
# A fifth of the 989e12 that an H100's or H200's data sheet gives for bfloat16: what is left of it
# in convolutions on small images. On a slower card trainings take longer than
# estimated, so compiling repays sooner there than this rule assumes.
GPU_FLOPS_PER_S = 2e14

# Dynamo keeps 8 variants of a function, and runs a ninth uncompiled without a warning.
_MOST_VARIANTS = 8
_VARIANTS: set[Hashable] = set()


class CompileError(RuntimeError):
    """`compile: on`, and there is no compiler; the message says what to do."""


def wanted(setting: str, device: torch.device, *, flops: float, seconds: float = math.inf) -> bool:
    """Whether a training's encoder is to be compiled.

    Args:
        setting: "on", "off" or "auto": on GPUs, if the training is long enough to repay it. On
            CPUs `small_cnn` takes as long compiled as not.
        device: of the training.
        flops: of the whole training, forward and backward.
        seconds: that it may take.
    """
    if setting != "auto":
        return setting == "on"
    return device.type == "cuda" and min(flops / GPU_FLOPS_PER_S, seconds) >= REPAID_AFTER_S


class Compiled:
    """A module that is compiled at its first call, for training steps alone.

    The module itself stays as it is: its state has the same names, and evaluations, whose batches
    are of other sizes, run it uncompiled instead of having it compiled again.

    Args:
        module: to be compiled for one shape.
        variant: what the compiled code depends on. A second training of the same variant in this
            process, of another seed or loss, uses the code of the first.
        required: whether a missing compiler is an error; else a warning is given and the module
            runs as it is.

    Raises:
        CompileError: at the first call, if `required`.
    """

    def __init__(self, module: nn.Module, *, variant: Hashable, required: bool) -> None:
        if variant not in _VARIANTS and len(_VARIANTS) == _MOST_VARIANTS:
            torch.compiler.reset()
            _VARIANTS.clear()
        _VARIANTS.add(variant)
        self._module, self._required, self._tried = module, required, False
        self._run: Callable[[Tensor], Tensor] = torch.compile(module, dynamic=False)

    def __call__(self, images: Tensor) -> Tensor:
        """The module's output."""
        if self._tried:
            return self._run(images)
        from torch._dynamo import exc

        # Inductor's own refusals (no Triton, a GPU too old for it) share only this base with
        # BackendCompilerFailed; a private name, which another PyTorch may not have.
        uncompiled = getattr(exc, "ShortenTraceback", exc.BackendCompilerFailed)
        self._tried = True
        try:
            return self._run(images)
        except uncompiled as error:
            lines = [line for line in str(error).splitlines() if line.strip()]
            reason = next((line for line in lines if not line.startswith("backend=")), lines[0])
            if self._required:
                raise CompileError(
                    f"compile is on, but the encoder cannot be compiled: {reason}; allowed: on "
                    "where a C++ compiler is installed (on GPUs: a C compiler and Triton), auto, "
                    "off; try: compile: off"
                ) from None
            warnings.warn(f"the encoder is not compiled: {reason}", RuntimeWarning, stacklevel=2)
            self._run = self._module
            return self._run(images)

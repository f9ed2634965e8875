"""The environment of a training: what moves its numbers beside its settings and its seed.

The same training on another processor, with another number of threads or another version of a
library differs, by chance as much as another seed does. So every run records where it ran, and a
study that continues elsewhere is refused unless the user accepts it.
"""

from __future__ import annotations

import functools
import os
import platform
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path

from study.environment import gpu_names

Environment = Mapping[str, str]  # e.g. {"processor": "AMD EPYC 7763", "threads": "1", …}

# Those that are installed count.
_LIBRARIES = (
    "contrastive-study", "numpy", "scipy", "scikit-learn", "torch", "torchvision", "lightning",
    "transformers", "jax", "tensorflow", "xgboost", "lightgbm", "optuna",
)  # fmt: skip
# Variables by which users and clusters choose other kernels.
_VARIABLES = (
    "ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "MKL_CBWR", "MKL_ENABLE_INSTRUCTIONS",
    "OPENBLAS_CORETYPE", "NPY_DISABLE_CPU_FEATURES", "NVIDIA_TF32_OVERRIDE",
    "CUBLAS_WORKSPACE_CONFIG", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
)  # fmt: skip
_FLAGS = ("flags", "Features")  # on x86 and on ARM
_INSTRUCTIONS = ("avx512f", "avx2", "avx", "asimd")  # the best first, as in /proc/cpuinfo


def environment_here(*, threads: int, gpus: bool) -> dict[str, str]:
    """The environment of trainings on this machine.

    Args:
        threads: of each training.
        gpus: whether they run on its cards.

    Example:
        >>> environment_here(threads=2, gpus=False)["threads"]
        '2'
    """
    cards = ", ".join(sorted({*_cards(os.environ.get("CUDA_VISIBLE_DEVICES"))})) if gpus else ""
    chosen = {name: os.environ[name] for name in _VARIABLES if name in os.environ}
    found = {"device": cards or "CPU", "threads": str(threads)}
    return found | dict(_processor()) | dict(_versions()) | chosen


def differences(before: Environment, now: Environment) -> list[str]:
    """What has changed, one line for each."""
    return [
        f"{name}: was {before.get(name, 'not set')}, is now {now.get(name, 'not set')}"
        for name in sorted(before.keys() | now.keys())
        if before.get(name) != now.get(name)
    ]


def nearest_differences(known: Sequence[Environment], now: Environment) -> list[str]:
    """What has changed since the most similar of earlier environments; nothing if one is this."""
    return min((differences(before, now) for before in known), key=len, default=[])


@functools.cache
def _cards(visible: str | None) -> tuple[str, ...]:
    """Asked once for each value of the variable that says which cards this process may use."""
    return tuple(gpu_names())


@functools.cache
def _processor() -> tuple[tuple[str, str], ...]:
    found = {"processor": processor()}
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        text = ""
    lines = (line.partition(":")[2] for line in text.splitlines() if line.startswith(_FLAGS))
    flags = set(next(lines, "").split())  # of the first core; the others are alike
    best = next((name for name in _INSTRUCTIONS if name in flags), platform.machine())
    return (*found.items(), ("instructions", best))


def processor() -> str:
    """The model's name."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"


@functools.cache
def _versions() -> tuple[tuple[str, str], ...]:
    found = {"python": ".".join(platform.python_version_tuple()[:2])}
    for package in _LIBRARIES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return tuple(found.items())

"""How many trainings fit on this machine or cluster at a time, and what does each get?"""

from __future__ import annotations

import math
import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import ray

from study.environment import QUIET
from study.faults import StudyError
from study.spec import Resources


@dataclass(frozen=True)
class Share:
    """What one training gets, and how many run at once."""

    cpus: int
    gpus: float
    slots: int

    def __str__(self) -> str:
        gpu = f", {self.gpus:g} GPU" if self.gpus else ""
        return f"{self.slots} at a time, {self.cpus} core{'s' * (self.cpus > 1)}{gpu} each"


def start_ray(address: str | None) -> None:
    """Start Ray on this machine, or join the cluster at `address`.

    Raises:
        StudyError: no cluster answers there.
    """
    common = {"log_to_driver": False, "logging_level": "ERROR"}
    try:
        if address:
            _knock(address)
            ray.init(address=address, runtime_env=_runtime_env() | _shipped(), **common)
        else:
            # "local": without it Ray joins whatever cluster somebody has started on this machine.
            ray.init(
                "local",
                include_dashboard=False,
                num_cpus=_own_cores(),
                runtime_env=_runtime_env(),
                **common,
            )
    except (OSError, ValueError, RuntimeError) as error:
        where = f"at {address}" if address else "on this machine"
        raise StudyError(
            f"Ray cannot be started {where}: {str(error).splitlines()[0]}\n"
            "  allowed: the address of a running cluster, e.g. 127.0.0.1:6379, or none"
        ) from None


def _knock(address: str) -> None:
    """Fail at once where nobody answers: Ray itself tries for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), timeout=10).close()


def own_node_alive() -> Callable[[], bool]:
    """A question for later: does Ray's process on this machine live? Tune would wait for ever."""
    own = ray.get_runtime_context().get_node_id()
    return lambda: any(node["NodeID"] == own and node["Alive"] for node in ray.nodes())


def slots_here(resources: Resources) -> int:
    """How many trainings would run at a time on this machine, without starting Ray.

    With `gpus: auto` one per card is counted: nothing has been measured yet.

    Raises:
        StudyError: not even one training fits.
    """
    import torch  # not above: a study's driver does without its 400 MB

    have = {"CPU": float(_own_cores()), "GPU": float(torch.cuda.device_count())}
    return _divide(resources, have).slots


def _own_cores() -> int:
    """Cores that this process may use, which in a container are fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _runtime_env() -> dict[str, object]:
    # OMP_NUM_THREADS is left to Ray: it sets the number of cores that it assigned.
    quiet = {name: value for name, value in QUIET.items() if name != "OMP_NUM_THREADS"}
    passed = ("CONTRASTIVE_CACHE", "CONTRASTIVE_DATA")
    return {"env_vars": quiet | {n: os.environ[n] for n in passed if n in os.environ}}


def _shipped() -> dict[str, object]:
    """The driver's code, which other machines may not have, or have in another version."""
    here = Path(__file__).parents[1]
    return {
        "py_modules": [str(here / package) for package in ("study", "contrastive", "analysis")],
        "excludes": ["__pycache__"],
    }


def share(resources: Resources, *, together: int = 1) -> Share:
    """Divide what Ray has.

    GPUs are used when there are any.

    Args:
        resources: of the study.
        together: trainings on one card with `gpus: auto`; more than one only if measured, see
            `study.packing`.

    Raises:
        StudyError: not even one training fits.
    """
    return _divide(resources, ray.cluster_resources(), together)


def _divide(resources: Resources, have: Mapping[str, float], together: int = 1) -> Share:
    cards, cores = have.get("GPU", 0), have.get("CPU", 0)
    if resources.gpus == "auto":
        # Ray counts in ten-thousandths of a card: six times 0.1667 would be more than one.
        gpus = math.floor(10_000 / together) / 10_000 if cards else 0.0
    else:
        gpus = float(resources.gpus)
    slots = int(cores // resources.cpus)
    if gpus:
        per_card = int(1 / gpus + 1e-9) if gpus <= 1 else 0
        slots = min(slots, int(cards) * per_card if per_card else int(cards // gpus))
    if slots < 1:
        raise StudyError(
            f"one training asks for {resources.cpus} cores and {gpus:g} GPUs; there are "
            f"{cores:g} cores and {cards:g} GPUs\n"
            "  try: --set resources.cpus=1 --set resources.gpus=auto"
        )
    return Share(resources.cpus, gpus, slots)

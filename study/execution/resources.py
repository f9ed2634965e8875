"""Resources: how many trainings fit on this machine or cluster at a time, and what each gets."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import ray

from study.design import Resources
from study.environment import gpu_names
from study.errors import StudyError
from study.execution.ray_cluster import own_cores


@dataclass(frozen=True)
class Share:
    """What one training gets, and how many run at once."""

    cpus: int
    gpus: float
    slots: int

    def __str__(self) -> str:
        gpu = f", {self.gpus:g} GPU" if self.gpus else ""
        return f"{self.slots} at a time, {self.cpus} core{'s' * (self.cpus > 1)}{gpu} each"


def slots_here(resources: Resources) -> int:
    """How many trainings would run at a time on this machine, without starting Ray.

    With `gpus: auto` one per card is counted: nothing has been measured yet.

    Raises:
        StudyError: not even one training fits.
    """
    have = {"CPU": float(own_cores()), "GPU": float(len(gpu_names()))}
    return _divide(resources, have).slots


def share(resources: Resources, *, together: int = 1) -> Share:
    """Divide what Ray has.

    GPUs are used when there are any.

    Args:
        resources: of the study.
        together: trainings on one card with `gpus: auto`; more than one only if measured, see
            `study.execution.gpu_sharing.packing`.

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

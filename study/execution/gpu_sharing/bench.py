"""The bench: one reserved card on which several trainings at a time are measured.

Ray runs them, on a card of their own and in workers that end with the measurement: so nothing of
it stays on the card or in a worker that trains for the study. A room for Ray beside `resources.py`
because it measures, while that one divides.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayError
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import (
    NodeAffinitySchedulingStrategy,
    PlacementGroupSchedulingStrategy,
)

from study.errors import first_line
from study.execution.gpu_sharing.packing import MOST, Card, Seen, Unmeasured
from study.execution.gpu_sharing.probe import Glance, Probe

FREE_WITHIN_S = 120.0  # a card that others use for longer is not waited for
READY_WITHIN_S = 300.0  # data, first evaluation and perhaps compilation
WARM_UP_STEPS = 10
WINDOWS, WINDOW_S = 3, 2.0  # the median of so many; a slow step makes them longer
WINDOW_STEPS, LONGEST_WINDOW_S = 5, 30.0
_TINY_SHARE = 0.01  # of a card, for Ray: the workers of a bench share one on purpose


@contextlib.contextmanager
def bench(cpus: int, probe: type[Any] = Probe) -> Iterator[Bench]:
    """The smallest kind of card that Ray has, and one of them reserved.

    Args:
        cpus: cores of a training.
        probe: what a worker does.

    Raises:
        Unmeasured: workers see no GPU, none is free, or cores are too few for two.
    """
    try:
        node, cores, name, gib = _smallest_card(probe)
        most = min(MOST, int(cores // cpus))
        if most < 2:
            raise Unmeasured("the cores beside a card are enough for one")
        group = placement_group([{"GPU": 1, "CPU": cpus * most, f"node:{node}": 0.001}])
        try:
            if not group.wait(FREE_WITHIN_S):
                raise Unmeasured(f"no card was free within {FREE_WITHIN_S:.0f} s")
            made = Bench(Card(name, gib, most), group, cpus, probe)
            try:
                yield made
            finally:
                made.close()
        finally:
            remove_placement_group(group)
    except RayError as error:  # a worker died, or did not answer
        raise Unmeasured(first_line(error)) from None


def _smallest_card(probe: type[Any]) -> tuple[str, float, str, float]:
    """Of all nodes with GPUs: address, cores per card, name and GiB of the smallest card."""
    nodes = [n for n in ray.nodes() if n["Alive"] and n["Resources"].get("GPU", 0) >= 1]
    found = []
    for node in nodes:
        count = node["Resources"]["GPU"]
        there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        worker = ray.remote(probe).options(
            num_gpus=count, num_cpus=0, scheduling_strategy=there
        ).remote()  # fmt: skip
        try:
            cards = ray.get(worker.cards.remote(), timeout=FREE_WITHIN_S)
        except GetTimeoutError:
            address = node["NodeManagerAddress"]
            raise Unmeasured(f"the cards of {address} were not free or did not answer") from None
        finally:
            _end([worker])
        if not cards:
            raise Unmeasured("the workers see no CUDA device")
        cores = node["Resources"].get("CPU", 0) / count
        name, gib = min(cards, key=lambda card: card[1])
        found.append((node["NodeManagerAddress"], cores, name, gib))
    if not found:
        raise Unmeasured("no node has a whole card")
    # Every node gets the same share: the one with the fewest cores per card decides about those.
    address, _, name, gib = min(found, key=lambda one: one[3])
    return address, min(cores for _, cores, _, _ in found), name, gib


class Bench:
    """One reserved card and the workers that train on it; see `packing.Bench`."""

    def __init__(self, card: Card, group: Any, cpus: int, probe: type[Any]) -> None:
        self.card = card
        self._place = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=0)
        self._cpus, self._probe = cpus, probe
        self._workers: list[Any] = []
        self._training: Mapping[str, Any] | None = None

    def memory(self, training: Mapping[str, Any]) -> float:
        """GiB of the card while one such training runs."""
        self._run(training, 1)
        return _card_gib(self._glances())

    def see(self, training: Mapping[str, Any], together: int) -> Seen:
        """Run so many at a time; those that run already continue."""
        self._run(training, together)
        rates = [self._rate() for _ in range(WINDOWS)]
        return Seen(together, statistics.median(rates), _card_gib(self._glances()))

    def close(self) -> None:
        """End the workers, and with them all that they hold of the card."""
        _end(self._workers)
        self._workers = []

    def _run(self, training: Mapping[str, Any], together: int) -> None:
        if training is not self._training or together < len(self._workers):
            ray.get([worker.stop.remote() for worker in self._workers], timeout=READY_WITHIN_S)
            _end(self._workers[together:])
            del self._workers[together:]
            ray.get([worker.start.remote(training) for worker in self._workers])
            self._training = training
        while len(self._workers) < together:
            # Two calls at a time: a look must not wait.
            worker = ray.remote(self._probe).options(
                num_gpus=_TINY_SHARE, num_cpus=self._cpus, max_concurrency=2,
                scheduling_strategy=self._place,
            ).remote(self._cpus)  # fmt: skip
            self._workers.append(worker)
            worker.start.remote(training)
        self._wait(lambda new: all(g.steps >= WARM_UP_STEPS for g in new), READY_WITHIN_S)

    def _rate(self) -> float:
        """Steps per second of all workers, in a window that all of them are at work in."""
        old = self._glances()
        time.sleep(WINDOW_S)
        new = self._wait(
            lambda new: all(
                n.steps - o.steps >= WINDOW_STEPS for o, n in zip(old, new, strict=True)
            ),
            LONGEST_WINDOW_S,
        )
        return sum((n.steps - o.steps) / (n.at_s - o.at_s) for o, n in zip(old, new, strict=True))

    def _wait(self, enough: Callable[[Sequence[Glance]], bool], seconds: float) -> list[Glance]:
        deadline = time.monotonic() + seconds
        while not enough(new := self._glances()):
            if time.monotonic() > deadline:
                raise Unmeasured(f"{len(new)} at a time took more than {seconds:.0f} s to continue")
            time.sleep(0.2)
        return new

    def _glances(self) -> list[Glance]:
        calls = [worker.look.remote() for worker in self._workers]
        try:
            glances = ray.get(calls, timeout=READY_WITHIN_S)
        except RayError as error:
            raise Unmeasured(first_line(error)) from None
        for glance in glances:
            if glance.error:
                raise Unmeasured(glance.error)
        return glances


def _card_gib(glances: Sequence[Glance]) -> float:
    """What the card would hold if every process were at its peak at the same time."""
    used = max(glance.used_gib for glance in glances)
    return used + sum(glance.peak_gib - glance.held_gib for glance in glances)


def _end(workers: Sequence[Any]) -> None:
    """Kill workers and wait until they are gone: the next ones need their memory."""
    for worker in workers:
        ray.kill(worker)
    for worker in workers:
        with contextlib.suppress(RayError):
            ray.get(worker.cards.remote(), timeout=30)

"""Is the number of trainings on a card the one that its memory and its speed call for?"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable

import pytest

from study.design.study import Study
from study.execution.gpu_sharing.heaviest_trainings import heaviest
from study.execution.gpu_sharing.packing import (
    MOST,
    Card,
    Packing,
    Seen,
    Unmeasured,
    pack,
    trainings_per_card,
)
from study.spec.find_workload import resolved


def card_of(
    rate: Callable[[int], float], gib: float = 1.0, fails_at: int | None = None
) -> tuple[Callable[[int], Seen], list[int]]:
    """A pretended card, and the list of what was tried on it."""
    tried: list[int] = []

    def measure(together: int) -> Seen:
        tried.append(together)
        if together == fails_at:
            raise Unmeasured("CUDA out of memory")
        return Seen(together, rate(together), gib * together)

    return measure, tried


def test_memory_bounds_and_what_would_not_fit_is_never_tried():
    measure, tried = card_of(lambda k: 10.0 * k, gib=2.0)
    found = pack(measure, gib=9.0, most=MOST)  # 8.1 GiB may be used: four of 2 GiB
    assert found.together == 4
    assert tried == [1, 2, 3, 4]
    assert "5 would need more than 90% of its memory" in found.why


def test_one_training_that_fills_the_card_stays_alone():
    measure, tried = card_of(lambda k: 10.0 * k, gib=50.0)
    assert pack(measure, gib=80.0, most=MOST).together == 1
    assert tried == [1]


def test_throughput_bounds():
    measure, tried = card_of(lambda k: min(10.0 * k, 31.0))
    found = pack(measure, gib=80.0, most=MOST)
    assert found.together == 3  # the fourth adds 3 %
    assert tried == [1, 2, 3, 4, 5, 6][: len(tried)]
    assert len(tried) < 7
    assert "less than 5% faster" in found.why


def test_a_card_that_one_training_keeps_busy_gets_one():
    measure, tried = card_of(lambda k: 10.0)
    assert pack(measure, gib=80.0, most=MOST).together == 1
    assert tried == [1, 2, 3]
    measure, _ = card_of(lambda k: 10.0 / k)  # they are in each other's way
    assert pack(measure, gib=80.0, most=MOST).together == 1


def test_a_slow_measurement_among_good_ones_does_not_end_the_climb():
    measure, _ = card_of(lambda k: 10.0 if k == 2 else 10.0 * min(k, 4))
    assert pack(measure, gib=80.0, most=MOST).together == 4


def test_noise_costs_little():
    """With 2 % of noise, what is chosen reaches 90 % of what the card can do."""
    for seed in range(200):
        noise = random.Random(seed)
        true = [10.0 * min(k, 4) + min(k, 8) * 0.1 for k in range(MOST + 1)]
        measure, _ = card_of(lambda k, t=true, n=noise: t[k] * n.gauss(1, 0.02))
        found = pack(measure, gib=80.0, most=MOST)
        assert true[found.together] >= 0.9 * max(true)
        assert found.together <= 8


@pytest.mark.parametrize(("fails_at", "expected"), [(2, 1), (4, 3)])
def test_a_number_that_fails_is_not_used(fails_at, expected):
    measure, tried = card_of(lambda k: 10.0 * k, fails_at=fails_at)
    found = pack(measure, gib=80.0, most=MOST)
    assert found.together == expected
    assert tried[-1] == fails_at
    assert "could not be run: CUDA out of memory" in found.why


def test_a_number_that_needs_more_than_was_foreseen_is_not_used():
    def measure(together: int) -> Seen:
        return Seen(together, 10.0 * together, {1: 1.0, 2: 2.0, 3: 9.5}[together])

    found = pack(measure, gib=10.0, most=MOST)
    assert (found.together, len(found.seen)) == (2, 2)
    assert "3 take 9.5 GiB" in found.why


def test_cores_bound():
    measure, tried = card_of(lambda k: 10.0 * k)
    found = pack(measure, gib=80.0, most=2)
    assert (found.together, tried) == (2, [1, 2])
    assert "cores" in found.why


def test_what_cannot_be_measured_alone_is_no_pack():
    measure, _ = card_of(lambda k: 10.0, fails_at=1)
    with pytest.raises(Unmeasured, match="out of memory"):
        pack(measure, gib=80.0, most=MOST)


def study(**changes) -> Study:
    data = {
        "name": "f",
        "trial": {"dataset": "digits", "epochs": 2},
        "arms": {"a": {"loss": "contrastive"}, "b": {"loss": "debiased_pos"}},
        "confirm": {"seeds": 2},
    }
    return resolved(data | changes)


SEARCHED = {
    "trials_per_arm": 3,
    "space": {
        "batch_size": {"low": 32, "high": 512},
        "num_positives": {"choices": [1, 2, 8]},
        "temperature": {"low": 0.1, "high": 1.0},
    },
}


def loads(s: Study) -> set[tuple[str, int, int]]:
    return {(c["loss"], c["batch_size"], c["num_positives"]) for c in heaviest(s)}


def test_the_heaviest_of_a_search_is_at_the_ends_of_what_weighs():
    assert loads(study(search=SEARCHED)) == {("contrastive", 512, 8), ("debiased_pos", 512, 8)}


def test_the_heaviest_obeys_the_constraints():
    found = loads(study(search=SEARCHED | {"require": ["batch_size * num_positives <= 512"]}))
    views = {loss: batch * (more + 1) for loss, batch, more in found}
    assert views == {"contrastive": 512 * 2, "debiased_pos": 512 * 2}


def test_the_heaviest_condition_counts():
    conditions = {"small": {"batch_size": 32}, "large": {"batch_size": 256}}
    assert loads(study(conditions=conditions)) == {
        ("contrastive", 256, 1),
        ("debiased_pos", 256, 1),
    }


def test_each_encoder_is_a_kind_of_its_own():
    space = {"encoder": {"choices": ["small_cnn", "resnet18"]}}
    found = heaviest(study(search={"trials_per_arm": 3, "space": space}))
    assert {(c["loss"], c["encoder"]) for c in found} == {
        (loss, encoder)
        for loss in ("contrastive", "debiased_pos")
        for encoder in ("small_cnn", "resnet18")
    }


class PretendedBench:
    """debiased_pos takes twice the memory; four at a time are the best."""

    def __init__(self, card: Card) -> None:
        self.card, self.seen = card, []

    def memory(self, training) -> float:
        return 2.0 if training["config"]["loss"] == "debiased_pos" else 1.0

    def see(self, training, together: int) -> Seen:
        self.seen.append((training["config"]["loss"], together))
        return Seen(together, 10.0 * min(together, 4), 2.0 * together)


def together(s: Study, folder, bench: PretendedBench, said: list[str]) -> int:
    return trainings_per_card(
        s, folder, open_bench=lambda: contextlib.nullcontext(bench), say=said.append
    )


def test_the_heaviest_training_is_packed_and_a_resume_does_not_measure_again(tmp_path):
    said: list[str] = []
    bench = PretendedBench(Card("H", 80.0, 8))
    assert together(study(), tmp_path, bench, said) == 4
    assert {loss for loss, _ in bench.seen} == {"debiased_pos"}
    assert "4 trainings per card (H): 8.0 of 80.0 GiB" in said[0]
    assert "1: 10.0, 2: 20.0, 3: 30.0, 4: 40.0" in said[0]
    again = PretendedBench(Card("H", 80.0, 8))
    assert together(study(confirm={"seeds": 4}), tmp_path, again, said) == 4
    assert again.seen == []
    assert "as measured before" in said[1]


@pytest.mark.parametrize("card", [Card("other", 80.0, 8), Card("H", 80.0, 2), Card("H", 40.0, 8)])
def test_another_card_or_fewer_cores_are_measured_anew(tmp_path, card):
    together(study(), tmp_path, PretendedBench(Card("H", 80.0, 8)), [])
    bench = PretendedBench(card)
    assert together(study(), tmp_path, bench, []) == min(4, card.most)
    assert bench.seen


def test_a_damaged_note_is_measured_anew(tmp_path):
    (tmp_path / "packing.json").write_text("{")
    bench = PretendedBench(Card("H", 80.0, 8))
    assert together(study(), tmp_path, bench, []) == 4
    assert bench.seen


def test_nothing_is_packed_without_a_measurement_and_the_reason_is_said(tmp_path):
    @contextlib.contextmanager
    def none():
        raise Unmeasured("the workers see no CUDA device")
        yield

    said: list[str] = []
    assert trainings_per_card(study(), tmp_path, open_bench=none, say=said.append) == 1
    assert said == ["gpus: auto is one training per card: the workers see no CUDA device"]
    assert not (tmp_path / "packing.json").exists()  # the next command tries again


HOURS = SEARCHED | {"budget": {"device_hours": 1.0}}
CHEAPER = {"id": "S", "better": "b", "than": "a", "metric": "seconds"}
COSTS = SEARCHED | {"metric": ["val/knn_top1", "seconds"]}


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"trial": {"epochs": 9, "budget": {"seconds": 5.0}}}, "trainings are budgeted in seconds"),
        (
            {"conditions": {"all": {}, "brief": {"epochs": 9, "budget": {"seconds": 5.0}}}},
            "trainings are budgeted in seconds",
        ),
        ({"search": COSTS}, "search.metric has seconds"),
        ({"search": HOURS}, "search.budget has device_hours"),
        ({"claims": [CHEAPER]}, "claims are about seconds"),
    ],
)
def test_trainings_whose_seconds_count_do_not_share_a_card(tmp_path, changes, why):
    said: list[str] = []
    bench = PretendedBench(Card("H", 80.0, 8))
    assert together(study(**changes), tmp_path, bench, said) == 1
    assert bench.seen == []
    assert said == [f"gpus: auto is one training per card: {why}"]


def test_a_packing_keeps_what_it_rests_on():
    measure, _ = card_of(lambda k: 10.0 * min(k, 2))
    found = pack(measure, gib=80.0, most=MOST)
    assert isinstance(found, Packing)
    assert [s.together for s in found.seen] == list(range(1, len(found.seen) + 1))
    assert found.together == 2

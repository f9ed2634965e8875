"""Is the search fair to each arm, exact on resume, and right about what Optuna is told?

Trainings are replaced by curves, so that hundreds of trials take seconds; the source, Optuna's
storage and the halving are the real ones.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import ClassVar

import numpy as np
import optuna
import pytest
from optuna.trial import TrialState
from quick import first_quick

from study.design.study import EarlyStopping, Study
from study.errors import Paused
from study.phases.arm import ArmSearch
from study.phases.objectives import front, judged
from study.phases.pruners import Halving
from study.phases.search import SearchSource
from study.records.job import Job, Record
from study.records.ledger import Ending, Ledger
from study.spec.find_workload import resolved

METRIC = "val/knn_top1"
# The curves do not see what they differ in. Arms that differ in nothing draw apart: an A/A study.
ALIKE = {"a": {"loss": "contrastive"}, "b": {"loss": "contrastive", "blur_prob": 0.4}}


def study(arms: dict | None = None, trials: int = 6, epochs: int = 9, **search) -> Study:
    return resolved(
        {
            "name": "s",
            "trial": {"dataset": "digits", "epochs": epochs},
            "arms": arms or {"a": {"loss": "contrastive"}, "b": {"loss": "contrastive"}},
            "search": {
                "trials_per_arm": trials,
                "space": {
                    "temperature": {"low": 0.1, "high": 1.0, "log": True},
                    "num_positives": {"choices": [1, 2]},
                },
                "early_stopping": {"grace_epochs": 1, "reduction_factor": 3},
            }
            | search,
            "confirm": {"seeds": 2},
        }
    )


def curve(job: Job, epoch: int) -> float:
    """Good at a temperature of 0.3, rising with the epochs."""
    distance = abs(np.log(job.config["temperature"] / 0.3))
    return float(0.9 - 0.2 * distance - 0.4 / (1 + epoch) + 0.01 * job.config["num_positives"])


class Interrupted(Exception):
    pass


def play(
    source: SearchSource,
    slots: int = 1,
    score=curve,
    jobs: int | None = None,
    order=None,
    costs=None,
):
    """Run jobs epoch by epoch, `slots` side by side; `order` picks which one advances."""
    running: list[list] = []
    trace: list[tuple[str, int]] = []
    while True:
        while len(running) < slots and source.remaining():
            if jobs is not None and jobs == 0:
                raise Interrupted
            job = source.next()
            if job is None:
                break
            jobs = jobs - 1 if jobs is not None else None
            running.append([job, []])
        if not running:
            return trace
        chosen = running[order.integers(len(running)) if order is not None else 0]
        job, records = chosen
        epoch = len(records)
        metrics = {METRIC: score(job, epoch), "seconds": 1.0 * epoch}
        metrics |= {name: cost(job, epoch) for name, cost in (costs or {}).items()}
        record = Record(epoch, metrics, {})
        records.append(record)
        trace.append((job.key, epoch))
        stopped = source.on_records(job, [record])
        if stopped or epoch == job.planned_epochs:
            outcome = "stopped" if stopped else "finished"
            source.on_end(Ending(job, outcome, tuple(records)))
            running.remove(chosen)


def source_in(folder: Path, s: Study, slots: int = 1, storage=None) -> SearchSource:
    """With `search.db`, for what survives a process."""
    folder.mkdir(parents=True, exist_ok=True)
    return SearchSource(s, folder, Ledger(folder), slots=slots, storage=storage)


def in_memory(folder: Path, s: Study, slots: int = 1) -> SearchSource:
    """The same with Optuna's history in memory, which takes a tenth of the time.

    It is what resumed searches are compared with, too: where the history lies decides nothing.
    """
    return source_in(folder, s, slots, optuna.storages.InMemoryStorage())


def endings(source: SearchSource) -> list[Ending]:
    return list(source._ledger.all("search"))


def shape(source: SearchSource) -> list[tuple]:
    return [(e.job.key, e.job.drawn, e.outcome, e.epochs) for e in endings(source)]


@pytest.mark.slow
def test_every_arm_gets_the_same_number_of_trials(tmp_path):
    arms = {"a": {"loss": "contrastive"}, "b": {"loss": "debiased_neg"}, "c": {"loss": "hard_neg"}}
    source = in_memory(tmp_path, study(arms, trials=7))
    play(source)
    counts = [sum(key.startswith(f"search/{arm}/") for key, *_ in shape(source)) for arm in arms]
    assert counts == [7, 7, 7]


@pytest.mark.slow
@pytest.mark.parametrize("conditional", [False, True])
def test_tpe_draws_conditional_dimensions_together_with_the_others(tmp_path, conditional: bool):
    """Optuna draws a dimension relative to the others, or else on its own."""
    when = {"num_positives": [2]} if conditional else {}
    space = {
        "temperature": {"low": 0.1, "high": 1.0},
        "num_positives": {"choices": [1, 2]},
        "learning_rate": {"low": 1e-4, "high": 1e-2, "when": when},
    }
    source = in_memory(tmp_path, study({"a": {"loss": "contrastive"}}, trials=24, space=space))
    play(source, jobs=None)
    arm = source._arms["a"]
    drawn = [arm.ask() for _ in range(6)]
    assert any("learning_rate" in trial.params for trial in drawn)
    assert all(set(trial.params) <= set(trial.relative_params) for trial in drawn)


def test_arms_that_do_equally_well_are_treated_identically(tmp_path):
    """Same draws, same rungs, same stops: an arm's name gives it no luck."""
    source = source_in(tmp_path, study(ALIKE))
    play(source)
    found = shape(source)
    a = [(key.split("/")[2], *rest) for key, *rest in found if "/a/" in key]
    b = [(key.split("/")[2], *rest) for key, *rest in found if "/b/" in key]
    assert a == b
    assert any(outcome == "stopped" for _, _, outcome, _ in a)


@pytest.mark.slow
def test_the_order_in_which_jobs_end_changes_nothing_with_one_job_per_arm(tmp_path):
    shapes = []
    for i in range(3):
        source = in_memory(tmp_path / str(i), study(), slots=2)
        assert source.caveats() == []
        play(source, slots=2, order=np.random.default_rng(i))
        shapes.append(shape(source))
    assert shapes[0] == shapes[1] == shapes[2]


def test_arms_take_turns(tmp_path):
    source = in_memory(tmp_path, study(early_stopping="none", trials=3))
    starts = [key for key, epoch in play(source) if epoch == 0]
    assert [key.split("/")[1] for key in starts] == ["a", "b"] * 3


@pytest.mark.slow
def test_a_slow_starter_is_compared_with_its_own_arm_only(tmp_path):
    """Arm b starts low and wins late; pooled rungs would stop every trial of it."""

    def score(job: Job, epoch: int) -> float:
        noise = 0.001 * job.number
        return (0.6 + 0.01 * epoch if job.arm == "a" else 0.05 + 0.1 * epoch) - noise

    source = in_memory(tmp_path, study(trials=6))
    play(source, score=score)
    ended = {arm: [o for k, _, o, _ in shape(source) if f"/{arm}/" in k] for arm in "ab"}
    assert ended["a"] == ended["b"]
    assert "finished" in ended["b"]
    values = {
        (job.arm, job.number): e.records[1].metrics[METRIC]
        for e in endings(source)
        for job in [e.job]
    }
    best_of_b = max(v for (arm, _), v in values.items() if arm == "b")
    pooled = sorted(values.values())[-(len(values) // 3)]
    assert best_of_b < pooled


def views_study(**search) -> Study:
    """Trials of one budget of views, which M = 1 sees in 12 epochs, M = 2 in 8, M = 4 in 5."""
    space = {
        "temperature": {"low": 0.1, "high": 1.0, "log": True},
        "num_positives": {"choices": [1, 2, 4]},
    }
    # 1,197 training images: 18 steps of 64 in an epoch.
    trial = {"dataset": "digits", "batch_size": 64, "budget": {"views": 12 * 18 * 64 * 2}}
    return resolved(
        {
            "name": "s",
            "trial": trial,
            "arms": {"a": {"loss": "contrastive"}},
            "search": {
                "trials_per_arm": 12,
                "space": space,
                "early_stopping": {"grace_epochs": 3, "reduction_factor": 2},
                "sampler": "random",
            }
            | search,
            "confirm": {"seeds": 2},
        }
    )


def test_trials_of_one_budget_of_views_meet_where_they_have_spent_the_same_share(tmp_path):
    """At equal epochs M = 4 would be judged after 60 % of its views and M = 1 after 25 %."""

    def score(job: Job, epoch: int) -> float:
        return min(0.9, epoch / job.planned_epochs) - 0.01 * abs(job.config["temperature"] - 0.4)

    source = source_in(tmp_path, views_study())
    play(source, score=score)
    planned = {e.job.planned for e in endings(source)}
    assert planned == {12, 8, 5}
    ended = {e.job.number: e for e in endings(source)}
    stopped_at = {(e.job.planned, e.epochs) for e in ended.values() if e.outcome == "stopped"}
    assert stopped_at <= {(12, 3), (12, 6), (8, 2), (8, 4), (5, 2), (5, 3)}
    assert {planned for planned, _ in stopped_at} == planned
    for trial in source._arms["a"]._optuna.get_trials(deepcopy=False):
        ending = ended[trial.number]
        at_rungs = {s: v for s, v in trial.intermediate_values.items() if s in (3, 6)}
        for rung, value in at_rungs.items():
            first = next(
                r.epoch for r in ending.records if 12 * r.epoch >= rung * ending.job.planned
            )
            assert value == score(ending.job, first)


def test_a_killed_search_over_m_goes_on_as_if_nothing_had_happened(tmp_path):
    whole = source_in(tmp_path / "whole", views_study())
    play(whole)
    broken = tmp_path / "broken"
    with pytest.raises(Interrupted):
        play(source_in(broken, views_study()), jobs=7)
    resumed = source_in(broken, views_study())
    play(resumed)
    assert shape(resumed) == shape(whole)


def test_the_winner_is_the_best_at_the_last_epoch_among_those_that_reached_it(tmp_path):
    def score(job: Job, epoch: int) -> float:
        if job.number == 1:
            return 0.99 if epoch < 9 else 0.5  # the best epoch by accident
        return 0.6 if job.number == 2 else 0.4

    source = in_memory(tmp_path, study(trials=4, early_stopping="none"))
    play(source, score=score)
    drawn = {e.job.key: e.job.drawn for e in endings(source)}
    assert source.winners() == {"a": drawn["search/a/0002"], "b": drawn["search/b/0002"]}


def test_optuna_is_told_what_became_of_each_trial(tmp_path):
    source = source_in(tmp_path, study(trials=5))
    outcomes = ["finished", "stopped", "diverged", "failed", "finished"]
    while source.remaining():
        job = source.next()
        outcome = outcomes[job.number]
        last = 9 if outcome == "finished" else 1
        records = [Record(e, {METRIC: 0.1 * e}, {}) for e in range(last + 1)]
        source.on_records(job, records)
        source.on_end(Ending(job, outcome, tuple(records), "why" if outcome == "failed" else ""))
    storage = f"sqlite:///{tmp_path / 'search.db'}"
    trials = optuna.load_study(study_name="s/a", storage=storage).trials
    complete, pruned, fail = TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL
    assert [t.state for t in trials] == [complete, pruned, fail, fail, complete]
    assert trials[0].value == pytest.approx(0.9)
    assert trials[1].intermediate_values == {1: pytest.approx(0.1)}
    assert trials[3].user_attrs["failure"] == "why"


def test_an_arm_whose_trials_all_fail_has_no_winner(tmp_path):
    source = in_memory(tmp_path, study(trials=2))
    while source.remaining():
        job = source.next()
        outcome = "diverged" if job.arm == "a" else "finished"
        records = (Record(9, {METRIC: 0.5}, {}),)
        source.on_records(job, records)
        source.on_end(Ending(job, outcome, records))
    winners = source.winners()
    assert winners["a"] is None
    assert winners["b"]


def test_a_value_that_is_not_finite_at_the_end_is_no_result(tmp_path):
    source = in_memory(tmp_path, study(trials=1))
    while source.remaining():
        job = source.next()
        source.on_end(Ending(job, "finished", (Record(9, {METRIC: float("nan")}, {}),)))
    assert source.winners() == {"a": None, "b": None}


@pytest.mark.slow
def test_declared_first_points_are_tried_first_and_never_stopped(tmp_path):
    first = [{"temperature": 0.9, "num_positives": 1}, {"temperature": 0.8, "num_positives": 1}]
    source = in_memory(tmp_path, study(trials=8, first=first))
    play(source)
    jobs = [(e.job.drawn, e.outcome) for e in endings(source) if e.job.arm == "a"]
    assert [drawn for drawn, _ in jobs[:2]] == first
    assert [outcome for _, outcome in jobs[:2]] == ["finished", "finished"]


@pytest.mark.parametrize("after", first_quick([5, 1, 11]))
def test_a_killed_search_goes_on_as_if_nothing_had_happened(tmp_path, after: int):
    whole = in_memory(tmp_path / "whole", study())
    play(whole)
    with pytest.raises(Interrupted):
        play(source_in(tmp_path / "killed", study()), jobs=after)
    resumed = source_in(tmp_path / "killed", study())
    play(resumed)
    assert shape(resumed) == shape(whole)
    assert resumed.winners() == whole.winners()


@pytest.mark.slow
@pytest.mark.parametrize("epoch", [0, 2, 6])
def test_a_search_killed_within_a_trial_goes_on_with_that_trial(tmp_path, epoch: int):
    whole = in_memory(tmp_path / "whole", study())
    play(whole)

    def dies(job: Job, at: int) -> float:
        if job.key == "search/b/0004" and at == min(epoch, 1):
            raise Interrupted
        return curve(job, at)

    with pytest.raises(Interrupted):
        play(source_in(tmp_path / "killed", study()), score=dies)
    resumed = source_in(tmp_path / "killed", study())
    play(resumed)
    assert shape(resumed) == shape(whole)


@pytest.mark.slow
def test_a_crash_between_the_ledger_and_optuna_is_mended(tmp_path, monkeypatch):
    whole = in_memory(tmp_path / "whole", study())
    play(whole)
    source = source_in(tmp_path / "killed", study())
    original = ArmSearch.tell

    def dies(self, trial, ending):
        if ending.job.key == "search/a/0003":
            raise Interrupted
        original(self, trial, ending)

    monkeypatch.setattr(ArmSearch, "tell", dies)
    with pytest.raises(Interrupted):
        play(source)
    monkeypatch.undo()
    resumed = source_in(tmp_path / "killed", study())
    assert resumed.remaining() == whole.planned()["a"] * 2 - 7
    play(resumed)
    assert shape(resumed) == shape(whole)


class TestHalving:
    """Decisions against a loop over the rule, on values given to Optuna by hand."""

    @staticmethod
    def decide(values: list[float], own: float, factor: int = 3, rung: int = 2) -> bool:
        optuna_study = optuna.create_study(direction="maximize")
        for value in values:
            optuna_study.add_trial(
                optuna.trial.create_trial(
                    state=TrialState.PRUNED, value=None, intermediate_values={rung: value}
                )
            )
        trial = optuna_study.ask()
        trial.report(own, rung)
        optuna_study.pruner = Halving([rung], factor)
        return trial.should_prune()

    def test_the_rule_on_many_random_rungs(self):
        rng = np.random.default_rng(0)
        stopped = 0
        for _ in range(60):
            values, own = rng.random(rng.integers(0, 9)).round(1).tolist(), round(rng.random(), 1)
            better = sum(value > own for value in values)
            count = len(values) + 1
            expected = count >= 3 and better >= count // 3
            assert self.decide(values, own) == expected
            stopped += expected
        assert 10 < stopped < 50

    def test_nothing_is_stopped_before_a_rung_holds_enough_values(self):
        assert not self.decide([0.9], 0.1)
        assert self.decide([0.9, 0.8], 0.1)

    def test_rungs_lie_before_the_last_epoch(self):
        rule = EarlyStopping(grace_epochs=2, reduction_factor=3)
        assert rule.rungs(24) == [2, 6, 18]
        assert rule.rungs(18) == [2, 6]
        assert rule.rungs(2) == []


class TestDraws:
    """Repetitions and constraints."""

    SPACE: ClassVar = {
        "num_positives": {"choices": [1, 2, 4]},
        "aggregation": {
            "choices": ["pos_grouping", "loss_combination"],
            "when": {"num_positives": [2, 4]},
        },
        "batch_size": {"low": 32, "high": 64, "step": 32},
    }

    @pytest.mark.slow
    def test_a_configuration_is_tried_once_and_an_arm_ends_with_its_last_one(self, tmp_path):
        source = in_memory(tmp_path, study(trials=30, space=self.SPACE, early_stopping="none"))
        assert source.planned() == {"a": 10, "b": 10}  # (1 + 2 + 2) · 2
        play(source)
        tried = [tuple(sorted(e.job.drawn.items())) for e in endings(source) if e.job.arm == "a"]
        assert len(tried) == len(set(tried)) == 10

    @pytest.mark.slow
    def test_a_grid_of_fractions_is_tried_point_by_point(self, tmp_path):
        space = {"temperature": {"low": 0.1, "high": 0.7, "step": 0.1}}
        source = in_memory(tmp_path, study(trials=20, space=space, early_stopping="none"))
        assert source.planned() == {"a": 7, "b": 7}
        play(source)
        tried = [e.job.drawn["temperature"] for e in endings(source) if e.job.arm == "a"]
        assert sorted(tried) == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7])

    @pytest.mark.slow
    @pytest.mark.parametrize("sampler", ["tpe", "random", "qmc", "gp", "nsga2"])
    def test_constraints_hold_and_repetitions_are_avoided_with_every_sampler(
        self, tmp_path, sampler
    ):
        constraint = "batch_size * num_positives <= 128"
        s = study(trials=6, space=self.SPACE, require=constraint, sampler=sampler)
        source = in_memory(tmp_path, s)
        assert source.planned() == {"a": 6, "b": 6}  # of 8
        play(source)
        drawn = [e.job.drawn for e in endings(source)]
        assert len(drawn) == 12
        assert all(d["batch_size"] * d["num_positives"] <= 128 for d in drawn)

    @pytest.mark.slow
    def test_a_search_with_rejections_resumes_exactly(self, tmp_path):
        s = study(trials=7, space=self.SPACE, require="batch_size * num_positives <= 128")
        whole = in_memory(tmp_path / "whole", s)
        play(whole)
        for after in (3, 6):
            with pytest.raises(Interrupted):
                play(source_in(tmp_path / "killed", s), jobs=after)
        resumed = source_in(tmp_path / "killed", s)
        play(resumed)
        assert shape(resumed) == shape(whole)


class TestGrid:
    """`sampler: grid`: every configuration exactly once."""

    @staticmethod
    def grid(**changes) -> Study:
        return study(**{"trials": 12, "space": TestDraws.SPACE, "sampler": "grid"} | changes)

    @staticmethod
    def tried(source: SearchSource, arm: str = "a") -> list[dict]:
        return [e.job.drawn for e in endings(source) if e.job.arm == arm]

    # Written out by hand: `aggregation` counts with several positives only.
    ALL: ClassVar = [
        {"batch_size": batch, "num_positives": positives} | more
        for batch in (32, 64)
        for positives, more in [
            (1, {}),
            (2, {"aggregation": "pos_grouping"}),
            (2, {"aggregation": "loss_combination"}),
            (4, {"aggregation": "pos_grouping"}),
            (4, {"aggregation": "loss_combination"}),
        ]
    ]

    def check(self, found: list[dict], expected: list[dict]) -> None:
        as_sets = [frozenset(point.items()) for point in found]
        assert len(as_sets) == len(set(as_sets))
        assert set(as_sets) == {frozenset(point.items()) for point in expected}

    @pytest.mark.slow
    def test_every_configuration_of_a_conditional_space_once(self, tmp_path):
        source = in_memory(tmp_path, self.grid(arms=ALIKE))
        assert source.planned() == {"a": 10, "b": 10}
        play(source)
        self.check(self.tried(source), self.ALL)
        assert self.tried(source, "b") == self.tried(source)  # an arm's name gives it no luck

    @pytest.mark.slow
    def test_the_order_is_no_sweep_and_follows_the_seed(self, tmp_path):
        orders = []
        for seed in (0, 0, 5):
            source = in_memory(tmp_path / f"{len(orders)}", self.grid(seed=seed))
            play(source)
            orders.append(self.tried(source))
        assert orders[0] == orders[1] != orders[2]
        batches = [point["batch_size"] for point in orders[0]]
        assert batches not in (sorted(batches), sorted(batches, reverse=True))

    @pytest.mark.slow
    def test_constraints_thin_the_grid(self, tmp_path):
        constraint = "batch_size * num_positives <= 128"
        source = in_memory(tmp_path, self.grid(require=constraint))
        play(source)
        allowed = [p for p in self.ALL if p["batch_size"] * p["num_positives"] <= 128]
        assert len(allowed) == 8
        self.check(self.tried(source), allowed)

    @pytest.mark.slow
    def test_declared_configurations_come_first_completed_from_the_grid(self, tmp_path):
        first = [{"num_positives": 4, "aggregation": "loss_combination", "batch_size": 32}]
        # The default batch size, 64, is on the grid; the default temperature, 0.5, is not.
        space = TestDraws.SPACE | {"temperature": {"choices": [0.1, 0.9]}}
        s = self.grid(trials=20, space=space, first=first, early_stopping="none")
        source = in_memory(tmp_path, s)
        play(source)
        tried = self.tried(source)
        assert len(tried) == 20
        assert first[0].items() <= tried[0].items()
        assert tried[0]["temperature"] in (0.1, 0.9)
        expected = [p | {"temperature": t} for p in self.ALL for t in (0.1, 0.9)]
        self.check(tried, expected)

    def test_fractions_are_points_and_no_repetitions(self, tmp_path):
        space = {"temperature": {"low": 0.1, "high": 0.7, "step": 0.1}}
        source = in_memory(tmp_path, self.grid(space=space, first=[{"temperature": 0.3}]))
        play(source)
        tried = [point["temperature"] for point in self.tried(source)]
        assert tried[0] == 0.3
        assert sorted(tried) == [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]

    @pytest.mark.slow
    def test_a_killed_grid_goes_on_as_if_nothing_had_happened(self, tmp_path):
        s = self.grid(first=[{"num_positives": 2}])
        whole = in_memory(tmp_path / "whole", s)
        play(whole)
        for after in (4, 6):
            with pytest.raises(Interrupted):
                play(source_in(tmp_path / "killed", s), jobs=after)
        resumed = source_in(tmp_path / "killed", s)
        play(resumed)
        assert shape(resumed) == shape(whole)

    @pytest.mark.slow
    def test_a_crash_between_the_queue_and_the_trial_loses_and_repeats_no_point(
        self, tmp_path, monkeypatch
    ):
        s = self.grid()
        whole = in_memory(tmp_path / "whole", s)
        play(whole)
        source, asked = source_in(tmp_path / "killed", s), []
        real = optuna.Study.ask

        def dies(self, *args, **options):
            asked.append(1)
            if len(asked) == 7:
                raise Interrupted
            return real(self, *args, **options)

        monkeypatch.setattr(optuna.Study, "ask", dies)
        with pytest.raises(Interrupted):
            play(source)
        monkeypatch.undo()
        resumed = source_in(tmp_path / "killed", s)
        play(resumed)
        assert shape(resumed) == shape(whole)

    @pytest.mark.slow
    @pytest.mark.parametrize("seed", [0])
    def test_side_by_side_and_killed_every_point_is_tried_once(self, tmp_path, seed: int):
        s, order = self.grid(), np.random.default_rng(seed)
        with pytest.raises(Interrupted):
            play(source_in(tmp_path, s, slots=6), slots=6, jobs=9, order=order)
        resumed = source_in(tmp_path, s, slots=6)
        assert "side by side" in resumed.caveats()[0]
        play(resumed, slots=6, order=order)
        for arm in "ab":
            self.check(self.tried(resumed, arm), self.ALL)


def test_whatever_depends_on_the_clock_is_told(tmp_path):
    s = study(sampler="random", budget={"device_hours": 1.0})
    (caveat,) = in_memory(tmp_path / "hours", s).caveats()
    assert "search.budget.epochs makes it exact" in caveat
    assert in_memory(tmp_path / "epochs", study(budget={"epochs": 9})).caveats() == []
    trial = {"trial": s.trial | {"budget": {"seconds": 5.0}}}
    both = resolved(s.model_dump(exclude_none=True) | trial)
    of_seconds, of_hours = in_memory(tmp_path / "both", both).caveats()
    assert "a budget of views makes it exact" in of_seconds
    assert of_hours == caveat
    counted = {"trial": {"dataset": "digits", "budget": {"epochs": 9}}}
    plain = resolved(study().model_dump(exclude_none=True) | counted)
    assert in_memory(tmp_path / "plain", plain).caveats() == []


class TestSeveralMetrics:
    """`metric: [val/knn_top1, views]`: the first decides, both are learnt from."""

    METRICS: ClassVar = [METRIC, "views"]

    def several(self, **changes) -> Study:
        return study(**{"metric": self.METRICS, "early_stopping": "none", "trials": 20} | changes)

    @staticmethod
    def play(source: SearchSource, **options) -> None:
        """As `play`, with a cost that rises with the number of positives and the temperature."""

        def views(job: Job, epoch: int) -> float:
            return epoch * (100.0 * (1 + job.config["num_positives"]) + job.config["temperature"])

        play(source, costs={"views": views}, **options)

    def trials(self, folder: Path, arm: str = "a") -> list[optuna.trial.FrozenTrial]:
        storage = f"sqlite:///{folder / 'search.db'}"
        return optuna.load_study(study_name=f"s/{arm}", storage=storage).trials

    @pytest.mark.slow
    def test_optuna_is_told_all_figures_and_their_directions(self, tmp_path):
        source = source_in(tmp_path, self.several(trials=3))
        self.play(source)
        storage = f"sqlite:///{tmp_path / 'search.db'}"
        told = optuna.load_study(study_name="s/a", storage=storage)
        assert [d.name for d in told.directions] == ["MAXIMIZE", "MINIMIZE"]
        for trial, ending in zip(told.trials, endings(source)[:3], strict=True):
            assert trial.values == [ending.last(METRIC), ending.last("views")]

    @pytest.mark.slow
    def test_the_first_metric_decides_who_wins(self, tmp_path):
        source = in_memory(tmp_path, self.several())
        self.play(source)
        best = max((e for e in endings(source) if e.job.arm == "a"), key=lambda e: e.last(METRIC))
        assert source.winners()["a"] == best.job.drawn

    def test_a_cost_that_was_not_recorded_is_no_result(self, tmp_path):
        source = in_memory(tmp_path, self.several(trials=2))
        play(source)  # no views
        assert source.winners() == {"a": None, "b": None}

    @pytest.mark.slow
    @pytest.mark.parametrize(("sampler", "trials"), [("tpe", 40), ("gp", 20), ("nsga2", 40)])
    def test_samplers_that_learn_learn_from_the_cost(self, tmp_path, sampler: str, trials: int):
        """All trials are equally good here: only the cost is left to go by."""
        s = self.several(arms={"a": {"loss": "contrastive"}}, trials=trials, sampler=sampler)
        source = in_memory(tmp_path, s)
        play(
            source,
            score=lambda job, epoch: 0.5,
            costs={"views": lambda job, epoch: epoch * job.config["temperature"]},
        )
        tried = [e.job.drawn["temperature"] for e in endings(source)]
        drawn = trials // 4  # at random, before there is anything to learn from
        assert np.mean(tried[-drawn:]) < 0.7 * np.mean(tried[:drawn])

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("after", "sampler"),
        [(12, "tpe"), (9, "nsga2"), (12, "gp"), (9, "qmc")],
    )
    def test_a_killed_search_goes_on_as_if_nothing_had_happened(self, tmp_path, sampler, after):
        s = self.several(sampler=sampler, trials=8)  # of which four of an arm are at random
        whole = in_memory(tmp_path / "whole", s)
        self.play(whole)
        with pytest.raises(Interrupted):
            self.play(source_in(tmp_path / "killed", s), jobs=after)
        resumed = source_in(tmp_path / "killed", s)
        self.play(resumed)
        assert shape(resumed) == shape(whole)
        assert resumed.winners() == whole.winners()

    def test_a_front_is_what_nothing_dominates(self, tmp_path):
        """Against Optuna's own, on figures with many ties."""
        rng = np.random.default_rng(0)
        figures = rng.integers(0, 5, size=(40, 2)) / 4
        figures[:, 1] += 2 * figures[:, 0]  # what is better costs more
        s = self.several(trials=40)
        both = optuna.create_study(directions=["maximize", "minimize"])
        ended = []
        job = in_memory(tmp_path, s).next()
        for number, (quality, cost) in enumerate(figures):
            both.add_trial(optuna.trial.create_trial(values=[quality, cost]))
            record = Record(9, {METRIC: float(quality), "views": float(cost)}, {})
            ended.append(Ending(dataclasses.replace(job, number=number), "finished", (record,)))
        worst = Record(9, {METRIC: 2.0, "views": 0.0}, {})
        ended.append(Ending(dataclasses.replace(job, number=40), "stopped", (worst,)))
        found = {ending.job.number: values for ending, values in front(ended, s)}
        assert found == {t.number: tuple(t.values) for t in both.best_trials}
        assert len(set(found.values())) > 1

    def test_costs_are_totals_and_accuracies_are_smoothed(self, tmp_path):
        s = self.several(smooth_epochs=2)
        job = in_memory(tmp_path, s).next()
        records = [Record(e, {METRIC: 0.1 * e, "views": 10.0 * e}, {}) for e in range(5)]
        assert judged(Ending(job, "finished", tuple(records)), s) == [
            pytest.approx(0.35), 40.0,
        ]  # fmt: skip

    def test_measured_seconds_make_what_is_drawn_a_matter_of_timing(self, tmp_path):
        s = self.several(metric=[METRIC, "seconds"])
        (caveat,) = in_memory(tmp_path / "tpe", s).caveats()
        assert "what the search draws depends on measured seconds" in caveat
        s = self.several(metric=[METRIC, "seconds"], sampler="random")
        assert in_memory(tmp_path / "random", s).caveats() == []


class TestNsga2:
    """Generations that fit a search of few trials, and the same ones after a restart."""

    @pytest.mark.slow
    def test_it_breeds_from_the_best_of_earlier_generations(self, tmp_path):
        """Children take their values from their parents, which no random draw does."""
        s = study(trials=40, sampler="nsga2", early_stopping="none")
        source = in_memory(tmp_path, s)
        play(source)
        tried = [e.job.drawn["temperature"] for e in endings(source) if e.job.arm == "a"]
        first, later = tried[:10], tried[10:]
        assert len(set(first)) == 10
        assert sum(value in tried[: 10 + i] for i, value in enumerate(later)) > len(later) / 3
        distance = [abs(np.log(value / 0.3)) for value in tried]
        assert np.mean(distance[-10:]) < np.mean(distance[:10])

    @pytest.mark.slow
    @pytest.mark.parametrize("after", [9])
    def test_a_killed_search_goes_on_as_if_nothing_had_happened(self, tmp_path, after: int):
        s = study(trials=8, sampler="nsga2")  # with early stopping: one metric
        whole = in_memory(tmp_path / "whole", s)
        play(whole)
        with pytest.raises(Interrupted):
            play(source_in(tmp_path / "killed", s), jobs=after)
        resumed = source_in(tmp_path / "killed", s)
        play(resumed)
        assert shape(resumed) == shape(whole)


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["median", "wilcoxon"])
def test_the_other_rules_stop_some_and_never_the_declared_ones(tmp_path, rule: str):
    first = [{"temperature": 1.0, "num_positives": 1}]
    stopping = {"rule": rule, "grace_epochs": 2, "reduction_factor": 2}
    s = study(trials=12, epochs=12, first=first, early_stopping=stopping)
    source = in_memory(tmp_path, s)
    play(source)
    found = [(e.outcome, e.epochs) for e in endings(source) if e.job.arm == "a"]
    assert found[0] == ("finished", 12)
    stopped = [epochs for outcome, epochs in found if outcome == "stopped"]
    assert stopped
    assert min(stopped) >= 2


@pytest.mark.slow
def test_a_budget_of_epochs_ends_an_arm(tmp_path):
    source = in_memory(tmp_path, study(trials=50, budget={"epochs": 40}))
    play(source)
    for arm in "ab":
        epochs = [e.epochs for e in endings(source) if e.job.arm == arm]
        assert 40 <= sum(epochs) < 40 + 9
        assert sum(epochs[:-1]) < 40


def test_smoothing_judges_by_the_mean_of_the_last_epochs(tmp_path):
    def score(job: Job, epoch: int) -> float:
        lucky = 0.8 if epoch == 9 else 0.1
        return lucky if job.number == 1 else 0.5

    for smooth, best in ((1, 1), (3, 0)):
        s = study(trials=2, early_stopping="none", smooth_epochs=smooth)
        source = in_memory(tmp_path / str(smooth), s)
        play(source, score=score)
        drawn = {e.job.number: e.job.drawn for e in endings(source) if e.job.arm == "a"}
        assert source.winners()["a"] == drawn[best]


def test_rechecks_on_further_seeds_can_change_the_winner(tmp_path):
    def score(job: Job, epoch: int) -> float:
        return {0: 0.70, 1: 0.68, 2: 0.3}[job.number]

    s = study(trials=3, early_stopping="none", rechecks={"top": 2, "seeds": [7, 8]})
    source = in_memory(tmp_path, s)
    play(source, score=score)
    jobs = source.recheck_jobs()
    assert [(j.seed, j.arm, j.number) for j in jobs] == [
        (seed, arm, number) for seed in (7, 8) for arm in "ab" for number in (0, 1)
    ]
    ledger = Ledger(tmp_path)
    for job in jobs:
        value = 0.6 if job.number == 0 else 0.65
        ledger.write(Ending(job, "finished", (Record(9, {METRIC: value}, {}),)))
    drawn = {e.job.number: e.job.drawn for e in endings(source) if e.job.arm == "a"}
    assert source.winners()["a"] == drawn[1]


def test_a_trial_that_fails_its_recheck_does_not_win(tmp_path):
    s = study(trials=2, early_stopping="none", rechecks={"top": 2, "seeds": [7]})
    source = in_memory(tmp_path, s)
    play(source, score=lambda job, epoch: 0.9 - 0.1 * job.number)
    ledger = Ledger(tmp_path)
    for job in source.recheck_jobs():
        outcome = "diverged" if job.number == 0 else "finished"
        ledger.write(Ending(job, outcome, (Record(9, {METRIC: 0.5}, {}),)))
    drawn = {e.job.number: e.job.drawn for e in endings(source) if e.job.arm == "a"}
    assert source.winners()["a"] == drawn[1]


def test_too_many_failures_pause_the_study_with_the_reason(tmp_path):
    source = in_memory(tmp_path, study(max_failures=1))
    told = None
    for _ in range(4):
        job = source.next()
        try:
            source.on_end(Ending(job, "failed", (), "Traceback\nKeyError: 'colour'"))
        except Paused as paused:
            told = str(paused)
            break
    assert "2 trials of a have failed" in told
    assert "KeyError: 'colour'" in told
    assert "--resume --set search.max_failures=4" in told


@pytest.mark.slow
class TestLower:
    """A metric that is better when lower, negated, decides as the metric that is better higher."""

    FUNCTION = (
        "def train(run, *, temperature: float = 0.5, num_positives: int = 1, epochs: int = 9):\n"
        "    ...\n"
    )

    @pytest.fixture
    def both(self, tmp_path):
        """Searches of one study for the larger figures, and for the smaller of their negatives."""
        (tmp_path / "my_curves.py").write_text(self.FUNCTION)

        def of(better: str, **search) -> SearchSource:
            metric = {"better": better}
            cost = {"better": "lower", "kind": "cost"}
            data = study(arms={"a": {}, "b": {}}, **search).model_dump(
                exclude={"workload", "metrics", "beside", "confirm"}, exclude_none=True
            )
            for dimension in data["search"]["space"].values():
                dimension.pop("when")
            data |= {
                "workload": "my_curves:train",
                "trial": {"epochs": data["trial"]["epochs"]},
                "metrics": {METRIC: metric, "test/knn_top1": metric, "views": cost},
                "confirm": {"seeds": 2},
            }
            return in_memory(tmp_path / better, resolved(data, tmp_path))

        return lambda **search: (of("higher", **search), of("lower", **search))

    @staticmethod
    def play_both(higher: SearchSource, lower: SearchSource, score=curve, **options) -> None:
        play(higher, score=score, **options)
        play(lower, score=lambda job, epoch: -score(job, epoch), **options)

    @pytest.mark.parametrize("sampler", first_quick(["tpe", "gp", "nsga2"]))
    def test_the_same_is_drawn_stopped_and_chosen(self, both, sampler: str):
        higher, lower = both(sampler=sampler, trials=12)
        self.play_both(higher, lower)
        assert shape(lower) == shape(higher)
        assert {"stopped", "finished"} == {outcome for _, _, outcome, _ in shape(lower)}
        assert lower.winners() == higher.winners()
        best = min(
            (e for e in endings(lower) if e.outcome == "finished" and e.job.arm == "a"),
            key=lambda e: e.last(METRIC),
        )
        assert lower.winners()["a"] == best.job.drawn

    @pytest.mark.parametrize("rule", first_quick(["asha", "median", "wilcoxon"]))
    def test_the_same_trials_are_stopped_by_every_rule(self, both, rule: str):
        stopping = {"rule": rule, "grace_epochs": 2, "reduction_factor": 2}
        higher, lower = both(trials=12, sampler="random", early_stopping=stopping)
        self.play_both(higher, lower)
        assert shape(lower) == shape(higher)
        assert "stopped" in {outcome for _, _, outcome, _ in shape(lower)}

    def test_the_same_trials_are_rechecked_and_the_same_one_wins(self, both):
        again = {"top": 2, "seeds": [7, 8]}
        sources = both(trials=3, early_stopping="none", rechecks=again)
        self.play_both(*sources, score=lambda job, epoch: {0: 0.70, 1: 0.68, 2: 0.3}[job.number])
        for sign, source in zip((1, -1), sources, strict=True):
            jobs = source.recheck_jobs()
            assert {job.number for job in jobs} == {0, 1}
            for job in jobs:
                value = sign * (0.6 if job.number == 0 else 0.65)
                source._ledger.write(Ending(job, "finished", (Record(9, {METRIC: value}, {}),)))
            drawn = {e.job.number: e.job.drawn for e in endings(source) if e.job.arm == "a"}
            assert source.winners()["a"] == drawn[1]

    def test_a_recheck_that_failed_does_not_win_by_having_no_figure(self, both):
        _, source = both(trials=2, early_stopping="none", rechecks={"top": 2, "seeds": [7]})
        play(source, score=lambda job, epoch: 0.1 + 0.1 * job.number)
        for job in source.recheck_jobs():
            outcome = "diverged" if job.number == 0 else "finished"
            source._ledger.write(Ending(job, outcome, (Record(9, {METRIC: 0.5}, {}),)))
        drawn = {e.job.number: e.job.drawn for e in endings(source) if e.job.arm == "a"}
        assert source.winners()["a"] == drawn[1]

    @pytest.mark.slow
    def test_the_same_trials_are_on_the_front(self, both):
        higher, lower = both(
            trials=16, early_stopping="none", sampler="random", metric=[METRIC, "views"]
        )
        costs = {"views": lambda job, epoch: epoch * round(10 * job.config["temperature"])}
        self.play_both(higher, lower, costs=costs)
        fronts = []
        for source in (higher, lower):
            own = [e for e in endings(source) if e.job.arm == "a"]
            fronts.append([(e.job.number, *values) for e, values in front(own, source._study)])
        assert [(number, -score, cost) for number, score, cost in fronts[0]] == fronts[1]
        assert len(fronts[1]) > 1
        assert lower.winners() == higher.winners()
        assert lower.winners()["a"] == next(
            e.job.drawn for e in endings(lower) if e.job.number == fronts[1][0][0]
        )

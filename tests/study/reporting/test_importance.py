"""Does the importance of settings find what decided, and say so where it cannot?"""

from __future__ import annotations

import optuna
import pytest
from optuna.distributions import FloatDistribution

from contrastive.workload import WORKLOAD
from study.design.search_space import SearchSpace
from study.design.study import Parameter
from study.records.job import Job, Record
from study.records.ledger import Ending, Ledger
from study.reporting.importance import importance, importances
from study.spec.find_workload import resolved

METRIC = "val/knn_top1"
DIMENSIONS = {
    "temperature": Parameter(low=0.1, high=1.0),
    "learning_rate": Parameter(low=0.001, high=0.02),
}


def space(**more: Parameter) -> SearchSpace:
    return SearchSpace(DIMENSIONS | more, fixed={}, workload=WORKLOAD)


SPACE = space()
TEMPERATURE = SearchSpace({"temperature": DIMENSIONS["temperature"]}, fixed={}, workload=WORKLOAD)


def ending(number: int, drawn: dict, curve: list[float], outcome: str = "finished") -> Ending:
    job = Job("search", "a", "default", 0, number, {"epochs": 4}, "f", "d", drawn=drawn)
    records = tuple(Record(e, {METRIC: value}, {}) for e, value in enumerate(curve))
    return Ending(job, outcome, records)


def drawn(number: int) -> dict:
    """Temperatures go up with the number; learning rates know nothing of it."""
    return {
        "temperature": 0.1 + 0.9 * number / 19,
        "learning_rate": 0.001 + (number * 7 % 20) / 1000,
    }


def planted(count: int = 20) -> list[Ending]:
    """The temperature decides; the odd trials were stopped after epoch 2 of 4."""
    found = []
    for number in range(count):
        curve = [0.0, *(number / 100 + e / 1000 for e in range(1, 5))]
        stopped = number % 2 == 1
        found.append(ending(number, drawn(number), curve[: 3 if stopped else 5],
                            "stopped" if stopped else "finished"))  # fmt: skip
    return found


def test_the_setting_that_decides_comes_first_and_beats_shuffled_scores():
    found = importance(SPACE, planted(), metric=METRIC)
    first, second = found["settings"]
    assert (found["trials"], found["top"], found["epoch"], found["reason"]) == (20, 5, 2, None)
    assert first["setting"] == "temperature"
    assert first["importance"] > 0.8
    assert first["importance"] + second["importance"] == pytest.approx(1)
    assert first["low"] <= first["importance"] <= first["high"]
    assert first["p_shuffled"] == 0.01  # 1 of 100: no shuffle reaches it
    assert second["p_shuffled"] > 0.05


def test_the_number_is_optunas():
    study = optuna.create_study(direction="maximize")
    spaces = {n: FloatDistribution(p.low, p.high) for n, p in SPACE.items()}
    for number in range(20):
        study.add_trial(optuna.create_trial(params=drawn(number), distributions=spaces,
                                            value=number / 100))  # fmt: skip
    evaluator = optuna.importance.PedAnovaImportanceEvaluator(target_quantile=5 / 20)
    theirs = optuna.importance.get_param_importances(study, evaluator=evaluator)
    ours = {
        r["setting"]: r["importance"]
        for r in importance(SPACE, planted(), metric=METRIC)["settings"]
    }
    assert ours == pytest.approx(theirs)


def test_the_same_trials_give_the_same_numbers():
    assert importance(SPACE, planted(), metric=METRIC) == importance(
        SPACE, planted(), metric=METRIC
    )


def test_a_setting_that_some_trials_lack_is_judged_among_those_that_have_it():
    both = space(
        num_positives=Parameter(choices=[1, 2]),
        aggregation=Parameter(choices=["x", "y"], when={"num_positives": [2]}),
    )
    endings = []
    for number in range(24):
        several = number % 2
        own = drawn(number % 20) | {"num_positives": 1 + several}
        kind = "xy"[number // 2 % 2]
        if several:
            own["aggregation"] = kind
        score = 0.9 if several and kind == "y" else 0.1
        endings.append(ending(number, own, [0.0, score + number / 1000]))
    rows = {r["setting"]: r for r in importance(both, endings, metric=METRIC)["settings"]}
    assert set(rows) == set(both)
    assert rows["aggregation"]["importance"] > rows["learning_rate"]["importance"]
    assert rows["aggregation"]["p_shuffled"] <= 0.05


def test_a_diverged_trial_is_a_bad_one_and_a_failed_one_is_none():
    """High learning rates diverge: leaving those trials out would hide what decided."""
    endings = []
    for number in range(20):
        own = drawn(number)
        bad = own["learning_rate"] > 0.0155
        endings.append(ending(number, own, [0.0] if bad else [0.0, 0.5 + own["learning_rate"]],
                              "diverged" if bad else "finished"))  # fmt: skip
    failed = [ending(20, drawn(3), [], "failed")]
    found = importance(SPACE, endings + failed, metric=METRIC)
    assert found["trials"] == 20
    assert found["settings"][0]["setting"] == "learning_rate"
    without = importance(SPACE, [e for e in endings if e.outcome != "diverged"], metric=METRIC)
    assert found["settings"] != without["settings"]


@pytest.mark.parametrize(
    ("endings", "searched", "reason"),
    [
        ([], SPACE, "not in the study's folder"),
        (planted(9), SPACE, "9 trials can be judged; 10 are needed"),
        (planted(), TEMPERATURE, "fewer than two settings"),
        ([ending(i, drawn(i), [0.0, 0.5]) for i in range(12)], SPACE, "the same score"),
        ([ending(i, drawn(i), [0.0], "diverged") for i in range(12)], SPACE, "no epoch in common"),
        ([ending(i, drawn(i), [0.0] if i else [0.0, 0.5]) for i in range(12)], SPACE,
         "no epoch in common"),
    ],
)  # fmt: skip
def test_where_there_is_no_number_there_is_a_reason(endings, searched, reason):
    found = importance(searched, endings, metric=METRIC)
    assert found["settings"] == []
    assert reason in found["reason"]


def test_a_study_gives_each_arm_its_own_from_the_logged_trials(tmp_path):
    search = {"trials_per_arm": 20,
              "space": {n: p.model_dump(exclude_none=True) for n, p in SPACE.items()}}  # fmt: skip
    study = resolved({"name": "s", "arms": {"a": {}, "b": {}}, "search": search,
                                  "confirm": {"seeds": 2}})  # fmt: skip
    ledger = Ledger(tmp_path)
    for one in planted():
        ledger.write(one)
    found = importances(study, ledger)
    assert found["a"]["settings"][0]["setting"] == "temperature"
    assert "not in the study's folder" in found["b"]["reason"]
    assert importances(study.model_copy(update={"search": None}), ledger) == {}


@pytest.mark.slow
def test_a_metric_that_is_better_when_lower_gives_the_same_numbers_as_its_negative():
    def negated(one: Ending) -> Ending:
        records = tuple(Record(r.epoch, {METRIC: -r.metrics[METRIC]}, {}) for r in one.records)
        return Ending(one.job, one.outcome, records)

    diverged = ending(20, {"temperature": 0.9, "learning_rate": 0.02}, [0.0], "diverged")
    higher = importance(SPACE, [*planted(), diverged], metric=METRIC)
    mirrored = [*map(negated, planted()), diverged]
    assert importance(SPACE, mirrored, metric=METRIC, better="lower") == higher
    assert importance(SPACE, mirrored, metric=METRIC) != higher

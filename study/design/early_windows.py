"""Early windows on the test split: the epochs that a run of the confirmation must keep."""

from __future__ import annotations

from analysis.inputs import parse_metric, read_plan
from study.design.arms import arms_of
from study.design.study import Study

ON_TEST = "test/"


def epochs_on_test(study: Study) -> dict[tuple[str, str], dict[str, list[int]]]:
    """By arm and condition, the epochs of each test metric that claims about them need.

    They are the evaluated epochs within the claims' windows. The test split is read once, after
    the last epoch, by the models kept from them.

    Example:
        with `metric: "auc(test/knn_top1, epochs 1-2)"` of b against a:
        `{("a", "clean"): {"test/knn_top1": [1, 2]}, ("b", "clean"): {"test/knn_top1": [1, 2]}}`
    """
    parsed = [parse_metric(claim["metric"]) for claim in study.claims]
    if not any(m and m.window and m.base.startswith(ON_TEST) for m in parsed):
        return {}
    found: dict[tuple[str, str], dict[str, set[int]]] = {}
    for claim in read_plan(study.declared()).claims:
        metric = claim.metric
        if metric.window is None or not metric.base.startswith(ON_TEST):
            continue
        for arm in (claim.a, claim.b):
            for condition in claim.conditions:
                every = study.trains.measured_every(arms_of(study)[arm].settings[condition])
                epochs = range(metric.window[0], metric.window[1] + 1)
                needed = found.setdefault((arm, condition), {}).setdefault(metric.base, set())
                needed.update(epoch for epoch in epochs if epoch % every == 0)
    return {
        at: {metric: sorted(epochs) for metric, epochs in needed.items()}
        for at, needed in found.items()
    }

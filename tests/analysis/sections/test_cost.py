"""FLOPs are a cost and not a result; a budget of views is an equal contest."""

from __future__ import annotations

import json

import pandas as pd

from analysis.figures.cost import trade_off
from analysis.report import analyse
from analysis.sections.ledger import budget_warnings, ledger
from analysis.tables.table import cost


def runs(budgets: dict[str, dict | None]) -> pd.DataFrame:
    return pd.DataFrame(
        {"phase": "confirm", "arm": arm, "condition": "default", "seed": seed, "trial": None,
         "status": "finished", "epochs": epochs, "planned_epochs": epochs, "seconds": 1.0,
         "config": json.dumps({"budget": budget})}
        for (arm, budget), epochs in zip(budgets.items(), (8, 3), strict=True)
        for seed in (1, 2)
    )  # fmt: skip


def test_equal_views_are_equal_budgets_though_epochs_differ():
    views = {"views": 3000}
    assert budget_warnings(ledger(runs({"one": views, "four": views}))) == []
    told = budget_warnings(ledger(runs({"one": None, "four": None})))
    assert any("planned confirmation epochs" in line for line in told)
    mixed = budget_warnings(ledger(runs({"one": views, "four": None})))
    assert any("planned confirmation epochs" in line for line in mixed)
    without = ledger(runs({"one": views, "four": views}).drop(columns="config"))
    assert len(budget_warnings(without)) == len(told)


def costly(seconds: dict[str, list[float]], views: dict[str, float]) -> dict:
    """A report on two arms whose runs took so many seconds and views."""
    rows = [
        (arm, seed, epoch, metric, value)
        for arm in "ab"
        for seed, spent in enumerate(seconds[arm])
        for epoch, metric, value in (
            (1, "seconds", spent), (1, "views", views[arm]), (None, "test/acc", 0.5 + 0.01 * seed),
        )
    ]  # fmt: skip
    frame = pd.DataFrame(rows, columns=["arm", "seed", "epoch", "metric", "value"])
    return analyse(frame, better="higher")


def test_the_trade_off_is_drawn_only_where_costs_differ_by_more_than_noise():
    noisy = {"a": [10.0, 14.0, 12.0, 9.0], "b": [15.0, 12.0, 13.0, 14.0]}
    same, apart = {"a": 100.0, "b": 100.0}, {"a": 100.0, "b": 200.0}
    clear = {"a": [10.0, 10.1, 10.2, 10.0], "b": [13.0, 13.1, 13.2, 13.0]}
    close = {"a": [10.0, 10.1, 10.2, 10.0], "b": [10.4, 10.5, 10.4, 10.5]}
    for seconds, views, differs in (
        (noisy, same, None), (close, same, None), (clear, same, "seconds"), (noisy, apart, "views"),
    ):  # fmt: skip
        report = costly(seconds, views)
        assert report["cost"]["differs"] == differs
        figure = trade_off(report)
        assert (figure is None) == (differs is None)
        assert figure is None or f"against {differs}" in figure.title


def test_flops_are_a_cost_beside_views(tmp_path):
    rows = [
        (arm, "default", seed, epoch, metric, value)
        for arm, per_epoch in (("a", 1e12), ("b", 2.5e12))
        for seed in range(1, 7)
        for epoch in (0, 1, 2)
        for metric, value in (
            ("val/knn_top1", 0.1 * epoch + 0.01 * seed), ("flops", per_epoch * epoch),
            ("views", 100.0 * epoch),
        )
    ] + [(arm, "default", seed, None, "test/knn_top1", 0.5 + 0.01 * seed)
         for arm in "ab" for seed in range(1, 7)]  # fmt: skip
    file = tmp_path / "results.csv"
    columns = ["arm", "condition", "seed", "epoch", "metric", "value"]
    pd.DataFrame(rows, columns=columns).to_csv(file, index=False)
    report = analyse(file)
    spent = {r["arm"]: r["cost"] for r in report["cost"]["trade_off"] if r["cost_unit"] == "flops"}
    assert spent == {"a": 2e12, "b": 5e12}
    assert "flops" not in str(report["curves"])
    assert cost(5e12) == "5.00e+12"

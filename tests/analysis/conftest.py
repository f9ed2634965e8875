"""A small study with everything in it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest


@pytest.fixture(scope="session")
def study() -> dict:
    """A small study with everything in it: results, runs, plan, provenance."""
    rng = np.random.default_rng(5)
    arms, conditions, seeds, epochs = ("plain", "better"), ("clean", "blurred"), range(100, 108), 6
    rows, runs = [], []
    for seed in seeds:
        shared = rng.normal(0, 0.01)
        for hurt, condition in enumerate(conditions):
            for i, arm in enumerate(arms):
                end = 0.6 + 0.05 * i - 0.08 * hurt * (1 - 0.5 * i) + shared + rng.normal(0, 0.004)

                def add(metric, score, epoch=None, arm=arm, condition=condition, seed=seed):
                    correct = round(score * 500)
                    row = (arm, condition, seed, epoch, metric, correct / 500, correct, 500)
                    rows.append(row)

                add("test/knn_top1", end)
                add("test/untrained_knn_top1", 0.3 + shared)
                for epoch in range(epochs + 1):
                    add("val/knn_top1", 0.3 + (end - 0.3) * (1 - np.exp(-epoch * (1 + i))), epoch)
                    rows.append((arm, condition, seed, epoch, "seconds", epoch * 2.0, None, None))
                runs.append(("confirm", arm, condition, seed, None, "finished", epochs, epochs,
                             12.0, None, "{}", f"run{len(runs)}", ""))  # fmt: skip
    for arm in arms:
        for trial in range(10):
            config = f'{{"temperature": {0.1 + 0.05 * trial}, "loss": "{arm}"}}'
            status, spent = ("stopped", 2) if trial % 5 == 4 else ("finished", epochs)
            runs.append(("search", arm, "clean", trial, trial, status, spent, epochs, 2.0 * spent,
                         0.5 + 0.01 * trial, config, f"trial{trial}", ""))  # fmt: skip
    names = ["arm", "condition", "seed", "epoch", "metric", "value", "correct", "total"]
    return {
        "results": pd.DataFrame(rows, columns=names),
        "runs": pd.DataFrame(runs, columns=[
            "phase", "arm", "condition", "seed", "trial", "status", "epochs", "planned_epochs",
            "seconds", "value", "config", "mlflow_run_id", "failure"]),
        "plan": {
            "name": "small", "question": "Is better better?", "hash": "0123abcd",
            "trial": {"epochs": epochs},
            "arms": {arm: {"loss": arm} for arm in arms},
            "conditions": {c: {} for c in conditions},
            "search": {"under": "clean", "metric": "val/knn_top1"},
            "confirm": {"seeds": list(seeds), "metrics": ["test/knn_top1"]},
            "claims": [
                {"id": "F1", "better": "better", "than": "plain", "metric": "test/knn_top1"},
                {"id": "F2", "better": "better", "than": "plain", "under": "clean",
                 "metric": "auc(val/knn_top1, epochs 1-2)"},
                {"id": "F3", "less_hurt": "better", "than": "plain", "metric": "test/knn_top1",
                 "from": "clean", "to": "blurred"},
            ],
            "margin": 0.005, "chance": 0.1,
        },
        "provenance": {"commands": ["python -m study.run"], "hardware": "2 cores", "looks": [],
                       "mlflow": {"experiment": "7", "url": "http://127.0.0.1:5000"}},
    }  # fmt: skip

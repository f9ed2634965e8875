"""All tables of a report, in reading order.

One definition serves HTML, Markdown, LaTeX (text cells) and CSV (raw values).
"""

from __future__ import annotations

from typing import Any

from analysis.tables.comparisons import comparisons, effects, other_tests, published, robustness
from analysis.tables.cost import time_to, trade_off
from analysis.tables.curves import epochs_apart
from analysis.tables.ledger import ledger, runs
from analysis.tables.scores import arms, dropped, omnibus, seeds, training
from analysis.tables.search import importance, search, winners
from analysis.tables.table import Table


def tables(report: dict[str, Any]) -> list[Table]:
    """Every table that the report has rows for, in reading order."""
    declared = [c for c in report["comparisons"] if c["declared"]]
    others = [c for c in report["comparisons"] if not c["declared"]]
    every_seed = seeds(report["arms"], report["design"]["arms"], report["runs"])
    seeds_at = {t.raw[0]["metric"]: f"#table-{t.name}" for t in reversed(every_seed)}
    found = [
        comparisons("comparisons", "Declared comparisons", declared),
        published(report["published"]),
        comparisons("exploratory", "All other pairs of arms (exploratory)", others),
        effects(report["comparisons"]),
        other_tests(report["comparisons"]),
        arms(report["arms"], seeds_at),
        *every_seed,
        training(report["training_helps"]),
        trade_off(report["cost"]["trade_off"], report["cost"]["metric"]),
        time_to(report["cost"]["time_to"]),
        epochs_apart(report["curves"]),
        ledger(report["ledger"]),
        search(report["search"]),
        winners(report["search"]),
        importance(report["search"]),
        *robustness(report["robustness"]),
        omnibus(report["omnibus"]),
        dropped(report),
        runs(report["runs"], (report["provenance"] or {}).get("mlflow")),
    ]
    return [table for table in found if table.rows]

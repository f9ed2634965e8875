"""Does --verify find what was changed in a search, and accuse nobody else?"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from study.design.study import Study
from study.phases.search import SearchSource
from study.records.job import Record
from study.records.ledger import Ending, Ledger
from study.reporting.tables import write_tables
from study.reporting.verify import _pareto, _search
from study.spec.find_workload import resolved
from study.storage.folder import Folder


def study(**changes: object) -> Study:
    search = {"trials_per_arm": 3, "space": {"temperature": {"low": 0.1, "high": 1.0}}}
    return resolved(
        {
            "name": "v",
            "trial": {"dataset": "digits", "epochs": 6},
            "arms": {"a": {"loss": "contrastive"}, "b": {"loss": "debiased_pos"}},
            "search": search | {"metric": ["val/knn_top1", "views"], "sampler": "random"},
            "confirm": {"seeds": 2},
        }
        | changes
    )


def searched(folder: Path, s: Study, told_before: int = 0) -> Folder:
    """A search's folder; of each trial epochs 0 to 3, and more told by a worker that was lost."""
    source = SearchSource(s, folder, Ledger(folder), slots=1)
    while (job := source.next()) is not None:
        quality = job.config["temperature"]
        records = [
            Record(e, {"val/knn_top1": quality * e / 10, "views": 100.0 * e}, {}) for e in range(7)
        ]
        source.on_records(job, records[: max(4, told_before)])
        last = Record(3, {"val/knn_top1": quality, "views": 250.0}, {})
        source.on_end(Ending(job, "finished", (*records[:3], last)))
    Folder(folder).freeze(source.winners())
    write_tables(Folder(folder), s, {})
    return Folder(folder)


def found(folder: Folder, s: Study) -> list[str]:
    winners = SearchSource(s, folder.path, Ledger(folder.path), slots=1).winners()
    return [*_pareto(folder, s, [(s, winners)]), *_search(folder, s)]


def change(folder: Folder, metric: str, value: float) -> None:
    """The last figure of arm a's second trial."""
    file = folder.path / "runs" / "search" / "a" / "0001.json"
    data = json.loads(file.read_text())
    data["records"][-1]["metrics"][metric] = value
    del data["sha256"]  # else `breaks` names the file, and it is passed over
    file.write_text(json.dumps(data))


@pytest.mark.slow
@pytest.mark.parametrize(("metric", "value"), [("val/knn_top1", 2.0), ("views", 1.0)])
def test_a_changed_figure_of_a_trial_with_several_metrics_is_found(tmp_path, metric, value):
    s = study()
    folder = searched(tmp_path, s)
    assert found(folder, s) == []
    change(folder, metric, value)
    told = found(folder, s)
    judged = [line for line in told if line.startswith("search/a/0001: was judged by val/knn_top1")]
    assert len(judged) == 1
    assert str(value) in judged[0].partition(", but as ")[0]
    assert any(line.startswith("pareto.csv") for line in told)  # it is on the front now


def test_a_changed_front_is_found(tmp_path):
    s = study()
    folder = searched(tmp_path, s)
    file = tmp_path / "pareto.csv"
    text = file.read_text()
    file.write_text(text.replace("250.0", "240.0", 1))
    assert found(folder, s) == ["pareto.csv:2: views is 240.0, but was logged as 250.0"]
    lines = text.splitlines(keepends=True)
    file.write_text("".join(lines[:-1]))
    assert len(found(folder, s)) == 1
    assert found(folder, s)[0].startswith("pareto.csv: lacks b ")
    file.unlink()
    assert found(folder, s) == ["pareto.csv: is missing"]


@pytest.mark.slow
def test_epochs_of_a_lost_worker_accuse_nobody_under_a_budget_of_seconds(tmp_path):
    """It told epochs 0 to 6; the one that took over ended, by the clock, in epoch 3."""
    one = study().search.model_copy(update={"metrics": ["val/knn_top1"]})
    s = study(search=one, trial={"dataset": "digits", "epochs": 9, "budget": {"seconds": 5.0}})
    folder = searched(tmp_path, s, told_before=7)
    assert found(folder, s) == []
    change(folder, "val/knn_top1", 2.0)
    told = found(folder, s)
    assert len(told) == 1
    assert told[0].startswith("search/a/0001: was judged by val/knn_top1 as [2.0], but as [")

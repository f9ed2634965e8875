"""What does a study of thousands of trials cost its driver? `python benchmarks/scale.py`

Trainings are replaced by synthetic curves and a sleep; queue, samplers, halving, ledger, Ray and
tables are the real ones. Three parts: 2,000 trials on eight pretended GPUs of two Ray nodes on
this machine, a search over 200 arms, and 10,000 confirmation runs in the tables. Costs are compared
between the first and the last tenth of the trials: a cost that grows with the history would show
there.
"""

from __future__ import annotations

from study.environment import quieten

quieten()

import argparse  # noqa: E402
import math  # noqa: E402
import os  # noqa: E402
import tempfile  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable, Mapping  # noqa: E402
from itertools import pairwise  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

from study.design import Study  # noqa: E402
from study.records import (  # noqa: E402
    RESULT_COLUMNS,
    RUN_COLUMNS,
    Ending,
    Ledger,
    result_rows,
    run_row,
    write_table,
)
from study.spec import resolved  # noqa: E402

EPOCHS, METRIC = 9, "val/knn_top1"
NODES, GPUS = 2, 8
SECONDS = "SCALE_SECONDS"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of everything")
    parser.add_argument("--trials", type=int, help="of the first part (2000)")
    parser.add_argument(
        "--seconds", type=float, default=2.0, help="of a trial that runs to its last epoch (2)"
    )
    parser.add_argument(
        "--parts", nargs="+", choices=list(PARTS), default=list(PARTS), help="which (all)"
    )
    args = parser.parse_args()
    scale = 10 if args.quick else 1
    os.environ[SECONDS] = str(args.seconds)  # workers inherit it
    sizes = {"gpus": args.trials or 2000 // scale, "arms": 200 // scale, "tables": 10_000 // scale}
    for part in args.parts:
        with tempfile.TemporaryDirectory() as folder:
            print(PARTS[part](Path(folder), sizes[part]), flush=True)


def on_pretended_gpus(folder: Path, trials: int) -> str:
    """A search of two arms through Ray Tune on two nodes."""
    import ray
    from ray.cluster_utils import Cluster

    from study.execution import Share, execute

    node = {"num_cpus": GPUS // NODES, "num_gpus": GPUS // NODES}
    cluster = Cluster(initialize_head=True, head_node_args=node)
    for _ in range(NODES - 1):
        cluster.add_node(**node)
    ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
    try:
        source = Timed(_search(folder, arms=2, trials=trials // 2, slots=GPUS))
        share = Share(cpus=1, gpus=1.0, slots=GPUS)
        began = time.perf_counter()
        execute(source, share=share, folder=folder, session="scale", retries=0, work=simulated)
        wall = time.perf_counter() - began
    finally:
        ray.shutdown()
        cluster.shutdown()
    return (
        f"{source.ended} trials, 2 arms, {GPUS} pretended GPUs on {NODES} nodes: {wall:.0f} s, "
        f"{1000 * wall / source.ended:.0f} ms each; slots busy {source.busy(GPUS):.1%} from the "
        f"first trial's start until the queue was empty\n{source.summary()}"
    )


def with_many_arms(folder: Path, arms: int) -> str:
    """A search without Ray: what the queue and Optuna cost by themselves."""
    from tests.in_process import execute_here

    began = time.perf_counter()
    source = Timed(_search(folder, arms=arms, trials=5, slots=8))
    opened = time.perf_counter() - began
    execute_here(source, work=immediate)
    began = time.perf_counter()
    _search(folder, arms=arms, trials=5, slots=8)
    again = time.perf_counter() - began
    return (
        f"{arms} arms, {source.ended} trials, without Ray: opened in {opened:.1f} s, "
        f"reopened when done in {again:.1f} s\n{source.summary()}"
    )


def in_tables(folder: Path, runs: int) -> str:
    """Writing, reading and tabulating the endings of a confirmation."""
    from study.phases import ConfirmSource, confirmation_jobs

    study = _study(arms=10, trials=1, seeds=runs // 10)
    jobs = confirmation_jobs(study, {arm: {} for arm in study.arms}, folder)
    ledger = Ledger(folder)
    steps = [("planned", time.perf_counter())]
    for job in jobs:
        ledger.write(Ending(job, "finished", tuple(_records(job.plain()))))
    steps.append(("ledger written", time.perf_counter()))
    endings = [(job, ledger.read(job.key)) for job in jobs]
    steps.append(("ledger read", time.perf_counter()))
    rows = (run_row(job, "planned", ending, METRIC, {}) for job, ending in endings)
    write_table(folder / "runs.csv", RUN_COLUMNS, rows)
    steps.append(("runs.csv", time.perf_counter()))
    write_table(folder / "results.csv", RESULT_COLUMNS, result_rows(e for _, e in endings))
    steps.append(("results.csv", time.perf_counter()))
    assert ConfirmSource(jobs, ledger, study.trains).remaining() == 0
    steps.append(("resumed", time.perf_counter()))
    took = [f"{name} {now - before:.1f} s" for (_, before), (name, now) in pairwise(steps)]
    return f"{len(jobs)} confirmation runs: {', '.join(took)}; driver {_memory():.0f} MB"


PARTS = {"gpus": on_pretended_gpus, "arms": with_many_arms, "tables": in_tables}


class Timed:
    """A source that notes how long each of its decisions takes."""

    def __init__(self, source: Any) -> None:
        self._source = source
        self.ended = 0
        self.intervals: list[tuple[float, float]] = []  # of the trials, by the workers' clocks
        self.emptied = math.inf
        self.decisions: list[tuple[int, float]] = []  # (trials ended before, seconds)
        self.endings: list[float] = []
        self.memory = [_memory()]

    def remaining(self) -> int:
        return self._timed(self._source.remaining)

    def next(self) -> Any:
        job = self._timed(self._source.next)
        if not self._source.remaining():
            self.emptied = min(self.emptied, time.time())
        return job

    def on_records(self, job: Any, records: Any) -> bool:
        return self._timed(self._source.on_records, job, records)

    def on_end(self, ending: Ending) -> None:
        self._timed(self._source.on_end, ending)
        self.ended += 1
        if ending.records:
            at = ending.records[-1].metrics
            self.intervals.append((at.get("began", 0.0), at.get("now", 0.0)))
        self.endings.append(time.perf_counter())
        if self.ended % 50 == 0:
            self.memory.append(_memory())

    def _timed(self, decide: Callable[..., Any], *args: Any) -> Any:
        began = time.perf_counter()
        try:
            return decide(*args)
        finally:
            self.decisions.append((self.ended, time.perf_counter() - began))

    def busy(self, slots: int) -> float:
        """The share of the slots' time in which a trial ran, while there were trials to start."""
        began = min(start for start, _ in self.intervals)
        worked = sum(min(end, self.emptied) - min(start, self.emptied)
                     for start, end in self.intervals)  # fmt: skip
        return worked / (slots * (self.emptied - began))

    def summary(self) -> str:
        """First and last tenth, side by side; the very first trials carry the start-up."""
        tenth = max(1, self.ended // 10)
        first, last = range(tenth, 2 * tenth), range(self.ended - tenth, self.ended)
        lines = []
        for name, cost in (("decisions", self._deciding), ("wall clock", self._wall)):
            at = [f"{1000 * cost(part):.0f} ms" for part in (first, last)]
            lines.append(
                f"  {name} per trial: {at[0]} for trials {first.start}-{first.stop}, "
                f"{at[1]} for {last.start}-{last.stop}"
            )
        slowest = max(seconds for _, seconds in self.decisions)
        lines.append(
            f"  slowest single decision {1000 * slowest:.0f} ms; "
            f"driver {self.memory[0]:.0f} MB at the start, {max(self.memory):.0f} MB at most"
        )
        return "\n".join(lines)

    def _deciding(self, part: range) -> float:
        return sum(seconds for ended, seconds in self.decisions if ended in part) / len(part)

    def _wall(self, part: range) -> float:
        return (self.endings[part.stop - 1] - self.endings[part.start - 1]) / len(part)


def simulated(data: Mapping[str, Any], report: Callable, *, threads: int = 1) -> None:
    """As `study.execution.worker.run_job`: reports at rungs and at the end, sleeps in between."""
    waiting, began = [], time.time()
    for record in _records(data):
        if record.epoch:
            time.sleep(float(os.environ[SECONDS]) / EPOCHS)
        record.metrics.update(began=began, now=time.time())
        waiting.append(record.plain())
        if record.epoch in data["decide_at"]:
            report({"records": waiting, "outcome": None, "failure": ""})
            waiting = []
    report({"records": waiting, "outcome": "finished", "failure": ""})


def immediate(data: Mapping[str, Any], report: Callable, *, threads: int = 1) -> None:
    """Without the sleep."""
    waiting = []
    for record in _records(data):
        waiting.append(record.plain())
        if record.epoch in data["decide_at"]:
            report({"records": waiting, "outcome": None, "failure": ""})
            waiting = []
    report({"records": waiting, "outcome": "finished", "failure": ""})


def _records(data: Mapping[str, Any]) -> list[Any]:
    """A curve that rises, the higher the nearer the temperature is to 0.3."""
    from study.records import Record

    distance = abs(math.log(data["config"]["temperature"] / 0.3)) + 0.01 * data["seed"] % 0.07
    return [
        Record(epoch, {METRIC: 0.9 - 0.2 * distance - 0.4 / (1 + epoch), "seconds": 1.0 * epoch},
               {METRIC: (450, 500)})
        for epoch in range(EPOCHS + 1)
    ]  # fmt: skip


def _search(folder: Path, *, arms: int, trials: int, slots: int) -> Any:
    from study.phases import SearchSource

    return SearchSource(_study(arms, trials, seeds=2), folder, Ledger(folder), slots=slots)


def _study(arms: int, trials: int, seeds: int) -> Study:
    search = {
        "trials_per_arm": trials,
        "space": {
            "temperature": {"low": 0.05, "high": 1.0, "log": True},
            "learning_rate": {"low": 1e-4, "high": 1e-2, "log": True},
        },
        "early_stopping": {"grace_epochs": 1, "reduction_factor": 3},
    }
    return resolved(
        {
            "name": "scale",
            "trial": {"dataset": "digits", "epochs": EPOCHS},
            "arms": {f"arm{number:03d}": {"loss": "contrastive"} for number in range(arms)},
            "search": search,
            "confirm": {"seeds": seeds},
        }
    )


def _memory() -> float:
    """Resident memory of this process in MB, on Linux."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


if __name__ == "__main__":
    main()

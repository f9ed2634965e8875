"""What share of its study's time does the table of other evaluations take?

    python benchmarks/robustness.py studies/pos

Computes the table of a study that kept features again, and compares its seconds with the
device-seconds of all trainings in `runs.csv`. Nothing else should run meanwhile.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import pandas as pd

from analysis.inputs import read_plan
from analysis.inputs.results_table import read_results
from analysis.inputs.runs_table import failures, read_runs, replicates_of
from analysis.report import KEPT
from analysis.representations import Kept, robustness
from analysis.verdicts import Rules, Scores, compare, contrasts_of_claims


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="of a study with confirm.keep: [features]")
    folder = parser.parse_args().folder
    plan, runs = read_plan(folder / "study.yaml"), read_runs(folder / "runs.csv")
    results = read_results(
        folder / "results.csv",
        metrics=plan.meanings,
        failures=failures(runs),
        replicates=replicates_of(runs),
    )
    scores = Scores(results, plan.seeds)
    rules = Rules(alpha=plan.alpha, margin=plan.margin, chance=None, metrics=plan.meanings)
    ids = [claim.id for claim in plan.claims]
    records = compare(scores, contrasts_of_claims(plan), rules, declared=True, ids=ids)
    started = time.perf_counter()
    found = robustness(Kept(folder / KEPT, results.replicates), scores, results, plan, records)
    seconds = time.perf_counter() - started
    if found is None:
        parser.error(f"{folder}: no run kept features, or there are no claims")
    for claim in found["claims"]:
        print(f"{claim['claim']}: holds in {claim['holds']} of {claim['choices']}")
    spent = float(pd.to_numeric(runs["seconds"]).sum())
    print(f"{seconds:.2f} s of {spent:.0f} device-seconds: {100 * seconds / spent:.2f} %")


if __name__ == "__main__":
    main()

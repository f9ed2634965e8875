"""Are false claims as rare, and intervals as wide, as the report promises?

Simulates A/A studies and studies with a known effect through the pipeline of a real report and
prints the table of docs/statistics.md, each rate with its Monte Carlo error.

    python -m benchmarks.calibration [--studies 2000] [--seed 1] [--only methods]
"""

from __future__ import annotations

import argparse
import time

from analysis.verdicts.calibration import (
    SCENARIOS,
    Luck,
    simulate,
    simulate_curves,
    simulate_methods,
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--studies", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=["methods"], help="one table alone")
    given = parser.parse_args()
    if given.only:
        _methods(given.studies, given.seed)
        return
    began = time.perf_counter()
    print(
        "| Studies simulated | False claims, family-wise | Coverage of 95 % intervals | Power |"
        " Power of the t test |"
    )
    print("|---|---:|---:|---:|---:|")
    for scenario in SCENARIOS:
        row = simulate(scenario, studies=given.studies, seed=given.seed)
        theory = "–" if row["power_theory"] is None else f"{row['power_theory']:.3f}"
        cells = [_cell(row, key) for key in ("false_claims", "coverage", "power")]
        print(f"| {scenario.name} | {' | '.join(cells)} | {theory} |", flush=True)
    print()
    _methods(given.studies, given.seed)
    print()
    print("| Curves simulated | Coverage of 95 % bands | Errors of max-T at .05 |")
    print("|---|---:|---:|")
    for seeds, epochs in ((6, 15), (8, 15), (8, 50), (12, 15)):
        row = simulate_curves(seeds=seeds, epochs=epochs, studies=given.studies, seed=given.seed)
        cells = [_cell(row, key) for key in ("band_coverage", "max_t_errors")]
        print(f"| {row['scenario']} | {' | '.join(cells)} |", flush=True)
    print(
        f"\n{given.studies} studies per row, seed {given.seed}, in square brackets the exact 95 %"
        f" interval of the Monte Carlo error; {time.perf_counter() - began:.0f} s on one core."
    )


def _methods(studies: int, seed: int) -> None:
    """Replicates beside seeds of one search, as the luck of the search grows."""
    print(
        "| Luck of the search / of the seed | Design | Coverage of the methods' difference |"
        " False claims, family-wise | A rerun's estimate in the interval |"
    )
    print("|---:|---|---:|---:|---:|")
    for ratio in (0, 1, 2):
        for design, replicates, seeds in (
            ("8 seeds of one search", 1, 8),
            ("8 replicates of 1 seed", 8, 1),
            ("8 replicates of 2 seeds", 8, 2),
        ):
            row = simulate_methods(Luck(ratio, replicates, seeds), studies=studies, seed=seed)
            cells = [_cell(row, key) for key in ("coverage", "false_claims", "rerun")]
            print(f"| {ratio} | {design} | {' | '.join(cells)} |", flush=True)


def _cell(row: dict, key: str) -> str:
    if row[key] is None:
        return "–"
    return f"{row[key]:.3f} [{row[f'{key}_low']:.3f}, {row[f'{key}_high']:.3f}]"


if __name__ == "__main__":
    main()

"""Many tries with one seed: what went wrong, or how often files were accepted and refused."""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

from tests.fuzz.bounded import Outcome

Try = Callable[[random.Random], tuple[Any, Outcome]]


def campaign(tried: Try, *, count: int, seed: int) -> tuple[Counter[int | None], list[str]]:
    """Exit codes by how often they came, and each wrong outcome with the number of its try."""
    codes: Counter[int | None] = Counter()
    faults = []
    for i in range(count):
        # Of each try its own: a fault is repeated alone, by its number.
        given, outcome = tried(random.Random(f"{seed}/{i}"))
        codes[outcome.code] += 1
        if outcome.wrong:
            faults.append(f"try {seed}/{i}: {outcome.wrong}\n{given!a}"[:6000])
    return codes, faults


def main(tried: Try) -> None:
    """The command line of one fuzzer."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    codes, faults = campaign(tried, count=given.count, seed=given.seed)
    print(*faults, sep="\n\n")
    print(f"{given.count} tries: {codes[0]} accepted, {codes[2]} refused, {len(faults)} wrong")
    sys.exit(bool(faults))

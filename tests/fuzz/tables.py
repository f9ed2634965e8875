"""Tables of results with hostile cells: each is analysed, or is refused in one message.

python -m tests.fuzz.tables --count 2000 --seed 1
"""

from __future__ import annotations

import random
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path

from analysis.errors import TableError
from analysis.report import analyse
from tests.fuzz.bounded import Outcome, bounded
from tests.fuzz.campaign import main

COLUMNS = ("arm", "condition", "seed", "metric", "value")
CELLS = (
    "", " ", "inf", "-inf", "nan", "NaN", "None", "1e308", "-1e308", "5e-324", "1e400", "0x10",
    "1_000", "1.5", "-1", "true", "9" * 400, str(2**63), str(2**127), str(2**127 + 1), "1e19",
    "9007199254740993", "=HYPERLINK(1)", "+1", "@a", '"a\nb"', '"a,b"', '"', "\x1b[31m", "\0", "×",
    "\u202e", "a" * 5000, "٣", "1,2", "search", "failed",
)  # fmt: skip


def mutated(rng: random.Random) -> str:
    """A table of two arms with up to four cells, columns or lines replaced."""
    rows = [
        [arm, "default", str(seed), "test/accuracy", f"{0.5 + rng.random() / 10:.4f}"]
        for seed in range(rng.choice((1, 2, 6, 8)))
        for arm in ("a", "b")
    ]
    table = [list(COLUMNS), *rows]
    for _ in range(rng.randint(1, 4)):
        row, column = rng.randrange(len(table)), rng.randrange(len(COLUMNS))
        change = rng.randrange(4)
        if change == 0:  # the same in all rows
            cell = rng.choice(CELLS)
            for line in table[1:]:
                line[column : column + 1] = [cell]
        elif change == 1:
            table[row] = table[row][:column]
        else:
            table[row][column : column + 1] = [rng.choice(CELLS)]
    return "\n".join(",".join(line) for line in table) + "\n"


def tried(rng: random.Random) -> tuple[str, Outcome]:
    """One table, and what became of it."""
    text = mutated(rng)
    return text, analysed(text)


def analysed(text: str) -> Outcome:
    """What `analyse` makes of a CSV file."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "t.csv"
        file.write_text(text, encoding="utf-8", errors="surrogatepass")
        return bounded(lambda: _analyse(file))


def _analyse(file: Path) -> int:
    warnings.simplefilter("ignore")  # as a user's Python shows them, and continues
    try:
        report = analyse(file)
        print(report.verdicts)
    except TableError as error:
        print(error)
        return 2
    return 0


def rows(seeds: Sequence[object], value: str = "") -> str:
    """A table of two arms with the given seeds, and with one value or many."""
    lines = [
        f"{arm},{seed},test/score,{value or 0.5 + 0.01 * (arm == 'b') * (i % 7)}"
        for i, seed in enumerate(seeds)
        for arm in "ab"
    ]
    return "\n".join(["arm,seed,metric,value", *lines]) + "\n"


if __name__ == "__main__":
    main(tried)

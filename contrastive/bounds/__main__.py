"""The comparison of bounds with true errors: `python -m contrastive.bounds --figure bounds.png`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch

from contrastive.bounds.comparison import compare, draw, report
from contrastive.bounds.errors import estimate, lemma_1_slack
from contrastive.bounds.mixture import Mixture, sample
from contrastive.bounds.theorems import lemma_1


def main(argv: Sequence[str] | None = None) -> None:
    """Print the comparison for τ⁺ = 0.5 and 0.1, and draw it where asked to."""
    parser = argparse.ArgumentParser(prog="python -m contrastive.bounds",
                                     description=__doc__.splitlines()[0])  # fmt: skip
    parser.add_argument("--figure", type=Path, help="where to write the figure (.png, .svg, .pdf)")
    parser.add_argument("--trials", type=int, default=4000, help="most anchors for each N and M")
    parser.add_argument("--seed", type=int, default=0, help="of all draws")
    args = parser.parse_args(argv)
    generator = torch.Generator().manual_seed(args.seed)
    rows = [compare(Mixture(classes), args.trials, generator) for classes in (2, 10)]
    print("\n".join(report(panel) for row in rows for panel in row))
    for classes in (2, 10):
        n = 1024
        slack = estimate(lemma_1_slack(sample(Mixture(classes), n, 1, 2000, generator), n))
        print(
            f"Lemma 1, τ⁺ = {1 / classes:g}, N = {n}: the biased loss lies {slack.bias:.3f} ± "
            f"{slack.bias_error:.3f} above; the lemma allows {lemma_1(n, 1, 0):.3f} below"
        )
    if args.figure:
        draw(rows, args.figure)
        print(f"figure: {args.figure}")


if __name__ == "__main__":
    main()

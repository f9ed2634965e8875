"""The comparison of bounds with true errors: `python -m contrastive.bounds --figure bounds.png`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch

from contrastive.bounds.comparison import compare, draw, report
from contrastive.bounds.errors import eq_9_gap, estimate, lemma_1_slack, lemma_4_slack
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
        mixture = Mixture(classes)
        drawn = sample(mixture, n, 1, 2000, generator)
        slack = estimate(lemma_1_slack(drawn, n))
        print(
            f"Lemma 1, τ⁺ = {1 / classes:g}, N = {n}: the biased loss lies {slack.bias:.3f} ± "
            f"{slack.bias_error:.3f} above; the lemma allows {lemma_1(n, 1, 0):.3f} below"
        )
        gap = estimate(eq_9_gap(mixture, drawn))
        print(f"Eq. 9 of the preprint, τ⁺ = {1 / classes:g}: its sides differ by {gap.bias:.4f} ± "
              f"{gap.bias_error:.4f} as N grows")  # fmt: skip
        fewest = classes - 1
        slack = estimate(
            lemma_4_slack(mixture, sample(mixture, fewest, 1, 2000, generator), fewest)
        )
        print(f"Lemma 4, K = {classes}, N = {fewest}: the debiased loss lies {slack.bias:.3f} ± "
              f"{slack.bias_error:.3f} above the mean classifier's")  # fmt: skip
    if args.figure:
        draw(rows, args.figure)
        print(f"figure: {args.figure}")


if __name__ == "__main__":
    main()

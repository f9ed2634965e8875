"""What does a metric's name say: its unit, its direction, its window of epochs?"""

from __future__ import annotations

import re
from dataclasses import dataclass

# A metric so named is an accuracy: a fraction in [0, 1], higher is better.
ACCURACY_NAME = re.compile(r"(acc(uracy)?|top[-_]?\d+|knn|f1|precision|recall)(?![a-z])", re.I)

# Lower values of these are better; everything else is taken as higher is better.
LOWER_NAME = re.compile(
    r"(loss|error|perplexity|seconds|duration|time|views|flops|alignment|uniformity)", re.I
)

WINDOW = re.compile(
    r"auc\(\s*(?P<metric>[^,()\s]+)\s*,\s*epochs\s+(?P<first>\d+)-(?P<last>\d+)\s*\)"
)

WINDOW_FORM = "auc(METRIC, epochs A-B), such as auc(val/knn_top1, epochs 1-4)"


@dataclass(frozen=True)
class Metric:
    """A metric of a claim: a final figure, or the mean over epochs first..last of a curve."""

    text: str
    base: str
    window: tuple[int, int] | None = None


def parse_metric(text: str) -> Metric | None:
    """A metric name or an `auc(...)` window; None where the text is a malformed window."""
    text = str(text).strip()
    if match := WINDOW.fullmatch(text):
        first, last = int(match["first"]), int(match["last"])
        return Metric(text, match["metric"], (first, last)) if first <= last else None
    return None if "(" in text or ")" in text or not text else Metric(text, text)


def is_accuracy(metric: str) -> bool:
    """Whether the name says that the metric is a fraction of right answers."""
    return bool(ACCURACY_NAME.search(metric)) and not LOWER_NAME.search(metric)


def higher_is_better(metric: str) -> bool:
    """Direction of a metric, from its name: losses, errors, costs, alignment, uniformity fall."""
    return not LOWER_NAME.search(metric)


def metric_order(report: dict) -> list[str]:
    """Metrics of claims first, then the others, in the plan's order."""
    present = list(dict.fromkeys(a["metric"] for a in report["arms"]))
    claimed = [c["metric"] for c in report["comparisons"] if c["declared"]]
    return list(dict.fromkeys([m for m in claimed if m in present] + present))

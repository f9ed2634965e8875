"""Metrics: the windows of epochs that a claim may name, and each metric's direction and unit."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from analysis.errors import TableError

Direction = Literal["higher", "lower"]
DIRECTIONS = ("higher", "lower")
FRACTION = "fraction"  # the unit of numbers in [0, 1], which are shown in percent

# fmt: off
FRACTION_WORDS = frozenset({"acc", "accuracy", "top", "knn", "f1", "precision", "recall"})
HIGHER_WORDS = FRACTION_WORDS | {
    "auc", "auroc", "auprc", "ap", "map", "iou", "miou", "dice", "bleu", "rouge", "r2", "reward",
    "rewards", "return", "returns", "psnr", "ssim",
}
LOWER_WORDS = frozenset({
    "loss", "losses", "error", "errors", "err", "rmse", "mse", "mae", "mape", "nll", "bpc", "bpb",
    "perplexity", "ppl", "wer", "cer", "fid", "kid", "lpips", "brier", "ece", "latency", "seconds",
    "duration", "time", "runtime", "views", "flops", "epochs", "cost", "alignment", "uniformity",
})
# What follows one of these describes the metric and does not name it: time to accuracy.
JOINTS = frozenset({"to", "at", "per", "of", "until", "over", "after", "for", "in", "by"})
# fmt: on

CAMEL = re.compile(r"[A-Z]+(?![a-z])\d*|[A-Z]?[a-z]+\d*|\d+")

WINDOW = re.compile(
    r"auc\(\s*(?P<metric>[^,()\s]+)\s*,\s*epochs\s+(?P<first>\d{1,9})-(?P<last>\d{1,9})\s*\)"
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


def selected_on(metric: Metric, searched: Sequence[str]) -> str | None:
    """What of a claim's metric the winners were selected on, in words; None for a fresh one.

    Args:
        metric: of the claim.
        searched: the metrics of the search; empty without one.

    Example:
        >>> selected_on(Metric("val/loss", "val/loss"), ["val/accuracy"])
        'the validation split'
        >>> selected_on(Metric("test/loss", "test/loss"), ["val/accuracy"]) is None
        True
    """
    if metric.base.startswith("val/") and any(name.startswith("val/") for name in searched):
        return "the validation split"
    return metric.base if metric.base in searched else None


@dataclass(frozen=True)
class Meaning:
    """What is known of one metric.

    Attributes:
        better: `higher` or `lower`; None where it is not known.
        unit: `fraction`, any short text, or None for a plain number.
        source: of the direction: `plan`, `option`, `name` (guessed), or None.
    """

    better: Direction | None = None
    unit: str | None = None
    source: Literal["plan", "option", "name"] | None = None


class Metrics:
    """The direction and the unit of every metric, decided once for a whole report.

    The first of these that covers a metric decides its direction: the option for this metric,
    the plan's `metrics:`, the option for all metrics, the words of its name. Its unit is the
    plan's, else `fraction` where the name implies an accuracy.

    Args:
        declared: `metrics:` of a plan: name -> {better: higher | lower, unit: text, kind: cost}.
        better: `higher` or `lower` for all metrics, or name -> direction; the name `""` stands
            for all.

    Example:
        >>> metrics = Metrics({"test/gain": {"better": "higher", "unit": "dB"}}, {"wait": "lower"})
        >>> metrics.direction("test/gain"), metrics.unit("test/gain"), metrics.direction("wait")
        ('higher', 'dB', 'lower')
        >>> metrics.direction("test/top1_error"), metrics.of("test/top1_error").source
        ('lower', 'name')
    """

    def __init__(
        self,
        declared: Mapping[str, Mapping] | None = None,
        better: str | Mapping[str, str] | None = None,
    ):
        self._declared = dict(declared or {})
        self.options = {"": better} if isinstance(better, str) else dict(better or {})

    def of(self, metric: str) -> Meaning:
        """What is known of a metric; of a window's base metric where it is a window."""
        parsed = parse_metric(metric)
        name = parsed.base if parsed else metric
        word = deciding_word(name)
        declared = self._declared.get(name)
        unit = FRACTION if word in FRACTION_WORDS else None
        if declared is not None:
            unit = declared.get("unit")
        if name in self.options:
            return Meaning(self.options[name], unit, "option")
        if declared is not None:
            return Meaning(declared["better"], unit, "plan")
        if "" in self.options:
            return Meaning(self.options[""], unit, "option")
        if word is None:
            return Meaning(None, unit)
        return Meaning("higher" if word in HIGHER_WORDS else "lower", unit, "name")

    def is_cost(self, metric: str) -> bool:
        """Whether the plan declares a metric as a cost, which a method is not for."""
        return self._declared.get(metric, {}).get("kind") == "cost"

    def direction(self, metric: str) -> Direction | None:
        return self.of(metric).better

    def unit(self, metric: str) -> str | None:
        return self.of(metric).unit

    def sign(self, metric: str) -> int:
        """1 where higher is better, -1 where lower is.

        Raises:
            TableError: the direction is not known.
        """
        self.require([metric])
        return 1 if self.direction(metric) == "higher" else -1

    def require(self, metrics: Iterable[str], *, where: str = "metrics") -> None:
        """Refuse metrics that must be compared and have no direction, all in one message."""
        unknown = [metric for metric in metrics if self.direction(metric) is None]
        if unknown:
            raise TableError(
                f"it is not known whether higher or lower is better for {', '.join(unknown)}",
                where=where,
                allowed="higher or lower, for each metric that is compared",
                try_=" ".join(f"--better {metric}=higher" for metric in unknown)
                + " (or =lower), or `metrics:` in the plan",
            )


def deciding_word(name: str) -> str | None:
    """The word that decides what a metric is: the last one of its name that is known, or None.

    English puts the noun last, so top1_error is an error and accuracy_loss a loss. A known word
    followed by to, at, per, of … has named the metric already: time_to_accuracy is a time. Words
    end at any sign that is no letter or digit and at camelCase; `top` counts before a number only.

    Example:
        >>> [deciding_word(n) for n in ("test/sentiment_accuracy", "valLoss", "top-5", "top")]
        ['accuracy', 'loss', 'top', None]
    """
    found = None
    words = list(_words(name))
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if found and word in JOINTS:
            break
        stem = word.rstrip("0123456789")
        if stem == "top":
            found = "top" if word != "top" or following.isdigit() else found
        else:
            found = next((w for w in (word, stem) if w in HIGHER_WORDS | LOWER_WORDS), found)
    return found


def _words(name: str) -> Iterable[str]:
    """Lower-case words; one such as mIoU, known as it stands, is not divided at its capitals."""
    for part in re.findall(r"[^\W_]+", name):
        if part.lower() in HIGHER_WORDS | LOWER_WORDS:
            yield part.lower()
        else:
            yield from (word.lower() for word in CAMEL.findall(part))

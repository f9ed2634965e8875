"""The report as a Python object, with a form for notebooks and methods that write it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from analysis.rendering.write import page, render
from analysis.tables.comparisons import comparisons
from analysis.wording import guessed_directions, one_line_verdicts


@dataclass(frozen=True)
class ClaimAnswer:
    """The answer to one declared claim.

    Attributes:
        id: of the claim.
        verdict: supported, refuted, undecided or invalid.
        sentence: the answer in words, with the evidence.
        difference: mean paired difference b - a in the metric's unit; a fraction for accuracies.
            None, as everything below, where it is not defined.
        interval: its 95 % limits.
        p: two-sided sign-flip p-value.
        p_supports: adjusted over the declared claims; the claim is supported where it is at most
            α, except at planned looks.
        p_refutes: likewise of the hypothesis that refutes the claim by falling.
    """

    id: str
    verdict: str
    sentence: str
    difference: float | None
    interval: tuple[float, float] | None
    p: float | None
    p_supports: float | None
    p_refutes: float | None


class Report(dict):
    """What report.json holds, as a dictionary; notebooks show its verdicts.

    Example:
        >>> import pandas as pd
        >>> from analysis import analyse
        >>> a, b = [0.70, 0.72, 0.71, 0.69, 0.73, 0.70], [0.74, 0.75, 0.76, 0.74, 0.77, 0.75]
        >>> sides = [pd.DataFrame({"arm": arm, "seed": range(6), "metric": "acc", "value": scores})
        ...          for arm, scores in {"a": a, "b": b}.items()]
        >>> claim = {"better": "b", "than": "a", "metric": "acc"}
        >>> report = analyse(pd.concat(sides), claims=[claim])
        >>> report.verdicts
        {'C1': 'supported'}
        >>> round(report.claims[0].difference, 4), report["design"]["family_size"]
        (0.0433, 1)
    """

    @property
    def verdicts(self) -> dict[str, str]:
        """Claim id -> verdict; without claims `b - a, metric, condition` -> verdict."""
        if self["claims"]:
            return {claim["id"]: claim["verdict"] for claim in self["claims"]}
        return {
            f"{c['b']} - {c['a']}, {c['metric']}, {c['condition']}": c["verdict"]
            for c in self["comparisons"]
        }

    @property
    def claims(self) -> list[ClaimAnswer]:
        """The answers to the declared claims, in their order."""
        records = {c["claim"]: c for c in self["comparisons"] if c["declared"]}
        return [_answer(claim, records[claim["id"]]) for claim in self["claims"]]

    def to_html(self, path: str | Path) -> Path:
        """Write the self-contained page to a file, and return its path."""
        path = Path(path)
        path.write_text(page(self), encoding="utf-8", newline="\n")
        return path

    def save(self, folder: str | Path) -> Path:
        """Write every form of the report into a folder, replacing an earlier report there."""
        folder = Path(folder)
        render(self, folder)
        return folder

    def __repr__(self) -> str:
        return "\n".join([*one_line_verdicts(self), *guessed_directions(self)])

    def _repr_html_(self) -> str:
        lines = Markup("").join(
            Markup("<li>{}</li>").format(line) for line in repr(self).split("\n")
        )
        declared = [c for c in self["comparisons"] if c["declared"]]
        table = comparisons("comparisons", "", declared or self["comparisons"])
        head = Markup("").join(Markup("<th>{}</th>").format(column) for column in table.columns)
        body = Markup("").join(
            Markup("<tr>{}</tr>").format(
                Markup("").join(Markup("<td>{}</td>").format(cell) for cell in row)
            )
            for row in table.rows
        )
        return Markup(
            "<ul>{}</ul><table><thead><tr>{}</tr></thead><tbody>{}</tbody></table>"
        ).format(lines, head, body)


def _answer(claim: Mapping[str, Any], record: Mapping[str, Any]) -> ClaimAnswer:
    low, high = record["ci_low"], record["ci_high"]
    return ClaimAnswer(
        claim["id"],
        claim["verdict"],
        claim["sentence"],
        record["mean_difference"],
        None if low is None else (low, high),
        record["p_value"],
        record["p_supports"],
        record["p_refutes"],
    )

"""Links from a number of the report to the row of its run, and from there to MLflow.

    mean of an arm -> scores of every seed -> row of the run -> the run in MLflow's UI

`provenance["mlflow"]` has the place of that UI: `url`, its base, `experiment`, the experiment's id
there, and `command`, a line that serves it, if it is not a server's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote


class Link(str):
    """A cell's text with a link; forms of the report without links show the text."""

    href: str

    def __new__(cls, text: str, href: str) -> Link:
        link = super().__new__(cls, text)
        link.href = href
        return link


def mlflow_run(place: Any, run_id: str | None) -> str | None:
    """The address of a run in MLflow's UI; None where that is not known.

    Only http addresses become links: the text of a table or a log is not trusted further.
    """
    if not isinstance(place, Mapping) or not run_id:
        return None
    url, experiment = str(place.get("url") or ""), str(place.get("experiment") or "")
    if not url.startswith(("http://", "https://")) or not experiment:
        return None
    at = f"experiments/{quote(experiment, safe='')}/runs/{quote(run_id, safe='')}"
    # Without the query the UI opens on its pages for language models.
    return f"{url.rstrip('/')}/#/{at}?workflowType=machine_learning"


def anchor(row: int) -> str:
    """The id, on the page, of the row of a run."""
    return f"run-{row}"


def run_anchors(runs: list[dict]) -> dict[tuple[str, str, str], str]:
    """Ids of the rows of runs on the page, by arm, condition and seed."""
    return {
        (r["arm"], r["condition"] or "default", str(r["seed"])): anchor(row)
        for row, r in enumerate(runs)
    }

"""How does a report look on paper and on screen? Decides nothing."""

from __future__ import annotations

import html
import json


def render(report, out):
    out.mkdir(parents=True, exist_ok=True)
    (out / "report.json").write_text(
        json.dumps(report, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    )
    (out / "report.html").write_text(
        "<!doctype html><pre>" + html.escape(json.dumps(report, indent=1)) + "</pre>"
    )
    (out / "report.md").write_text("# " + report["title"])

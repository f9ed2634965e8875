"""The style of all figures: colours, marks, sizes, and how a figure becomes a file.

Colours are Okabe and Ito's, distinguishable with any colour vision; every arm also has its
own mark and dash, so that the figures read in grey.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#7A7A7A")
MARKS = ("o", "s", "^", "D", "v", "P", "X", "*")
DASHES = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (5, 1.5, 1.2, 1.5)), (0, (8, 2)), (0, (3, 3)))
GREY = "#5f6670"
PALE = "#d5d9de"
MARGIN_FILL = "#e8ebef"

RC = {
    "font.size": 9,
    "font.family": "DejaVu Sans",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.labelcolor": "#222222",
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": "#222222",
    "ytick.labelcolor": "#222222",
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "analysis",
    "pdf.fonttype": 42,
    "figure.constrained_layout.use": True,
    "text.parse_math": False,
    "axes.formatter.use_mathtext": False,
}
WIDTH = 7.0  # inches, the page's column
MOST_FACETS = 6


@dataclass(frozen=True)
class Drawing:
    """A figure with what a reader who cannot see it needs.

    `name` is the file's stem; `section` says where in the report it stands; `alt` gives its
    content in words, `caption` how to read it.
    """

    name: str
    section: str
    title: str
    caption: str
    alt: str
    figure: Figure


def look(index: int) -> dict:
    """Colour, mark and dash of the arm with this index."""
    return {
        "color": COLOURS[index % len(COLOURS)],
        "marker": MARKS[index % len(MARKS)],
        "linestyle": DASHES[index % len(DASHES)],
    }


def grid(
    count: int, *, height: float = 2.7, width: float = WIDTH, share: bool = True
) -> tuple[Figure, list[Axes]]:
    """A figure of up to MOST_FACETS panels, two to a row, sharing their value axis or not."""
    count = min(count, MOST_FACETS)
    columns = 1 if count == 1 else 2
    rows = ceil(count / columns)
    figure = Figure(figsize=(width, height * rows))
    axes = figure.subplots(rows, columns, squeeze=False, sharey=share).ravel()
    for spare in axes[count:]:
        spare.remove()
    return figure, list(axes[:count])


def legend(figure: Figure, panel: Axes) -> None:
    """One legend below all panels, from the labels of one of them."""
    handles, labels = panel.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(4, len(labels)))


def percent_axis(axis) -> None:
    """Show fractions as percent."""
    axis.set_major_formatter(lambda value, _: f"{100 * value:.4g}".replace("-", "\u2212"))


def short(name: str, most: int = 22) -> str:
    """A name that fits under a tick; the tables have it in full.

    Both ends stay: arms of a grid differ at the end.
    """
    if len(name) <= most:
        return name
    head = (most - 1) // 2
    return f"{name[:head]}…{name[head + 1 - most :]}"


def facet(condition: str) -> str:
    """A panel's title; the only condition there is needs none."""
    return "" if condition == "default" else short(condition, 40)


def to_svg(drawing: Drawing) -> str:
    """Inline SVG: no XML header, ids of its own, text as text, deterministic."""
    text = _save(drawing.figure, "svg", {"Date": None, "Creator": None})
    text = text[text.index("<svg") :]
    prefix = f"{drawing.name}-"
    text = re.sub(r'\bid="', f'id="{prefix}', text)
    text = re.sub(r'(href="#|url\(#)', rf"\g<1>{prefix}", text)
    # Text is measured in DejaVu Sans; Verdana is as wide where that is not installed.
    return text.replace("'DejaVu Sans'", "'DejaVu Sans', Verdana, sans-serif")


def to_pdf(drawing: Drawing) -> bytes:
    return _save(drawing.figure, "pdf", {"CreationDate": None, "Creator": None, "Producer": None})


def listed(parts: Sequence[str], most: int = 12) -> str:
    """Parts as a sentence's list, cut off with a count."""
    rest = len(parts) - most
    return "; ".join(parts[:most]) + (f"; and {rest} more" if rest > 0 else "")


def _save(figure: Figure, kind: str, metadata: dict) -> str | bytes:
    buffer = io.BytesIO()
    with mpl.rc_context(RC), warnings.catch_warnings():
        # Emoji in an arm's name: the browser has the glyph, the measuring font has not.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        if figure.get_layout_engine() is not None:
            # Laid out once for both formats: half of the time that saving takes.
            figure.draw_without_rendering()
            figure.set_layout_engine("none")
        figure.savefig(buffer, format=kind, metadata=metadata)
    data = buffer.getvalue()
    return data.decode("utf-8") if kind == "svg" else data

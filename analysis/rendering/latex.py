"""The report and its tables in LaTeX: booktabs, and every cell escaped.

A table needs `\\usepackage{array,booktabs,graphicx,textcomp}` and compiles with pdflatex under
UTF-8 input and T1 fonts.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from typing import Any

from analysis.figures import Drawing
from analysis.rendering.content import content, jinja_environment
from analysis.tables import Table

# A float of more rows does not fit on a page; rows of several lines are taller.
MOST_ROWS, MOST_WRAPPED_ROWS = 40, 24
LONGEST_LINE = 16  # characters
LONGEST_HEADER = 12  # of a column of figures
SPECIAL = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "'": r"\textquotesingle{}",
    "`": r"\textasciigrave{}",
    "−": r"$-$",
    "–": "--",
    "—": "---",
    "←": r"$\leftarrow$",
    "→": r"$\rightarrow$",
    "±": r"$\pm$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "≠": r"$\neq$",
    "≈": r"$\approx$",
    "∞": r"$\infty$",
    "…": r"\dots{}",
    "×": r"$\times$",
    "·": r"$\cdot$",
    "’": "'",
    "‘": "`",
    "“": "``",
    "”": "''",
    "ς": r"$\varsigma$",
}
SMALL = "alpha beta gamma delta varepsilon zeta eta theta iota kappa lambda mu nu xi o pi rho"
SPECIAL |= {
    letter: "o" if name == "o" else rf"$\{name}$"
    for letter, name in zip(
        "αβγδεζηθικλμνξοπρστυφχψω",
        [*SMALL.split(), *["sigma", "tau", "upsilon", "varphi", "chi", "psi", "omega"]],
        strict=True,
    )
}
CAPITALS = "Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega"
SPECIAL |= {
    letter: rf"$\{name}$" for letter, name in zip("ΓΔΘΛΞΠΣΥΦΨΩ", CAPITALS.split(), strict=True)
}
# The other capitals look as in Latin, and TeX has no others.
SPECIAL |= dict(zip("ΑΒΕΖΗΙΚΜΝΟΡΤΧ", "ABEZHIKMNOPTX", strict=True))
# Letters up to U+017F that T1 fonts lack; and the soft hyphen.
NOT_IN_T1 = frozenset("ĦħĸĿŀŉŦŧſ\u00ad")


def escape(text: object) -> str:
    """Text that LaTeX prints as it stands; glyphs that pdflatex lacks become code points."""
    plain = unicodedata.normalize("NFC", str(text))
    # Two hyphens or commas in a row would become one other sign.
    return "".join(
        _escape_one(character)
        + ("{}" if character in "-," and plain[i + 1 : i + 2] == character else "")
        for i, character in enumerate(plain)
    )


def table(table_: Table) -> str:
    """Floating booktabs tables with caption and label, no wider than the text."""
    columns = [_column(table_, at) for at in range(len(table_.columns))]
    most = MOST_ROWS if all(len(column) == 1 for column in columns) else MOST_WRAPPED_ROWS
    parts = [table_.rows[i : i + most] for i in range(0, len(table_.rows), most)]
    floats = [
        _float(
            table_,
            columns,
            rows,
            f" ({number} of {len(parts)})" if len(parts) > 1 else "",
            number == 1,
        )
        for number, rows in enumerate(parts, 1)
    ]
    return "\n".join(["% needs \\usepackage{array,booktabs,graphicx,textcomp}", *floats]) + "\n"


def _float(table_: Table, columns: list[str], rows: list, part: str, first: bool) -> str:
    caption = escape(table_.title + part + ".")
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{caption} {escape(table_.note)}}}" if first else rf"\caption{{{caption}}}",
        *([rf"\label{{tab:{table_.name}}}"] if first else []),
        r"\footnotesize",
        r"\setlength{\tabcolsep}{4pt}",
        r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
        rf"\begin{{tabular}}{{{''.join(columns)}}}",
        r"\toprule",
        " & ".join(map(_header, table_.columns, table_.numeric)) + r" \\",
        r"\midrule",
        *(" & ".join(_cell(cell) for cell in row) + r" \\" for row in rows),
        r"\bottomrule",
        r"\end{tabular}}",
        r"\end{table}",
    ]
    return "\n".join(lines)


def _column(table_: Table, at: int) -> str:
    """Figures flush right; long texts in about two lines, none shorter than their longest word."""
    if table_.numeric[at]:
        return "r"
    cells = [row[at] for row in table_.rows]
    longest = max(map(len, cells), default=0)
    if longest <= LONGEST_LINE:
        return "l"
    word = max(len(word) for cell in cells for word in cell.split())
    return rf">{{\raggedright\arraybackslash}}p{{{0.6 * max(12, word, longest / 2):.1f}em}}"


def _header(text: str, numeric: bool) -> str:
    """A long header of narrow figures takes two lines."""
    breaks = [at for at, character in enumerate(text) if character == " "]
    if not numeric or len(text) <= LONGEST_HEADER or not breaks:
        return escape(text)
    middle = min(breaks, key=lambda at: abs(at - len(text) / 2))
    return rf"\shortstack[r]{{{escape(text[:middle])}\\{escape(text[middle + 1 :])}}}"


def _cell(text: str) -> str:
    escaped = escape(text)
    # A row that opens with a bracket would be read as the argument of the \\ before it.
    return "{}" + escaped if escaped.startswith(("[", "*")) else escaped


def _escape_one(character: str) -> str:
    if character in SPECIAL:
        return SPECIAL[character]
    if character.isspace():
        return " "
    if ord(character) < 0x20 or ord(character) == 0x7F:
        return ""
    if ord(character) < 0x7F or (0xA1 <= ord(character) <= 0x17F and character not in NOT_IN_T1):
        return character
    raised = {"<super>": "textsuperscript", "<sub>": "textsubscript"}
    kind, _, points = unicodedata.decomposition(character).partition(" ")
    if kind in raised:
        base = "".join(_escape_one(chr(int(point, 16))) for point in points.split())
        return rf"\{raised[kind]}{{{base}}}"
    return rf"\texttt{{U+{ord(character):04X}}}"


def to_latex(report: Mapping[str, Any], drawings: list[Drawing], all_tables: list[Table]) -> str:
    """The same content as a LaTeX document, figures from figures/ and tables from tables/."""
    # LaTeX is full of braces.
    marks = {"variable_start_string": "<<", "variable_end_string": ">>",
             "block_start_string": "<%", "block_end_string": "%>",
             "comment_start_string": "<#", "comment_end_string": "#>"}  # fmt: skip
    environment = jinja_environment(autoescape=False).overlay(**marks)
    environment.filters["tex"] = escape
    template = environment.get_template("report.tex.j2")
    return template.render(**content(report, drawings, all_tables))

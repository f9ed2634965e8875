"""How is a table set in LaTeX? booktabs, and every cell escaped.

A table needs `\\usepackage{booktabs}` and compiles with pdflatex under UTF-8 input.
"""

from __future__ import annotations

from analysis.tables import Table

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
    "→": r"$\rightarrow$",
    "±": r"$\pm$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "…": r"\dots{}",
    "×": r"$\times$",
    "·": r"$\cdot$",
    "²": r"$^2$",
    "τ": r"$\tau$",
    "δ": r"$\delta$",
    "ε": r"$\varepsilon$",
    "α": r"$\alpha$",
    "β": r"$\beta$",
    "⁺": r"$^+$",
    "⁻": r"$^-$",
    "’": "'",
    "‘": "`",
    "“": "``",
    "”": "''",
}


def escape(text: str) -> str:
    """Text that LaTeX prints as it stands; glyphs that pdflatex lacks become code points."""
    return "".join(_escape_one(character) for character in text)


def table(table_: Table, *, label: str | None = None) -> str:
    """A floating booktabs table with caption and label."""
    align = "".join("r" if numeric else "l" for numeric in table_.numeric)
    lines = [
        "% needs \\usepackage{booktabs} and \\usepackage{textcomp}",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{escape(table_.title)}. {escape(table_.note)}}}",
        rf"\label{{tab:{label or table_.name}}}",
        r"\footnotesize",
        rf"\begin{{tabular}}{{{align}}}",
        r"\toprule",
        " & ".join(map(escape, table_.columns)) + r" \\",
        r"\midrule",
        *(" & ".join(_cell(cell) for cell in row) + r" \\" for row in table_.rows),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    escaped = escape(text)
    # A row that opens with a bracket would be read as the argument of the \\ before it.
    return "{}" + escaped if escaped.startswith(("[", "*")) else escaped


def _escape_one(character: str) -> str:
    if character in SPECIAL:
        return SPECIAL[character]
    if character.isspace():
        return " "
    # T1 and inputenc know the Latin letters up to U+017F.
    if ord(character) < 0x20 or ord(character) == 0x7F:
        return ""
    if ord(character) < 0x7F or (0xC0 <= ord(character) <= 0x17F):
        return character
    return rf"\texttt{{U+{ord(character):04X}}}"

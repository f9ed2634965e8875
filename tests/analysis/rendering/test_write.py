"""The written report: self-contained, repeatable, escaped, free of forbidden phrases."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser

import pandas as pd
import pytest
from known_truth import noisy, table_of

from analysis.figures.style import short
from analysis.rendering import latex
from analysis.report import main, write_report
from analysis.tables.links import mlflow_run
from analysis.wording import one_line_verdicts
from analysis.wording.numbers import difference, number, p_number

NASTY = [
    "<script>alert(1)</script>",
    "a & b_c 100% $x$ #1",
    "q\"u'o`te\\{}~^",
    "emoji 🚀 | *md*",
    "τ⁺ = 0.1, β₂ → ħ∞ñ --x,,y",
]
FORBIDDEN = ("no difference", "trend towards significance", "p = 0", "p\u00a0=\u00a00")


@pytest.fixture(scope="module")
def nasty(tmp_path_factory):
    out = tmp_path_factory.mktemp("nasty")
    frame = table_of({arm: noisy(0.5 + i / 50, seed=i) for i, arm in enumerate(NASTY)})
    report = write_report(frame, out=out, margin=0.01)
    return out, report


@pytest.fixture(scope="module")
def whole(study, tmp_path_factory):
    tmp_path = tmp_path_factory.mktemp("whole")
    report = write_report(study["results"], plan=study["plan"], runs=study["runs"],
                          provenance=study["provenance"], out=tmp_path)  # fmt: skip
    return tmp_path, report


class Reader(HTMLParser):
    """Collects what a browser would fetch, run and show, the ids on the page, and its links.

    A link, `a`, fetches nothing until somebody follows it; anything else with an address does.
    `rows` has the ids and the links of each table row.
    """

    def __init__(self):
        super().__init__()
        self.tags, self.fetched, self.ids, self.text = [], [], [], []
        self.links, self.rows = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag in ("tr", "nav", "section"):
            self.rows.append((dict(attrs).get("id"), []))
        for name, value in attrs:
            if tag == "a" and name == "href":
                self.links.append(value)
                self.rows[-1][1].append(value)
            elif name in ("src", "href", "xlink:href", "data", "srcset", "poster", "ping"):
                self.fetched += [] if value.startswith("#") else [value]
            if name == "id":
                self.ids.append(value)

    def handle_data(self, data):
        self.text.append(data)


def read(path) -> Reader:
    reader = Reader()
    reader.feed(path.read_text(encoding="utf-8"))
    return reader


def test_the_page_fetches_nothing_and_runs_nothing(whole):
    page = read(whole[0] / "report.html")
    assert page.fetched == []
    assert "script" not in page.tags
    assert page.tags.count("svg") >= 7
    assert len(page.ids) == len(set(page.ids))
    style = (whole[0] / "report.html").read_text(encoding="utf-8")
    assert "@import" not in style
    assert not re.search(r"url\((?!#)", style)


def test_every_score_of_a_seed_leads_to_its_run_and_from_there_to_mlflow(whole, study):
    page = read(whole[0] / "report.html")
    rows = dict(page.rows)
    runs = study["runs"][study["runs"]["phase"] == "confirm"].reset_index(drop=True)
    table = pd.read_csv(whole[0] / "tables" / "seeds-1.csv")
    assert len(table) == len(runs) == 32
    for i, run in runs.iterrows():
        assert page.links.count(f"#run-{i}") == 1  # one metric was declared
        assert rows[f"run-{i}"] == [
            f"http://127.0.0.1:5000/#/experiments/7/runs/{run['mlflow_run_id']}"
            "?workflowType=machine_learning"
        ]
    inside = [link[1:] for link in page.links if link.startswith("#")]
    assert set(inside) <= set(page.ids)
    assert page.links.count("#table-seeds-1") == len(whole[1]["arms"])


def test_a_score_leads_to_its_own_run_and_to_no_other(whole):
    page = (whole[0] / "report.html").read_text(encoding="utf-8")
    report = whole[1]
    better = next(a for a in report["arms"] if (a["arm"], a["condition"]) == ("better", "blurred"))
    row = next(r for r in re.findall(r"<tr>.*?</tr>", page) if re.match(
        rf"<tr><td>blurred</td><td class=\"num\">{better['seeds'][3]}</td>", r))  # fmt: skip
    number, shown = re.findall(r'href="#run-(\d+)">([\d.]+)<', row)[1]
    run = report["runs"][int(number)]
    assert (run["arm"], run["condition"], run["seed"]) == ("better", "blurred", better["seeds"][3])
    assert shown == f"{100 * better['values'][3]:.1f}"


@pytest.mark.parametrize("url", ["javascript:alert(1)//", "data:text/html,x", "", None])
def test_only_http_addresses_become_links(url):
    place = {"experiment": "1", "url": url}
    assert mlflow_run(place, "abc") is None
    assert mlflow_run({"experiment": "1", "url": "https://x/ml"}, '"><b>') == (
        "https://x/ml/#/experiments/1/runs/%22%3E%3Cb%3E?workflowType=machine_learning"
    )


def test_the_first_screen_has_question_answers_and_warnings(whole):
    text = (whole[0] / "report.html").read_text(encoding="utf-8")
    first = text[: text.index("<nav")]
    assert "Is better better?" in first
    assert first.count("✓") == 3
    assert "95\u00a0% interval" in first
    assert "Warnings" in first


def test_every_figure_has_a_text_in_its_place_and_both_formats(whole):
    text = (whole[0] / "report.html").read_text(encoding="utf-8")
    labels = re.findall(r'role="img" aria-label="([^"]*)"', text)
    assert len(labels) == text.count("<figure")
    assert all(len(label) > 30 for label in labels)
    svgs = {p.stem for p in (whole[0] / "figures").glob("*.svg")}
    assert svgs == {p.stem for p in (whole[0] / "figures").glob("*.pdf")}
    assert len(svgs) == len(labels)


@pytest.mark.slow
def test_the_same_input_gives_the_same_bytes(study, tmp_path):
    for name in ("one", "two"):
        write_report(study["results"], plan=study["plan"], runs=study["runs"], out=tmp_path / name)
    files = sorted(p.relative_to(tmp_path / "one") for p in (tmp_path / "one").rglob("*.*"))
    assert len(files) > 20
    for file in files:
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


def test_report_json_has_the_stable_shape(whole):
    report = json.loads((whole[0] / "report.json").read_text(encoding="utf-8"))
    assert report == whole[1]
    assert report["schema"] == 4
    assert {"hash", "alpha", "margin", "family_size", "p_min"} <= set(report["design"])
    assert {"arm", "condition", "metric", "better", "unit", "n", "mean", "sd", "median", "iqm",
            "ci_low", "ci_high"} <= set(report["arms"][0])  # fmt: skip
    assert {"a", "b", "condition", "metric", "better", "unit", "kind", "declared", "claim",
            "scope", "unit_of_analysis", "n_units", "n_pairs", "sd_search", "sd_seed",
            "p_supports", "p_refutes", "p_holm", "simultaneous_ci",
            "mean_difference", "ci_low", "ci_high", "p_value", "p_adjusted", "p_t",
            "p_wilcoxon", "p_tost", "p_tost_adjusted", "dz", "dz_ci", "a12", "cliffs_delta",
            "win_rate", "verdict", "reason",
            "exploratory"} <= set(report["comparisons"][0])  # fmt: skip
    assert set(report["claims"][0]) >= {"id", "verdict", "sentence"}
    assert {"omnibus", "ledger", "versions"} <= set(report)


def test_csv_tables_can_be_read_back(whole):
    table = pd.read_csv(whole[0] / "tables" / "comparisons.csv")
    assert list(table["claim"]) == ["F1", "F2", "F3"]
    assert table["mean_difference"][0] == whole[1]["comparisons"][0]["mean_difference"]


@pytest.mark.slow
@pytest.mark.parametrize("which", ["whole", "nasty"])
def test_forbidden_words_are_nowhere(which, request):
    out, report = request.getfixturevalue(which)
    files = [p for p in out.rglob("*") if p.suffix in (".html", ".md", ".tex", ".json", ".svg")]
    for text in [*(p.read_text(encoding="utf-8") for p in files), *one_line_verdicts(report)]:
        assert not [word for word in FORBIDDEN if word in text.lower()]


def test_nasty_names_are_text_in_html_and_svg(nasty):
    page = read(nasty[0] / "report.html")
    assert "script" not in page.tags
    shown = "".join(page.text)
    assert all(name in shown for name in NASTY)


def test_nasty_names_are_escaped_in_markdown(nasty):
    text = (nasty[0] / "report.md").read_text(encoding="utf-8")
    assert "<script" not in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    cells = [len(re.findall(r"(?<!\\)\|", line)) for line in rows]
    assert cells[0] > 5
    assert any("emoji 🚀 \\| \\*md\\*" in line for line in rows)


def test_nasty_names_are_escaped_in_latex(nasty):
    for file in (nasty[0] / "tables").glob("*.tex"):
        text = file.read_text(encoding="utf-8")
        text.encode("latin-1", "strict")  # pdflatex has fonts for it
        body = text[text.index(r"\midrule") : text.index(r"\bottomrule")]
        spec = re.search(r"\\begin\{tabular\}\{(.+)\}$", text, flags=re.M)[1]
        columns = len(re.findall(r"[lr]|p\{[\d.]+em\}", re.sub(r">\{.*?\}", "", spec)))
        for line in filter(None, body.split("\n")[1:]):
            assert line.endswith(r" \\")
            assert len(re.findall(r"(?<!\\)&", line)) == columns - 1
            bare = re.sub(r"\\[A-Za-z]+\{\}|\\[A-Za-z]+|\\[&%$#_{}]", "", line)
            assert not re.search(r"[%#~^]|(?<!\$)_", bare)
        assert text.count("{") - text.count(r"\{") == text.count("}") - text.count(r"\}")


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no TeX here; parsed instead")
@pytest.mark.parametrize("which", ["whole", "nasty", "many"])
def test_the_latex_report_compiles_and_no_table_is_cut_off(which, request, tmp_path):
    out = request.getfixturevalue(which)[0]
    command = ["pdflatex", "-halt-on-error", f"-output-directory={tmp_path}", "report.tex"]
    ended = subprocess.run(command, cwd=out, capture_output=True, check=False)
    log = ended.stdout.decode(errors="replace")
    assert ended.returncode == 0, log[-2000:]
    assert not re.findall(r"too large for page|Overfull \\vbox.*", log)
    widths = map(float, re.findall(r"Overfull \\hbox \((\d+\.\d+)pt too wide\)", log))
    assert max(widths, default=0) < 5  # points, a third of a millimetre each


def test_the_latex_report_has_every_answer_figure_and_table(whole):
    text = (whole[0] / "report.tex").read_text(encoding="utf-8")
    for claim in whole[1]["claims"]:
        assert latex.escape(claim["sentence"]) in text
    for folder, suffix, command in (("figures", "pdf", "includegraphics"),
                                    ("tables", "tex", "input")):  # fmt: skip
        shown = re.findall(rf"\\{command}(?:\[.*?\])?\{{{folder}/(.+?)\}}", text)
        assert sorted(shown) == sorted(p.name for p in (whole[0] / folder).glob(f"*.{suffix}"))


def test_file_names_hold_no_arm_names(nasty):
    assert all(re.fullmatch(r"[a-z0-9_.-]+", p.name) for p in nasty[0].rglob("*"))


def test_latex_prints_what_it_can_and_names_what_it_cannot():
    assert latex.escape("50% of a_b & <c>") == r"50\% of a\_b \& \textless{}c\textgreater{}"
    assert latex.escape("🚀") == r"\texttt{U+1F680}"
    assert latex.escape("τ⁺ₙ") == r"$\tau$\textsuperscript{+}\textsubscript{n}"
    assert latex.escape("--resume") == "-{}-resume"
    assert latex.escape("e\u0301") == "é"


@pytest.mark.parametrize(
    ("p", "text"), [(1.0, "1"), (0.0078125, ".0078"), (0.25, ".250"), (1.9e-6, "1.9e-06"),
                    (0.05, ".05"), (None, "–")],
)  # fmt: skip
def test_p_values_have_no_leading_zero(p, text):
    assert p_number(p) == text


def test_shortened_names_keep_their_ends():
    names = [f"loss=debiased_pos num_positives={i}" for i in (1, 12)]
    assert [len(short(name, 20)) for name in names] == [20, 20]
    assert short(names[0], 20) != short(names[1], 20)
    assert short("plain", 5) == "plain"


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    out = tmp_path_factory.mktemp("many")
    arms = {f"loss=debiased_pos num_positives={i}": noisy(0.5 + i / 50, seed=i) for i in range(10)}
    return out, write_report(table_of(arms), out=out)


@pytest.mark.slow
def test_a_claimless_ablation_of_many_arms_folds_its_pairs(many):
    page = (many[0] / "report.html").read_text(encoding="utf-8")
    assert page.count("<article") == 12
    folded = re.search(r"<summary>The table, 45 rows</summary>(.*?)</details>", page, re.S)[1]
    assert folded.count("<tr>") == 1 + 45


def test_beside_claims_whatever_decides_none_of_them_is_folded(whole):
    """And what is about a claim is not."""
    folder, report = whole
    page = (folder / "report.html").read_text(encoding="utf-8")
    unfolded = re.sub(r"<details>.*?</details>", "", page, flags=re.S)
    for shown in ("Differences between arms", "Declared comparisons", "Difference of curves"):
        assert shown in unfolded
    for caption in ("Mean rank over seeds", "Validation scores of trials", "All other pairs (exp"):
        assert caption not in unfolded
    assert report["cost"]["differs"] is None
    assert "Cost is what a whole confirmation run spent" not in unfolded


def test_long_headers_of_figures_take_two_lines_in_latex():
    assert latex._header("Adjusted p for support", True) == (
        r"\shortstack[r]{Adjusted p\\for support}"
    )
    assert latex._header("95 % interval", True) == r"\shortstack[r]{95 \%\\interval}"
    assert latex._header("Holm p", True) == "Holm p"
    assert latex._header("Declared by the plan", False) == "Declared by the plan"


def test_differences_are_shown_in_points_for_fractions_only():
    assert difference(0.0321, "fraction") == "+3.2"
    assert difference(-0.0004, "fraction") == "−0.04"
    assert difference(0.0, "fraction") == "0.0"
    assert difference(-0.25, None) == difference(-0.25, "nats") == "−0.250"
    assert number(float("nan")) == "–"


@pytest.mark.slow
def test_the_command_writes_a_report_and_says_where(study, tmp_path, capsys):
    study["results"].to_csv(tmp_path / "results.csv", index=False)
    assert main([str(tmp_path / "results.csv"), "--out", str(tmp_path / "out"), "--margin", "0.01",
                 "--chance", "0.1", "--alpha", "0.1"]) == 0  # fmt: skip
    shown = capsys.readouterr()
    assert str(tmp_path / "out" / "report.html") in shown.out
    assert "exploratory" in shown.err
    assert (tmp_path / "out" / "report.html").is_file()


@pytest.mark.slow
def test_an_earlier_reports_figures_do_not_linger(study, tmp_path):
    write_report(study["results"], runs=study["runs"], out=tmp_path)
    write_report(table_of({"a": noisy(0.5), "b": noisy(0.6, seed=2)}), out=tmp_path)
    assert not (tmp_path / "figures" / "ledger.svg").exists()


@pytest.mark.slow
@pytest.mark.parametrize("scores", [{"a": [0.5] * 8}, {"a": [0.5], "b": [0.6]},
                                    {"a": [0.5] * 6, "b": [0.5] * 6}])  # fmt: skip
def test_a_table_with_nothing_to_decide_still_makes_a_report(scores, tmp_path):
    write_report(table_of(scores), out=tmp_path)
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "nan" not in re.sub(r"<svg.*?</svg>", "", text, flags=re.S).lower().split()

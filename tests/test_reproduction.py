"""The page of published and found figures is what the committed results say."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
import yaml

from analysis.reproduction import main, report_of, rewritten, section, studies_in

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "reproduction.md"
FOLDERS = studies_in(ROOT / "results")
SMALL = ROOT / "results" / "cifar10"


def test_every_committed_study_has_its_section():
    generated = PAGE.read_text().split("<!-- studies -->")[1]
    assert re.findall(r"^### (.+)$", generated, re.M) == [folder.name for folder in FOLDERS]
    assert section(SMALL, report_of(SMALL)) in generated


@pytest.mark.slow
def test_the_page_is_what_the_command_writes():
    assert rewritten(PAGE.read_text(), FOLDERS) == PAGE.read_text()


def test_the_committed_results_are_small():
    assert sum(f.stat().st_size for f in (ROOT / "results").rglob("*") if f.is_file()) < 3_000_000


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> Path:
    """A folder of results with one study, of which a paper has printed figures."""
    results = tmp_path_factory.mktemp("committed")
    shutil.copytree(SMALL, results / "F9")
    file = results / "F9" / "study.yaml"
    plan = yaml.safe_load(file.read_text())
    plan["published"] = {
        "F1": {"debiased_pos": 0.7676, "contrastive": "~0.744", "source": "Fig. 1 | 2"},
        "F1e": {"source": "Section 3"},
    }
    file.write_text(yaml.safe_dump(plan, sort_keys=False))
    return results


OLD = """# A page
By hand, F1 is <!-- found F9/F1 -->nothing yet<!-- end -->; <!-- found F7/F1 --><!-- end -->, and
<!-- found F9/F2 --><!-- end -->.
<!-- studies -->
old
<!-- end -->
The end.
"""


def test_what_was_written_by_hand_stays_and_the_rest_is_written_anew(results, capsys, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(OLD)
    assert main([str(page), str(results)]) == 0
    text = page.read_text()
    assert text.startswith("# A page\nBy hand, F1 is ")
    assert text.endswith("<!-- end -->\nThe end.\n")
    assert "old" not in text
    assert "−0.07 points \\[−0.8, +0.7\\], refuted: not by the margin ([F9](#f9), F1)" in text
    assert "<!-- found F7/F1 -->not run yet<!-- end -->" in text
    assert "not run yet: F9 has no claim F2" in text
    assert rewritten(text, studies_in(results)) == text


def test_a_row_sets_the_published_figures_beside_ours(results):
    text = section(results / "F9", report_of(results / "F9"))
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| F1 ")]
    ((claim, _, published, difference, found, limits, within, n, verdict),) = rows
    assert claim == "| F1"
    assert published == "debiased\\_pos 76.76 %; contrastive ≈ 74.4 %"
    assert (difference, found, limits) == ("≈ +2.4 points", "−0.07 points", "\\[−0.8, +0.7\\]")
    assert (within, n) == ("no", "8")
    assert verdict.startswith("refuted")
    assert "Published: F1: Fig. 1 \\| 2; F1e: Section 3." in text
    assert "66 trainings" in text
    assert "train\\_limit 2000" in text


def test_reading_committed_results_leaves_them_as_they_are(results):
    """A look at a study that is not complete would be logged, in results that are committed."""
    half = results.parent / "half"
    shutil.copytree(results / "F9", half, dirs_exist_ok=True)
    rows = (half / "results.csv").read_text().splitlines(keepends=True)
    kept = [row for row in rows if row.split(",")[3] in ("seed", "1", "2", "3", "4")]
    (half / "results.csv").write_text("".join(kept))
    (half / "sessions.jsonl").write_text("")
    before = {file: file.read_bytes() for file in half.iterdir()}
    assert "4 paired seeds of 8 planned" in section(half, report_of(half))
    assert {file: file.read_bytes() for file in half.iterdir()} == before


@pytest.mark.parametrize("given", [["gone.md", "results"], ["README.md", "docs"]])
def test_nothing_to_write_from_is_one_message(given, capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert main(given) == 2
    told = capsys.readouterr().err
    assert "nothing to write from" in told
    assert told.count("try:") == 1

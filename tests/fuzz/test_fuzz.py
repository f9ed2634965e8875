"""Does every hostile file end in one message, within 5 s and 1 GB?

A few seeded tries of each fuzzer, and what they and readers have found before. Thousands, by hand:
docs/reliability.md.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from contrastive.data import load_dataset
from contrastive.data.formats import own, pictures
from contrastive.data.types import DataError
from study.errors import StudyError
from study.spec import load_study
from tests.fuzz import data_files, study_files, tables
from tests.fuzz.campaign import campaign
from tests.fuzz.study_files import _BOMB, GOOD

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.parametrize(
    ("fuzzer", "count"), [(study_files, 15), (tables, 10), (data_files, 15)], ids=lambda f: str(f)
)
def test_a_few_tries_go_well(fuzzer, count: int):
    codes, faults = campaign(fuzzer.tried, count=count, seed=0)
    assert not faults, "\n\n".join(faults)
    assert codes[2]


_LEVELS = ", ".join(f"s{i}: {list(range(59))}" for i in range(6))

# What stands in the good file, what stands there instead, what the message must hold.
STUDIES = {
    "a list as a key": ("margin: 0.01", "? [a, b]\n: 1", ": a list stands where a key"),
    "a mapping as a key": ("margin: 0.01", "? {a: b}\n: 1", "a mapping stands where a key"),
    "an impossible date": ("which one?", "2020-13-45", ":2: 2020-13-45 looks like a date"),
    "a wrong tag": ("seeds: 3", "seeds: !!int x", ":22: x looks like a whole number"),
    "a wrong boolean": ("seeds: 3", "seeds: !!bool 7", "7 looks like true or false"),
    "0x_": ("seeds: 3", "seeds: 0x_", "in quotes, if it is a text"),
    "5,000 digits": ("seeds: 3", "seeds: " + "9" * 5000, "looks like a whole number"),
    "500 brackets": ("seeds: 3", "seeds: " + "[" * 500 + "]" * 500, "nested too deeply"),
    "an alias in itself": ("seeds: 3", "seeds: &x [*x]", "stands within its own anchor"),
    "aliases of aliases": ("margin: 0.01", f"margin: [{_BOMB}]", "more than 50,000 values"),
    "half a character": ("which one?", '"\\ud800"', "half of a character, U+D800"),
    "an escape sequence": ("which one?", '"\\e[31m"', "a control character, U+001B"),
    "megabytes": ("margin: 0.01", "#" * 300_000, "more than 200,000 characters"),
    "endless epochs": ("epochs: 4", "epochs: .inf", ":3: trial.epochs is inf"),
    "a grid of 59^6": (
        "arms:\n", f"arms:\n  grid: {{{_LEVELS}}}\n",
        "42,180,533,641 arms",
    ),
    "seeds without end": ("seeds: 3", "seeds: 100000000", "at most 2000"),
    "a seed above 32 bits": ("  seed: 0", "  seed: 4294967296", "at most 4294967295"),
    "a seed above 64 bits": ("  seed: 0", "  seed: 1" + "0" * 20, "a whole number of 67 bits"),
    "a division by zero": (
        "batch_size * num_positives <= 2048", "temperature / 0 > 1", "division by zero",
    ),
    "texts that multiply": (
        "batch_size * num_positives <= 2048", "'a' * 999999999 == 'b'", "can be compared only",
    ),
    "a tiny alpha": ("alpha: 0.05", "alpha: 5.0e-324", "at least 1e-09"),
    "a value that never comes": (
        "{loss: [debiased_pos]}", "{loss: debiased_poss}", "try: when: {loss: debiased_pos}",
    ),
    "when about itself": ("{loss: [debiased_pos]}", "{tau_plus: 0.1}", "about tau_plus itself"),
    "when without a value": ("{loss: [debiased_pos]}", "{loss: []}", "no value of loss"),
    "a step without end": ("log: true}", "step: 5.0e-324}", "a billionth of it is allowed"),
    "a profile not chosen": ("{trial: {epochs: 8}", "{trial: {epoch: 8}", "profile big: "),
    "a profile that is a number": (
        "big: {trial: {epochs: 8}, confirm: {seeds: 5}}", "big: 7", ":28: profile big",
    ),
    "an id that is a mapping": ("id: A,", "id: {a: b},", "id is {'a': 'b'}"),
    "an id that is no number": ("id: A,", "id: .nan,", "1 to 80 characters on one line"),
    "an id without text": ("id: A,", 'id: " ",', "id is ' '"),
    "an id of two lines": ("id: A,", 'id: "a\\nb",', "id is 'a\\nb'"),
    "a window of 5,000 digits": (
        "metric: test/knn_top1", 'metric: "auc(val/knn_top1, epochs 1-' + "9" * 5000 + ')"',
        "is not a metric",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", STUDIES)
def test_a_study_that_cannot_be_meant(case: str, tmp_path):
    before, after, told = STUDIES[case]
    assert before in GOOD
    file = tmp_path / "s.yaml"
    file.write_text(GOOD.replace(before, after, 1))
    with pytest.raises(StudyError) as caught:
        load_study(file, data=False)
    said = str(caught.value)
    assert told in said
    assert said.startswith(f"{file}:")
    assert len(said) < 5000
    assert "allowed" in said


def test_a_constraint_that_divides_by_a_setting_is_no_fault():
    text = GOOD.replace("batch_size * num_positives <= 2048", "1 / (num_positives + 1) < 1")
    assert study_files.loaded(text).code == 0
    assert study_files.loaded(GOOD, "arms.debiased_pos=null", "claims=null").code == 0


TABLES = {
    "a seed of inf": (tables.rows([1, 2, "inf"]), "t.csv:6: seed is 'inf'"),
    "values near 1e308": (tables.rows(range(8), "1e308"), "at most 1e+100 in size"),
    "20,000 seeds": (tables.rows(range(20_000)), "the table has 20,000 seeds"),
    "more cells than columns": ("arm,seed,metric,value\na,1,m,1,2\n", "more cells than the header"),
    "an escape sequence": (tables.rows([1]).replace("a,", "\x1b[31m,"), "U+001B"),
}


@pytest.mark.parametrize("case", TABLES)
def test_a_table_that_cannot_be_used(case: str):
    text, told = TABLES[case]
    outcome = tables.analysed(text)
    assert not outcome.wrong
    assert outcome.code == 2
    assert told in outcome.said


def test_seeds_of_128_bits_stay_apart(tmp_path):
    from analysis.inputs.results_table import read_results

    file = tmp_path / "t.csv"
    file.write_text(tables.rows([2**127, 2**127 + 1, 2**127 + 2]))
    assert read_results(file).frame["seed"].nunique() == 3


def test_a_cell_that_a_spreadsheet_would_run_is_text():
    from analysis.rendering.write import to_csv

    class Cells:
        raw = ({"arm": "=HYPERLINK(1)", "low": -0.5, "high": "-0.5"},)

    assert to_csv(Cells()).splitlines()[1] == "'=HYPERLINK(1),-0.5,-0.5"


def test_a_picture_of_billions_of_pixels():
    content = bytearray(data_files.picture("PNG"))
    content[16:24] = struct.pack(">II", 60_000, 60_000)
    outcome = data_files.read("PNG", bytes(content))
    assert not outcome.wrong
    assert outcome.code == 2
    stream = io.BytesIO()
    Image.new("1", (8000, 8000)).save(stream, "PNG")  # 64 million pixels in some kilobytes
    with pytest.raises(ValueError, match="more than 50 million"):
        pictures.open_picture(io.BytesIO(stream.getvalue()))


def test_a_packed_file_is_unpacked_no_further_than_announced():
    bomb = gzip.compress(data_files.digits() + bytes(50_000_000))
    outcome = data_files.read("idx", bomb, suffix=".gz")
    assert outcome.code == 2
    assert "more than 3136 bytes" in outcome.said
    huge = struct.pack(">IIII", 0x803, *[2**32 - 1] * 3)
    assert "its head announces" in data_files.read("idx", huge).said


def test_labels_without_end_are_refused(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet as files

    row = {"image": [{"bytes": data_files.picture("PNG"), "path": ""}], "label": [30_000_000]}
    files.write_table(pa.table(row), tmp_path / "train.parquet")
    with pytest.raises(DataError, match="label 30000000 among 1 training images"):
        load_dataset("parquet", path=tmp_path, cache_dir=tmp_path / "cache")
    images = np.zeros((4, 8, 8), np.uint8)
    with pytest.raises(DataError, match="label 30000000"):
        own.loaded("m:f", lambda: {"train": (images, np.array([0, 1, 2, 30_000_000]))})


@pytest.mark.parametrize(
    "train",
    [(np.zeros((2, 8, 8), np.uint8), [[0], [1, 2]]), (np.zeros((2, 0, 8), np.uint8), [0, 1])],
)
def test_ragged_labels_and_empty_pictures_are_refused(train):
    with pytest.raises(DataError, match="dataset m:f: train"):
        own.loaded("m:f", lambda: {"train": train})


def test_a_home_that_nobody_has():
    with pytest.raises(DataError, match=r"~nobody-at-all/x.* cannot be looked into"):
        load_dataset("imagefolder", path="~nobody-at-all/x")


PRINTING = (
    "import sys; from analysis.broken_pipe import run; sys.exit(run(lambda: print({!r}) or 0))"
)


def printed(text: str, target, **environment: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-c", PRINTING.format(text)]
    env = os.environ | environment
    return subprocess.run(
        command, stdout=target, stderr=subprocess.PIPE, env=env, cwd=ROOT, check=False
    )


def test_a_terminal_without_unicode_gets_ascii():
    done = printed("2 × 3 − 1 ± τ⁺ ☃", subprocess.PIPE, PYTHONIOENCODING="ascii")
    assert done.stdout == b"2 x 3 - 1 +/- tau+ \\u2603\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has it")
def test_a_full_output_is_one_line():
    with open("/dev/full", "wb") as full:
        done = printed("x" * 20_000, full)
    assert done.returncode == 1
    assert done.stderr == b"the output cannot be written: No space left on device\n"


def test_data_from_python_are_bounded_too():
    nested: dict = {"name": "t"}
    nested["arms"] = nested
    for data in (
        nested,
        {"name": "t\x1b"},
        {"\x1b": 1},
        json.loads('{"margin": 1' + "0" * 30 + "}"),
    ):
        with pytest.raises(StudyError, match=r"too deeply|control character|bits"):
            load_study(data)

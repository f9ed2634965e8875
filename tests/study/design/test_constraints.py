"""Are constraints computed right, and can nothing else be smuggled into them?"""

from __future__ import annotations

import pytest

from study.design.constraints import names_in, satisfied
from study.errors import StudyError
from study.spec.load import load_study

SETTINGS = {"batch_size": 64, "num_positives": 2, "loss": "triplet", "temperature": 0.5}


@pytest.mark.parametrize(
    "expression",
    [
        "batch_size * num_positives <= 128",
        "batch_size % 32 == 0 and temperature < 1",
        "not (loss == 'contrastive' or batch_size < 64)",
        "0.1 < temperature < 0.9",
        "-num_positives + batch_size // 3 >= 19",
        "(batch_size - 4) / num_positives != 31",
        "1 < 2 < 3 > 1",
        "temperature == 0.5 and not False",
    ],
)
@pytest.mark.parametrize("batch_size", [64, 63, 65])
def test_constraints_agree_with_python(expression: str, batch_size: int):
    settings = SETTINGS | {"batch_size": batch_size}
    assert satisfied(expression, settings) is bool(eval(expression, {}, settings))


@pytest.mark.parametrize(
    "expression",
    [
        "__import__('os').getcwd()", "loss.upper() == 'X'", "[1][0] == 1", "lambda: 1",
        "batch_size ** 999999999 > 1", "(x := 3) == 3", "f'{loss}' == ''", "batch_size if 1 else 2",
        "loss in ('a', 'b')", "batch_size <", "", "1 << 99999", "`id`", "(" * 5000,
    ],
)  # fmt: skip
def test_anything_else_is_refused(expression: str):
    with pytest.raises(ValueError, match="not"):
        names_in(expression)


def test_names_are_found_and_nonsense_is_told():
    assert names_in("batch_size * num_positives <= 128") == {"batch_size", "num_positives"}
    with pytest.raises(ValueError, match="cannot be computed"):
        satisfied("loss < 3", SETTINGS)
    with pytest.raises(ValueError, match="cannot be computed"):
        satisfied("1 / (batch_size - 64) > 0", SETTINGS)


@pytest.mark.parametrize(
    ("require", "part"),
    [
        ("batch_sise <= 64", "`batch_sise`, which is no setting"),
        ("batch_size ** 2 < 3", "is not allowed in a constraint"),
        ("batch_size > 4096", "none of 500 random configurations"),
        ("loss < 3", "cannot be computed"),
        ("temperature < 0.2", "search.first is against `temperature < 0.2`"),
    ],
)
def test_faults_of_constraints_are_told_with_their_place(tmp_path, require: str, part: str):
    file = tmp_path / "s.yaml"
    file.write_text(
        "name: t\n"
        "trial: {dataset: digits}\n"
        "arms: {a: {loss: contrastive}}\n"
        "search:\n"
        "  trials_per_arm: 2\n"
        "  space: {temperature: {low: 0.1, high: 1.0}, batch_size: {choices: [32, 64]}}\n"
        "  first: [{temperature: 0.5}]\n"
        f"  require: '{require}'\n"
        "confirm: {seeds: 2}\n"
    )
    with pytest.raises(StudyError) as told:
        load_study(file)
    assert part in str(told.value)
    assert f"{file}:8: " in str(told.value)

"""Study files with one to three hostile changes: each loads, or is refused in one message.

python -m tests.fuzz.study_files --count 5000 --seed 1
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from pathlib import Path

from study.errors import StudyError
from study.planning import gate
from study.spec import load_study
from tests.fuzz.bounded import Outcome, bounded
from tests.fuzz.campaign import main

GOOD = """\
name: t
question: which one?
trial: {dataset: digits, train_limit: 100, epochs: 4, batch_size: 20}
arms:
  contrastive: {loss: contrastive}
  debiased_pos: {loss: debiased_pos}
conditions:
  clean: {}
  blurred: {blur_prob: 0.9}
search:
  trials_per_arm: 3
  seed: 0
  under: clean
  require: "batch_size * num_positives <= 2048"
  space:
    temperature: {low: 0.1, high: 1.0, log: true}
    tau_plus: {low: 0.01, high: 0.3, when: {loss: [debiased_pos]}}
    num_positives: {choices: [1, 2]}
  first: [{temperature: 0.5, tau_plus: 0.1, num_positives: 1}]
  early_stopping: {grace_epochs: 2, reduction_factor: 2}
confirm:
  seeds: 3
claims:
  - {id: A, better: debiased_pos, than: contrastive, metric: test/knn_top1, under: clean}
margin: 0.01
alpha: 0.05
profiles:
  big: {trial: {epochs: 8}, confirm: {seeds: 5}}
"""
_BOMB = ", ".join(f"&a{i} [{', '.join([f'*a{i - 1}'] * 9 if i else ['x'] * 9)}]" for i in range(9))
_NUMBERS = (
    "0", "-1", "1.5", "1e308", "5e-324", "-0.0", ".inf", ".nan", "1" + "0" * 20, "9" * 5000,
    "100000000", "4294967296", "0x_", "0b_", "1_000", "1:5_", "123456789", "1e-17",
)  # fmt: skip
_TEXTS = (
    '""', '" "', '"a\\nb"', '"\\ud800"', '"\\e[31mred"', '"\\0"', '"\\u202eabc"', "=HYPERLINK(1)",
    "~nobody/x", "'a' * 999999999 == 'b'", "x / 0 > 1", "temperature / 0 > 1", "batch_size % 0",
    "'a' < temperature", "debiased_poss", "a:b", ":", "../..", '"' + "a" * 5000 + '"', "×",
    "auc(test/knn_top1, epochs 1-" + "9" * 5000 + ")",
)  # fmt: skip
_OTHERS = (
    "null", "true", "[]", "{}", "[[]]", "{a: b}", "[a, a]", "{[a]: b}", "{? {a: b} : c}",
    "2020-13-45", "2020-02-30", "2020-10-15", "!!int x", "!!bool 7", "!!timestamp x", "!!float [1]",
    "!!binary x", "!!python/name:os.system", "!!set {a}", "[" * 500 + "]" * 500, "[" * 500,
    "&x [*x]", "*nowhere", f"[{_BOMB}]", "{<<: 3}", "[7, 42, 123456789]", "{low: 1, high: 2}",
    "{low: 0.1, high: 1, step: 5e-324}", "{low: 1, high: 4000000000}", "{choices: []}",
    "{choices: [1, .nan]}", "{when: {tau_plus: 1}, low: 0, high: 1}",
    "{grid: {" + ", ".join(f"s{i}: {list(range(59))}" for i in range(6)) + "}}",
)  # fmt: skip
VALUES = (*_NUMBERS, *_TEXTS, *_OTHERS)


def mutated(rng: random.Random) -> str:
    """The good file with values replaced, keys renamed, lines lost, or characters changed."""
    text = GOOD
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        text = rng.choice(_CHANGES)(rng, text)
    return text


def _value(rng: random.Random, text: str) -> str:
    """Another value behind one of the colons, up to the end of what stands there."""
    colons = [i for i, c in enumerate(text[:-1]) if c == ":" and text[i + 1] in " \n"]
    if not colons:
        return text
    start = rng.choice(colons) + 1
    end = start
    while end < len(text) and text[end] not in ",}\n":
        end += 1
    return f"{text[:start]} {rng.choice(VALUES)}{text[end:]}"


def _key(rng: random.Random, text: str) -> str:
    lines = text.splitlines(keepends=True)
    at = rng.randrange(len(lines))
    indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
    lines.insert(at, f"{indent}? {rng.choice(VALUES)}\n{indent}: {rng.choice(VALUES)}\n")
    return "".join(lines)


def _line(rng: random.Random, text: str) -> str:
    lines = text.splitlines(keepends=True)
    at = rng.randrange(len(lines))
    return "".join(lines[:at] + lines[at + 1 :])


def _character(rng: random.Random, text: str) -> str:
    at = rng.randrange(len(text))
    return text[:at] + rng.choice("\t\0[]{}&*!|>%@`'\"#,:?-~\ufeff\x1b×\n ") + text[at + 1 :]


_CHANGES: tuple[Callable[[random.Random, str], str], ...] = (
    _value,
    _value,
    _key,
    _line,
    _character,
)


def tried(rng: random.Random) -> tuple[str, Outcome]:
    """One file, and what became of it."""
    text = mutated(rng)
    return text, loaded(text)


def loaded(text: str | bytes, *overrides: str) -> Outcome:
    """What `load_study` and the plan's warning make of a file."""
    content = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "s.yaml"
        file.write_bytes(content)
        return bounded(lambda: _load(file, overrides))


def _load(file: Path, overrides: tuple[str, ...]) -> int:
    try:
        study = load_study(file, overrides=overrides, data=False)
        print(study.name, study.question, gate(study), study.declared()["claims"])
    except StudyError as error:
        print(error)
        return 2
    return 0


if __name__ == "__main__":
    main(tried)

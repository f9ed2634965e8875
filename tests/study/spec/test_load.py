"""Does every mistake in a study file get one clear message with its place?"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from analysis.inputs.plan import read_plan
from analysis.statistics.power import seeds_for
from contrastive.config import TrainConfig
from contrastive.training.flops import flops_per_view
from contrastive.training.length import extent, views_per_step
from study.design.study import Study
from study.errors import SpecError, StudyError
from study.phases.confirmation import confirmation_jobs
from study.planning import gate
from study.planning.dry_run import plan_lines
from study.spec.load import load_study

GOOD = """\
name: t
trial: {dataset: digits, train_limit: 100, epochs: 4, batch_size: 20}
arms:
  contrastive: {loss: contrastive}
  debiased_pos: {loss: debiased_pos}
conditions:
  clean: {}
  blurred: {blur_prob: 0.9}
search:
  trials_per_arm: 3
  under: clean
  space:
    temperature: {low: 0.1, high: 1.0, log: true}
    tau_plus: {low: 0.01, high: 0.3, when: {loss: [debiased_pos]}}
    num_positives: {choices: [1, 2]}
    aggregation: {choices: [pos_grouping, loss_combination], when: {num_positives: 2}}
  first: [{temperature: 0.5, tau_plus: 0.1, num_positives: 1}]
  early_stopping: {grace_epochs: 2, reduction_factor: 2}
confirm:
  seeds: 3
claims:
  - {id: A, better: debiased_pos, than: contrastive, metric: test/knn_top1, under: clean}
"""


@pytest.fixture
def write(tmp_path: Path):
    def written(text: str) -> Path:
        file = tmp_path / "s.yaml"
        file.write_text(text)
        return file

    return written


def message(file: Path, **options) -> str:
    with pytest.raises(StudyError) as caught:
        load_study(file, **options)
    return str(caught.value)


def line_of(text: str, part: str) -> int:
    return next(i for i, line in enumerate(text.splitlines(), 1) if part in line)


def test_the_good_file_is_good(write):
    study = load_study(write(GOOD))
    assert study.confirm.seed_list == [1, 2, 3]
    assert study.tuned_under == "clean"


@pytest.mark.parametrize("gpus", ["auto", 0, 0.25, 0.6, 1, 1.0, 2, 4.0])
def test_parts_of_a_card_and_whole_cards_are_allowed(write, gpus):
    study = load_study(write(GOOD), overrides=[f"resources.gpus={gpus}"])
    assert study.resources.gpus == gpus


# (what stands in the good file, what stands there instead, what the message must hold)
FAULTS = {
    "two and a half GPUs": (
        "confirm:", "resources: {gpus: 2.5}\nconfirm:",
        ["resources.gpus is 2.5", "allowed: auto, a number of at most 1, or", "try: gpus: 2"],
    ),
    "a figure of features that are not kept": (
        "confirm:", "figures: [embedding]\nconfirm:",
        ["embedding is drawn from the features", "try: confirm: {keep: [features]}"],
    ),
    "a figure of features beside an encoder": (
        "  seeds: 3", "  seeds: 3\n  keep: [encoder]\nfigures: {embedding: [contrastive]}",
        ["try: confirm: {keep: [encoder, features]}"],
    ),
    "a figure of an arm that does not exist": (
        "  seeds: 3", "  seeds: 3\n  keep: [features]\nfigures: {embedding: [debiased_po]}",
        ["no arm is called debiased_po", "allowed: contrastive, debiased_pos", "`debiased_pos`"],
    ),
    "a figure that does not exist": (
        "confirm:", "figures: [embeding]\nconfirm:",
        ["unknown key `figures.embeding`", "allowed: embedding", "try: `embedding`"],
    ),
    "something that cannot be kept": (
        "  seeds: 3", "  seeds: 3\n  keep: [feature]",
        ["confirm.keep has `feature`, which the workload contrastive cannot keep",
         "allowed: features, encoder", "try: `features`"],
    ),
    "unknown key": ("confirm:", "confrim: {}\nconfirm:", ["unknown key `confrim`", "`confirm`"]),
    "unknown key in search": (
        "  under: clean", "  undre: clean", ["unknown key `search.undre`", "`under`"],
    ),
    "unknown setting": (
        "epochs: 4", "epoch: 4", ["unknown setting `trial.epoch`", "`epochs`"],
    ),
    "unknown loss": (
        "contrastive: {loss: contrastive}", "contrastive: {loss: contrastiv}",
        ["arms.contrastive.loss is 'contrastiv'", "debiased_neg", "loss: contrastive"],
    ),
    "a search judged by what is recorded once": (
        "  under: clean", "  under: clean\n  metric: tau_plus",
        ["search.metric has `tau_plus`, by which no trial can be judged", "val/knn_top1"],
    ),
    "a window of what is recorded once": (
        "metric: test/knn_top1,", 'metric: "auc(tau_plus, epochs 0-1)",',
        ["tau_plus is recorded once per run and has no curve", "a value per epoch"],
    ),
    "a search by what is not measured": (
        "train_limit: 100,", "train_limit: 100, validation: false,",
        ["s.yaml:2: search.metric is val/knn_top1, which no training records with validation: fal",
         "no `search`", "search without `validation`"],
    ),
    "a search under a condition that measures nothing": (
        "clean: {}", "clean: {validation: false}",
        ["s.yaml:7: search.metric is val/knn_top1, which no training records", "no `search`"],
    ),
    "an image_size of no image": (
        "train_limit: 100,", "train_limit: 100, image_size: 3,",
        ["s.yaml:2: trial.image_size is 3", "at least 4"],
    ),
    "an image_size above the memory": (
        "train_limit: 100,", "train_limit: 100, image_size: 900_000,",
        ["s.yaml:2: the ", "views of a batch of 900000x900000 pixels", "of memory of this machine",
         "allowed: image_size up to", "try: image_size: 96"],
    ),
    "votes of no temperature": (
        "train_limit: 100,", "train_limit: 100, knn_temperature: 0,",
        ["s.yaml:2: trial.knn_temperature is 0", "0.001"],
    ),
    "tau_plus 0 for debiased_pos": (
        "{loss: debiased_pos}", "{loss: debiased_pos, tau_plus: 0}",
        ["arm debiased_pos", "tau_plus is 0", "(0, 1)", "tau_plus: 0.1"],
    ),
    "tau_plus 0 at the end of its range": (
        "{low: 0.01, high: 0.3,", "{low: 0.0, high: 0.3,",
        ["search.space.tau_plus", "tau_plus is 0", "teaches nothing"],
    ),
    "tau_plus above 1": (
        "{loss: debiased_pos}", "{loss: debiased_pos, tau_plus: 1.2}",
        ["arms.debiased_pos.tau_plus is 1.2", "below 1"],
    ),
    "temperature 0": (
        "batch_size: 20}", "batch_size: 20, temperature: 0}",
        ["trial.temperature is 0", "above 0"],
    ),
    "temperature range below 0": (
        "{low: 0.1, high: 1.0, log: true}", "{low: -0.1, high: 1.0}",
        ["search.space.temperature.low is -0.1", "above 0"],
    ),
    "low above high": (
        "{low: 0.1, high: 1.0, log: true}", "{low: 2.0, high: 1.0}",
        ["search.space.temperature", "not below `high`"],
    ),
    "log from 0": (
        "{low: 0.1, high: 1.0, log: true}", "{low: 0, high: 1.0, log: true}",
        ["search.space.temperature", "above 0"],
    ),
    "neither range nor choices": (
        "{choices: [1, 2]}", "{low: 1}", ["search.space.num_positives", "both `low` and `high`"],
    ),
    "a choice that is no value": (
        "{choices: [1, 2]}", "{choices: [1, two]}",
        ["search.space.num_positives.choices.1 is 'two'", "whole number"],
    ),
    "when on what is not searched": (
        "when: {num_positives: 2}", "when: {num_positive: 2}",
        ["asks about `num_positive`", "neither searched nor set", "num_positives"],
    ),
    "when on a value never drawn": (
        "when: {num_positives: 2}", "when: {num_positives: 5}", ["num_positives: 5, never drawn"],
    ),
    "what defines the contest": (
        "num_positives: {choices: [1, 2]}", "epochs: {choices: [1, 2]}",
        ["`epochs` cannot be searched"],
    ),
    "a first value out of range": (
        "{temperature: 0.5,", "{temperature: 5,", ["temperature: 5, outside", "0.1 to 1"],
    ),
    "a first name not searched": (
        "{temperature: 0.5,", "{temprature: 0.5,", ["`temprature`", "`temperature`"],
    ),
    "batch larger than the training split": (
        "batch_size: 20", "batch_size: 101", ["batch_size is 101", "100 images"],
    ),
    "seeds that overlap the search's": (
        "seeds: 3", "seeds: [0, 1, 2]", ["contains 0, the seed of the search"],
    ),
    "a seed twice": ("seeds: 3", "seeds: [1, 2, 1]", ["1 more than once"]),
    "no seeds": ("seeds: 3", "seeds: 0", ["confirm.seeds is 0", "at least 1"]),
    "a claim that names no arm": (
        "better: debiased_pos, than", "better: debiased_po, than",
        ["debiased_po", "debiased_pos", "contrastive"],
    ),
    "a claim under no condition": (
        "under: clean}\n", "under: cleen}\n", ["cleen", "clean"],
    ),
    "tuned under no condition": (
        "under: clean\n", "under: claen\n", ["`claen`, which does not exist", "under: clean"],
    ),
    "no time left to stop": (
        "grace_epochs: 2", "grace_epochs: 4", ["no time is left to stop", "1 to 3"],
    ),
    "an option of another loss": (
        "{loss: contrastive}", "{loss: contrastive, beta: 1.0}",
        ["the loss contrastive takes no beta"],
    ),
    "a key twice": ("name: t", "name: t\nname: u", ["`name` stands here a second time"]),
    "a name that is a path": ("name: t", "name: ../t", ["`../t` cannot be a name"]),
    "a text for a number": (
        "epochs: 4", "epochs: four", ["trial.epochs is 'four'", "whole number"],
    ),
    "confirm missing": (
        "confirm:\n  seeds: 3\n", "", ["`confirm` is missing", "confirm: {seeds: 8}"],
    ),
    "true for a number of seeds": ("seeds: 3", "seeds: true", ["confirm.seeds is True"]),
    "a text for a number of trials": (
        "trials_per_arm: 3", "trials_per_arm: '3'", ["search.trials_per_arm is '3'"],
    ),
    "an arm with its own test images": (
        "{loss: contrastive}", "{loss: contrastive, split_seed: 3}",
        ["arms.contrastive.split_seed: arms may not differ in `split_seed`", "trial: {split_seed"],
    ),
    "a loss for all arms in a condition": (
        "{blur_prob: 0.9}", "{loss: contrastive}", ["a condition may not set the loss"],
    ),
    "a metric that is not recorded": (
        "seeds: 3", "seeds: 3\n  metrics: [test/knn_top1, test/linear]",
        ["`test/linear`, which no run records", "try: `test/linear_top"],
    ),
    "a rung between evaluations": (
        "batch_size: 20}", "batch_size: 20, eval_every: 4}",
        ["may be stopped at epoch 2", "eval_every: 4 measures nothing"],
    ),
    "a step of a half for whole numbers": (
        "{choices: [1, 2]}", "{low: 1, high: 3, step: 0.5}",
        ["search.space.num_positives.step is 0.5", "step: 1"],
    ),
    "a choice twice": ("{choices: [1, 2]}", "{choices: [1, 2, 1]}", ["a value twice"]),
    "a first value off the grid": (
        "{low: 0.1, high: 1.0, log: true}", "{low: 0.2, high: 1.0, step: 0.2}",
        ["search.first has temperature: 0.5, outside"],
    ),
    "an arm that is a text": (
        "contrastive: {loss: contrastive}", "contrastive: contrastive",
        ["arms.contrastive is 'contrastive'", "mapping"],
    ),
    "an unknown dataset": (
        "dataset: digits", "dataset: digit", ["trial.dataset is 'digit'", "dataset: digits"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", list(FAULTS))
def test_a_fault_is_told_with_its_line_and_what_is_allowed(write, name: str):
    old, new, expected = FAULTS[name]
    assert GOOD.count(old) >= 1
    file = write(GOOD.replace(old, new, 1))
    told = message(file)
    for part in expected:
        assert part in told
    place = told.split(": ", 1)[0]
    assert place.startswith(f"{file}")
    lines = zip(GOOD.splitlines(), file.read_text().splitlines(), strict=False)
    changed = {number for number, (was, now) in enumerate(lines, 1) if was != now}
    if name == "a first value off the grid":
        changed = {line_of(GOOD, "first:")}
    if name not in ("confirm missing", "a key twice"):
        assert int(place.rpartition(":")[2]) in changed


class TestWindows:
    """A window is held against the trainings of its own claim, not against all conditions."""

    TEXT = GOOD.replace(
        "blurred: {blur_prob: 0.9}", "short: {epochs: 2}\n  long: {epochs: 9}"
    ).replace("name: t", "name: t\nmargin: 0.01")

    @pytest.mark.parametrize(
        ("claim", "fits"),
        [
            ("better: debiased_pos, than: contrastive, under: long", 9),
            ("better: debiased_pos, than: contrastive, under: short", 2),
            ("better: debiased_pos, than: contrastive", 4),  # the first condition
            ("equivalent: debiased_pos, to: contrastive, under: long", 9),
            ("less_hurt: debiased_pos, than: contrastive, from: clean, to: long", 4),
            ("less_hurt: debiased_pos, than: contrastive, from: long, to: short", 2),
        ],
    )
    def test_it_ends_within_the_trainings_that_the_claim_is_about(self, write, claim, fits):
        text = self.TEXT.partition("  - {id: A")[0]
        written = text + f'  - {{id: A, {claim}, metric: "auc(val/knn_top1, epochs 1-%s)"}}\n'
        assert load_study(write(written % fits)).claims
        told = message(write(written % (fits + 1)))
        assert f"epochs within 0-{fits}\n" in told
        assert f"epochs 1-{fits})" in told


class TestGridFaults:
    """`sampler: grid` is a whole grid or none."""

    GRID = GOOD.replace("  under: clean\n  space", "  under: clean\n  sampler: grid\n  space")
    FINITE = GRID.replace("{low: 0.1, high: 1.0, log: true}", "{choices: [0.2, 0.5]}").replace(
        "{low: 0.01, high: 0.3,", "{choices: [0.1],"
    )

    def told_at(self, write, text: str, part: str) -> str:
        file = write(text)
        told = message(file)
        assert told.startswith(f"{file}:{line_of(text, part)}: ")
        return told

    def test_every_dimension_that_is_a_continuum(self, write):
        told = self.told_at(write, self.GRID, "temperature:")
        assert "search.space.temperature is a continuum" in told
        assert "allowed: `choices`, whole numbers, or a range with `step`" in told
        assert "try: temperature: {choices: [0.1, 0.32, 1]}" in told
        assert "search.space.tau_plus is a continuum" in told  # of the second arm only

    def test_more_configurations_than_trials(self, write):
        told = self.told_at(write, self.FINITE, "trials_per_arm")
        assert "arm contrastive has 6 configurations" in told  # 2 · (1 + 2)
        assert "trials_per_arm is 3" in told
        assert "try: trials_per_arm: 6" in told
        assert load_study(write(self.FINITE), overrides=["search.trials_per_arm=6"])

    def test_constraints_count(self, write):
        text = self.FINITE.replace("  sampler", "  require: temperature > 0.3\n  sampler")
        assert load_study(write(text)).search.sampler == "grid"

    def test_a_budget(self, write):
        text = self.FINITE.replace("  sampler", "  budget: {epochs: 9}\n  sampler")
        told = self.told_at(write, text.replace("arm: 3", "arm: 6"), "budget")
        assert "could end an arm before" in told

    def test_too_many_to_list(self, write):
        text = self.FINITE.replace("{choices: [0.2, 0.5]}", "{low: 0.1, high: 1, step: 0.00001}")
        assert "more than 10000 configurations" in message(write(text))


class TestMetrics:
    """`search.metric`: one, or several of which the first decides."""

    TEXT = GOOD.replace("  early_stopping: {grace_epochs: 2, reduction_factor: 2}\n", "").replace(
        "  under: clean\n  space", "  under: clean\n  metric: [val/knn_top1, views]\n  space"
    )

    @pytest.mark.parametrize(
        ("metric", "parts"),
        [
            ("[val/knn_top1, vews]", ["`vews`, by which no trial", "try: `views`"]),
            ("val/knn_top", ["`val/knn_top`, by which no trial", "try: `val/knn_top1`"]),
            ("[views, val/knn_top1]", ["begins with views", "try: metric: [val/knn_top1, views]"]),
            ("seconds", ["begins with seconds", "a cost alone does not make a winner"]),
            ("[val/knn_top1, views, views]", ["a metric twice", "each once"]),
            ("[]", ["search.metric is []", "at least 1"]),
            ("3", ["search.metric is 3", "a list"]),
        ],
    )
    def test_by_which_nothing_can_be_judged(self, write, metric: str, parts: list[str]):
        file = write(self.TEXT.replace("[val/knn_top1, views]", metric))
        told = message(file)
        assert told.startswith(f"{file}:{line_of(self.TEXT, 'metric:')}: ")
        for part in parts:
            assert part in told

    def test_early_stopping_takes_one_metric(self, write):
        text = self.TEXT.replace("  under: clean\n", "  under: clean\n  early_stopping: asha\n")
        file = write(text)
        told = message(file)
        assert told.startswith(f"{file}:{line_of(text, 'early_stopping')}: ")
        assert "early_stopping with 2 metrics" in told
        assert "try: early_stopping: none" in told

    def test_the_study_as_resolved_says_what_was_written(self, write):
        several, one = load_study(write(self.TEXT)), load_study(write(GOOD))
        assert several.declared()["search"]["metric"] == ["val/knn_top1", "views"]
        assert one.declared()["search"]["metric"] == "val/knn_top1"
        for study in (several, one):
            again = Study.model_validate(yaml.safe_load(yaml.safe_dump(study.declared())))
            assert again.declared() == study.declared()
            assert again.search == study.search

    def test_the_report_ranks_by_the_first(self, write):
        plan = read_plan(load_study(write(self.TEXT)).declared())
        assert plan.search_metrics[0] == "val/knn_top1"


def test_a_claim_about_what_its_condition_does_not_measure_is_refused(write):
    text = GOOD.replace("blurred: {blur_prob: 0.9}", "whole: {validation: false}")
    curve = 'metric: "auc(val/knn_top1, epochs 2-4)", under: '
    claimed = text.replace("metric: test/knn_top1, under: ", curve)
    load_study(write(claimed))
    found = message(write(claimed.replace("under: clean}", "under: whole}")))
    assert "s.yaml:8: the metric of claim A is val/knn_top1, which no training records" in found
    assert "claims about test metrics" in found
    load_study(write(text))  # a search on one condition, and whole training sets in the other


UNLABELLED = """\
import numpy as np

def load():
    images, labels = np.zeros((60, 8, 8), np.uint8), np.arange(60) % 2
    return {"train": (images, labels), "unlabelled": images, "test": (images, labels)}
"""


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("clean: {}", "clean: {imbalance: 0.2}", 7),
        ("blurred: {blur_prob: 0.9}", "skewed: {imbalance: 0.2}", 8),
        ("{loss: contrastive}", "{loss: contrastive, false_negatives: drop}", 4),
        # The second arm: the first has the same data and needs no labels.
        ("{loss: debiased_pos}\ncond", "{loss: debiased_pos, false_negatives: drop}\ncond", 5),
        ("  space:\n", "  space:\n    false_negatives: {choices: [keep, drop]}\n", 13),
    ],
)
def test_labels_that_are_missing_are_told_where_they_are_needed(write, tmp_path, old, new, line):
    module = f"unlabelled_{line}"
    (tmp_path / f"{module}.py").write_text(UNLABELLED)
    text = GOOD.replace("dataset: digits, train_limit: 100", f'dataset: "{module}:load"')
    assert old in text
    load_study(write(text))
    found = message(write(text.replace(old, new)))
    assert found.count("needs the label of every training image") == 1
    assert f"s.yaml:{line}: " in found
    assert "60 of " in found


def test_all_faults_of_a_file_are_told_together_in_order(write):
    text = GOOD.replace("epochs: 4", "epoch: 4").replace("reduction_factor: 2", "reduction: 2")
    text = text.replace("{loss: debiased_pos}", "{loss: debiased}").replace("seeds: 3", "seds: 3")
    file = write(text)
    with pytest.raises(SpecError) as caught:
        load_study(file)
    told = str(caught.value)
    places = [line_of(text, part) for part in ("epoch: 4", "{loss: debiased}", "reduction: 2")]
    positions = [told.index(f"{file}:{place}: ") for place in places]
    assert positions == sorted(positions)
    assert "seds" in told
    assert len(caught.value.faults) >= 4


def test_a_file_that_does_not_exist(tmp_path):
    told = message(tmp_path / "none.yaml")
    assert "none.yaml: cannot be read" in told
    assert "No such file" in told


def test_a_folder_and_a_binary_file(tmp_path):
    assert "cannot be read" in message(tmp_path)
    (tmp_path / "b.yaml").write_bytes(b"\xff\xfe\x00\x81")
    assert "cannot be read" in message(tmp_path / "b.yaml")


@pytest.mark.parametrize("text", ["a: [1, 2", "a: b: c", "a:\n\t- 1", "a: *nowhere", "%YAML 9"])
def test_yaml_that_does_not_parse(write, text: str):
    file = write(f"name: t\n{text}\n")
    told = message(file)
    assert told.startswith(f"{file}:")
    assert "not valid YAML" in told or "cannot be read" in told


@pytest.mark.parametrize("text", ["", "- 1\n- 2\n", "just words\n", "name:\n"])
def test_a_file_that_is_no_study(write, text: str):
    assert str(write(text)) in message(write(text))


def test_a_dataset_that_is_not_there(write, tmp_path):
    gone = tmp_path / "no" / "cifar"
    file = write(GOOD.replace("dataset: digits", f"dataset: cifar10, dataset_path: {gone}"))
    told = message(file)
    assert f"{file}:2: " in told
    assert str(gone) in told
    assert "arquet" in told
    assert "dataset_path" in told


@pytest.mark.parametrize(
    "value", ["!!python/object/apply:os.mkdir [MADE]", "!!python/name:os.getcwd ''"]
)
def test_python_objects_in_yaml_are_not_built(write, tmp_path, value: str):
    made = tmp_path / "made"
    file = write(GOOD + f"question: {value.replace('MADE', str(made))}\n")
    assert f"{file}:23: " in message(file)
    assert not made.exists()


def test_numbers_like_1e_3_are_numbers(write):
    study = load_study(write(GOOD.replace("batch_size: 20", "batch_size: 20, learning_rate: 1e-3")))
    assert study.trial["learning_rate"] == 1e-3


def test_a_claim_on_a_cost_makes_every_run_report_it_and_the_plan_says_what_seconds_are(write):
    claim = "  - {id: S, better: contrastive, than: debiased_pos, metric: seconds, under: clean}\n"
    study = load_study(write(GOOD + claim))
    assert "seconds" not in study.confirm.metrics
    jobs = confirmation_jobs(study, {arm: {} for arm in study.arms}, Path("."))
    assert {job.required[-1] for job in jobs} == {"seconds"}
    lines = list(plan_lines(study, slots=1))
    assert any(line.startswith("note: S: seconds depend on the machine") for line in lines)


def test_the_plan_says_what_is_searched_in_which_arm_and_where(write):
    lines = plan_lines(load_study(write(GOOD)), slots=1)
    arms = {line.split(":")[0].strip(): line for line in lines if "; searches " in line}
    assert list(arms) == ["contrastive", "debiased_pos"]
    assert ["tau_plus [" in line for line in arms.values()] == [False, True]
    for line in arms.values():
        assert "aggregation {pos_grouping, loss_combination} where num_positives is 2" in line


class TestProfilesAndOverrides:
    TEXT = GOOD + "profiles:\n  big:\n    trial: {epochs: 8}\n    confirm: {seeds: 5}\n"

    def test_a_profile_is_laid_over_the_rest(self, write):
        study = load_study(write(self.TEXT), profile="big")
        assert study.trial == {
            "dataset": "digits",
            "train_limit": 100,
            "epochs": 8,
            "batch_size": 20,
        }
        assert len(study.confirm.seed_list) == 5

    def test_without_a_profile_it_changes_nothing(self, write):
        with_profiles, without = load_study(write(self.TEXT)), load_study(write(GOOD))
        assert with_profiles.model_dump() == without.model_dump()

    def test_an_unknown_profile(self, write):
        told = message(write(self.TEXT), profile="bgi")
        assert "no profile `bgi`" in told
        assert "--profile big" in told

    def test_a_fault_in_a_profile_is_placed_there(self, write):
        text = self.TEXT.replace("{epochs: 8}", "{epochs: 0}")
        told = message(write(text), profile="big")
        assert f":{line_of(text, 'epochs: 0')}: trial.epochs is 0" in told

    def test_figures_of_a_claim_that_a_profile_leaves_out(self, write):
        claim = "{id: B, better: debiased_pos, than: contrastive, metric: test/linear_top1}"
        text = self.TEXT + f"    claims: [{claim}]\n"
        text += "published:\n  A: {contrastive: ~0.744, debiased_pos: 0.7676}\n"
        assert load_study(write(text)).published["A"]["contrastive"] == "~0.744"
        told = message(write(text), profile="big")
        at = line_of(text, "A: {contrastive")
        assert f":{at}: published: no claim is called A" in told
        assert told.count("allowed:") == 1
        left = text.replace("confirm: {seeds: 5}", "published: {A: null}")
        assert load_study(write(left), profile="big").claims[0]["id"] == "B"

    def test_an_override_prevails(self, write):
        study = load_study(
            write(self.TEXT), profile="big", overrides=["trial.epochs=3", "confirm.seeds=[4, 5]"]
        )
        assert study.trial["epochs"] == 3
        assert study.confirm.seed_list == [4, 5]

    @pytest.mark.parametrize(
        ("override", "part"),
        [
            ("trial.epochs=0", "--set trial.epochs: trial.epochs is 0"),
            ("trail.epochs=3", "unknown key `trail`"),
            ("trial.epochs", "has no value"),
            ("trial.epochs=[1", "not valid YAML"),
            ("search.early_stopping=maybe", "search.early_stopping"),
        ],
    )
    def test_a_wrong_override_is_told_as_such(self, write, override: str, part: str):
        assert part in message(write(self.TEXT), overrides=[override])

    def test_search_can_be_switched_off(self, write):
        study = load_study(write(GOOD), overrides=["search=null"])
        assert study.search is None

    @pytest.mark.parametrize(
        ("override", "remedy"),
        [
            ("search={}", "--set search=null"),
            ("arms={}", "--set arms.contrastive=null"),
            ("conditions={}", "--set conditions=null"),
            ("trial={}", "--set trial=null"),
            ("confirm={}", "--set confirm.seeds=8"),
            ("search.space={}", "--set search.space.temperature=null"),
            ("search.early_stopping={}", "--set search.early_stopping=null"),
            ("conditions.blurred={}", "--set conditions.blurred=null"),
        ],
    )
    def test_an_empty_mapping_would_change_nothing_and_is_refused(self, write, override, remedy):
        file = write(GOOD)
        told = message(file, overrides=[override])
        assert told.startswith(f"{file}:{line_of(GOOD, override.split('=')[0].split('.')[-1])}: ")
        assert f"--set {override} would change nothing" in told
        assert "allowed: the keys to change" in told
        assert f"try: {remedy}" in told

    def test_null_takes_a_key_out(self, write):
        file = write(GOOD)
        load = lambda *overrides: load_study(file, overrides=overrides, data=False)  # noqa: E731
        assert list(load("conditions=null", "search.under=null", "claims=null").conditions) == [
            "default"
        ]
        assert list(load("arms.debiased_pos=null", "claims=null").arms) == ["contrastive"]
        assert "aggregation" not in load("search.space.aggregation=null").search.space
        assert load("search.early_stopping=null").search.early_stopping == "none"
        assert load("margin=null").margin is None  # it was not there
        # A setting's null is a value: this condition has all images, whatever `trial` says.
        assert load("conditions.clean.train_limit=null").conditions["clean"] == {
            "train_limit": None
        }

    @pytest.mark.parametrize(
        ("override", "part"),
        [
            ("arms=null", "`arms` is missing"),
            ("confirm=null", "`confirm` is missing"),
            ("arms.debiased_pos=null", "no arm is called debiased_pos"),  # of the claim
            ("serach=null", "unknown key `serach`"),
            ("search=", "--set search= has no value"),
            ("trial.epochs=null", "trial.epochs is None"),
        ],
    )
    def test_what_is_needed_cannot_be_taken_out(self, write, override: str, part: str):
        assert part in message(write(GOOD), overrides=[override])

    def test_a_new_name(self, write):
        assert load_study(write(GOOD), name="other").name == "other"
        assert "--name: " in message(write(GOOD), name="a/b")


def test_a_grid_crosses_its_levels(write):
    data = yaml.safe_load(GOOD)
    data["arms"] = {"grid": {"loss": ["contrastive", "debiased_pos"], "num_positives": [1, 2]}}
    del data["claims"]
    study = load_study(write(yaml.safe_dump(data)))
    assert list(study.arms) == [
        "contrastive-num_positives=1",
        "contrastive-num_positives=2",
        "debiased_pos-num_positives=1",
        "debiased_pos-num_positives=2",
    ]
    assert study.arms["debiased_pos-num_positives=2"] == {
        "loss": "debiased_pos",
        "num_positives": 2,
    }


@pytest.mark.parametrize("profile", [None, "paper"])
def test_the_shipped_studies_are_good(profile):
    root = Path(__file__).parents[3] / "search_spaces"
    study = load_study(root / "pos.yaml", profile=profile, data=False)
    assert len(study.arms) == 3
    assert len(study.conditions) == (3 if profile else 2)
    assert study.search.replicates * study.search.trials_per_arm >= 24
    assert study.about == "method"
    load_study(root / "smoke.yaml")


SPACES = Path(__file__).parents[3] / "search_spaces"


@pytest.mark.parametrize(
    "file", sorted(SPACES.rglob("*.yaml")), ids=lambda f: str(f.relative_to(SPACES))
)
def test_every_shipped_file_and_profile_is_good(file: Path):
    profiles = yaml.safe_load(file.read_text()).get("profiles", {})
    for profile in [None, *profiles]:
        study = load_study(file, profile=profile, data=False)
        assert study.claims
        assert gate(study) == "", "the design cannot decide its claims"


PAPER = [
    ("pos.yaml", "paper"), ("equivalence.yaml", "paper"), ("paper/T1.yaml", "equal_views"),
    *((str(f.relative_to(SPACES)), "paper") for f in sorted(SPACES.glob("paper/*.yaml"))),
]  # fmt: skip


@pytest.mark.parametrize(("name", "profile"), PAPER)
def test_at_the_papers_scale_evaluation_costs_little_beside_training(name, profile):
    """A tenth at most; a quarter where claims ask about each of the first epochs.

    In FLOPs, by PyTorch's counter, on CIFAR-10's 45,000 + 5,000 + 10,000 images.
    """
    study = load_study(SPACES / name, profile=profile, data=False)
    for arm in study.arms:
        config = TrainConfig(**study.fixed(arm, next(iter(study.conditions))))
        cost = flops_per_view(config.encoder, (3, 32, 32), config.projection_dim)
        length = extent(config, 45_000)
        trained = length.all_steps * views_per_step(config) * cost.training
        # The untrained encoder, every `eval_every` epochs, and the last epoch; each the training
        # and the validation split. At the end the test split, the same for the untrained encoder,
        # and two views of the test split.
        evaluations = len({0, *range(0, length.epochs, config.eval_every), length.epochs})
        views = evaluations * 50_000 + 10_000 + 55_000 + 20_000
        assert views * cost.forward / trained <= (0.25 if config.eval_every == 1 else 0.1)


def test_the_equivalence_study_compares_what_is_fast_with_what_is_plain_and_nothing_else():
    study = load_study(SPACES / "equivalence.yaml")
    plain, fast = (vars(TrainConfig(**study.fixed(arm, "default"))) for arm in ("plain", "fast"))
    assert {name for name in plain if plain[name] != fast[name]} == {"compile", "precision"}
    assert (plain["compile"], plain["precision"]) == ("off", "float32")
    needed = seeds_for(study.margin / study.pilot_sd, len(study.claims), power=0.9)
    assert needed <= len(study.confirm.seed_list)

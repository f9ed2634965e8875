"""The commented study file that `contrastive-study new` writes, and the schema of study files."""

from __future__ import annotations

import json
import re
import sys
from typing import Annotated, Any, get_args, get_origin

import yaml

from analysis.inputs.claim_checks import KEYS
from study.design import Study
from study.errors import StudyError
from study.workload import FunctionWorkload, SettingsError, choices_of, load_workload
from study.workload.settings import wrong

_CONTRASTIVE = """\
name: {name}
question: Does debiasing the positives help?
trial:                            # settings of every training
  dataset: scattered_digits
  epochs: 12
arms:                             # the methods that are compared; what an arm sets is not searched
  contrastive:  {{loss: contrastive}}
  debiased_pos: {{loss: debiased_pos}}
search:                           # each arm is tuned on the validation split, with the same budget
  replicates: 8                   # independent searches: claims are about methods, not about luck
  trials_per_arm: 6               # of each
  space:
    temperature:   {{low: 0.1, high: 1.0, log: true}}
    learning_rate: {{low: 3.0e-4, high: 1.0e-2, log: true}}
    tau_plus:      {{low: 0.01, high: 0.3, when: {{loss: debiased_pos}}}}
  first: [{{temperature: 0.5, tau_plus: 0.1}}]    # tried before anything is drawn
  early_stopping: {{grace_epochs: 3, reduction_factor: 3}}
confirm:                          # the winners, trained again on fresh seeds shared by all arms
  seeds: 1                        # of each replicate; without a search: 8
claims:                           # stated before the data are seen; each gets a verdict
  - {{id: C1, better: debiased_pos, than: contrastive, metric: test/linear_top1}}
margin: 0.005                     # smaller differences are practically equal (0.5 points)
"""

_FUNCTION = """\
name: {name}
question: Is one setting of {workload} better than another?
workload: {workload}              # looked for beside this file, then among installed packages
metrics:                          # what it reports by run.report(epoch, metrics)
  val/error:  {{better: lower, unit: fraction}}     # judges trials of the search
  test/error: {{better: lower, unit: fraction}}     # reported once, if run.read_test
trial: {{{trial}}}
arms:                             # what is compared
  first:  {{{first}}}
  second: {{{first}}}    # change this value: the arms are the same so far
{search}confirm:                          # trained again on fresh seeds, shared by all arms
  seeds: {seeds}
claims:                           # stated before the data are seen; each gets a verdict
  - {{id: C1, better: second, than: first, metric: test/error}}
margin: 0.005                     # smaller differences are practically equal
"""

_SEARCH = """\
search:                           # each arm is tuned with the same budget; optional
  replicates: 8                   # independent searches: claims are about methods, not about luck
  trials_per_arm: 6               # of each
  space:                          # ranges {{low, high, log, step}}, or {{choices: [...]}}
{space}
  early_stopping: none            # or {{grace_epochs: 3}}: trials that are behind are stopped
"""


def template(name: str, function: str | None, *, beside: str) -> str:
    """A study file to begin with.

    Args:
        name: of the study.
        function: `module:function` of the user's own, or None for the built-in workload.
        beside: folder where its module is looked for.

    Raises:
        StudyError: there is no such function.
    """
    name = _allowed_name(name)
    if function is None:
        return _CONTRASTIVE.format(name=name)
    try:
        workload = load_workload(function, beside)
    except SettingsError as error:
        lines = (("allowed", error.allowed), ("try", error.remedy))
        hints = [f"\n  {title}: {text}" for title, text in lines if text]
        raise StudyError(f"{error}{''.join(hints)}") from None
    if not isinstance(workload, FunctionWorkload):
        raise StudyError(f"{function} is a workload of its own; see docs/workloads.md")
    compared, *others = [n for n in workload.hints if n != "epochs"] or [""]
    if not compared:
        raise StudyError(
            f"{function} has no setting that two arms could differ in\n"
            "  allowed: parameters that can be passed by name, after `run, *`\n"
            "  try: def train(run, *, learning_rate: float = 0.1, epochs: int = 5)"
        )
    space = [f"    {n}: {_dimension(workload.hints[n], _value(workload, n))}" for n in others]
    epochs = workload.defaults.get("epochs")
    return _FUNCTION.format(
        name=name,
        workload=function,
        trial=f"epochs: {epochs}" if epochs else "",
        first=f"{compared}: {_plain(_value(workload, compared))}",
        search=_SEARCH.format(space="\n".join(space)) if space else "",
        seeds="1                        # of each replicate" if space else "8",
    )


def _allowed_name(text: str) -> str:
    """`text` as a study may be called, and as YAML reads a text: no `2026`, no `on`."""
    name = re.sub(r"[^A-Za-z0-9_.+=-]+", "-", text).strip("_.+=-")[:70] or "my-study"
    try:
        float(name)
    except ValueError:
        return name if yaml.safe_load(name) == name else f"study-{name}"
    return f"study-{name}"


def _value(workload: FunctionWorkload, name: str) -> Any:
    """The default of a setting, or a value of its type."""
    if name in workload.defaults:
        return workload.defaults[name]
    hint = workload.hints[name]
    tried = (*choices_of(hint), 1, 0.1, False, "text", [])
    return next((v for v in tried if wrong(name, hint, v) is None), None)


def _plain(value: Any) -> str:
    """As YAML on one line, with `1.0e-09` where Python would write `1e-09`, a text to YAML 1.1."""
    data = json.loads(json.dumps(value, default=str))
    return yaml.safe_dump(data, default_flow_style=True, width=10**6).removesuffix("...\n").strip()


def _dimension(hint: Any, default: Any) -> str:
    """A range around the default, within the bounds of the type; to be changed by the user."""
    bare = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    if choices_of(bare):
        return f"{{choices: {_plain(choices_of(bare))}}}"
    if isinstance(default, bool):
        return "{choices: [false, true]}"
    if isinstance(default, int | float) and default > 0:
        whole = isinstance(default, int)
        low = _within(hint, default, (0.5,) if whole else (0.1, 0.5, 0.9))
        high = _within(hint, default, (2, 1.5) if whole else (10, 2, 1.1))
        if low < high:
            return f"{{low: {_plain(low)}, high: {_plain(high)}{'' if whole else ', log: true'}}}"
    return f"{{choices: [{_plain(default)}]}}"


def _within(hint: Any, default: float, factors: tuple[float, ...]) -> float:
    """The first multiple of the default that is positive and allowed, else the default."""
    multiples = (type(default)(float(f"{default * factor:g}")) for factor in factors)
    return next((m for m in multiples if m > 0 and wrong("", hint, m) is None), default)


def schema() -> dict[str, Any]:
    """The JSON schema of a study file, for editors: keys, types and bounds."""
    found = Study.model_json_schema(by_alias=True)
    found["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    found["title"], found["description"] = "Study", "A study file of contrastive-study."
    properties = found["properties"]
    del properties["beside"]  # written by us, not by users
    properties["profiles"] = {
        "type": "object",
        "description": "Named sets of changes, chosen with --profile.",
        "additionalProperties": {"type": "object"},
    }
    properties["claims"]["items"] = {"anyOf": [_claim(keys) for keys in KEYS.values()]}
    figure = {"type": ["number", "string"]}
    by_arm = {"anyOf": [figure, {"type": "object", "additionalProperties": figure}]}
    properties["published"] = {
        "type": ["object", "null"],
        "description": "What papers printed, by claim: a figure for each arm, and a source.",
        "additionalProperties": {
            "type": ["object", "null"],
            "properties": {"source": {"type": "string"}},
            "additionalProperties": by_arm,
        },
    }
    # Both may be written shorter than they are kept.
    search = found["$defs"]["Search"]
    one_or_more = [{"type": "string"}, {"items": {"type": "string"}, "type": "array"}]
    search["properties"]["metric"] = {"anyOf": one_or_more}
    search["properties"]["require"] = {"anyOf": one_or_more}
    rules = found["$defs"]["EarlyStopping"]["properties"]["rule"]["enum"]
    early = search["properties"]["early_stopping"]
    early["anyOf"] = [{"$ref": "#/$defs/EarlyStopping"}, {"enum": ["none", *rules]}]
    figures = found["$defs"]["Figures"]["properties"]
    found["properties"]["figures"] = {
        "anyOf": [
            {"$ref": "#/$defs/Figures"},
            {"enum": [*figures]},
            {"items": {"enum": [*figures]}, "type": "array"},
        ]
    }
    for model, name in (("Search", "metric"), ("Confirm", "metrics")):
        required = found["$defs"][model].get("required", [])
        found["$defs"][model]["required"] = [key for key in required if key != name]
    return found


def _claim(keys: tuple[str, ...]) -> dict[str, Any]:
    """The schema of claims of one kind; only the condition may be left out."""
    return {
        "type": "object",
        "properties": {key: {"type": "string"} for key in keys},
        "required": [key for key in keys if key != "under"],
        "additionalProperties": False,
    }


if __name__ == "__main__":  # python -m study.spec.template > docs/study.schema.json
    json.dump(schema(), sys.stdout, indent=1)
    print()

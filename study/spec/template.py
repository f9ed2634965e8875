"""The commented study file that `contrastive-study new` writes, and the schema of study files."""

from __future__ import annotations

import json
import sys
from typing import Any

from study.design import Study
from study.errors import StudyError
from study.workload import FunctionWorkload, SettingsError, choices_of, load_workload

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
  trials_per_arm: 6
  space:
    temperature:   {{low: 0.1, high: 1.0, log: true}}
    learning_rate: {{low: 3.0e-4, high: 1.0e-2, log: true}}
    tau_plus:      {{low: 0.01, high: 0.3, when: {{loss: debiased_pos}}}}
  first: [{{temperature: 0.5, tau_plus: 0.1}}]    # tried before anything is drawn
  early_stopping: {{grace_epochs: 3, reduction_factor: 3}}
confirm:                          # the winners, trained again on fresh seeds shared by all arms
  seeds: 8
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
search:                           # each arm is tuned with the same budget; optional
  trials_per_arm: 8
  space:                          # ranges {{low, high, log, step}}, or {{choices: [...]}}
{space}
  early_stopping: none            # or {{grace_epochs: 3}}: trials that are behind are stopped
confirm:                          # the winners, trained again on fresh seeds shared by all arms
  seeds: 8
claims:                           # stated before the data are seen; each gets a verdict
  - {{id: C1, better: second, than: first, metric: test/error}}
margin: 0.005                     # smaller differences are practically equal
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
    if function is None:
        return _CONTRASTIVE.format(name=name)
    try:
        workload = load_workload(function, beside)
    except SettingsError as error:
        raise StudyError(f"{error}\n  allowed: {error.allowed}") from None
    if not isinstance(workload, FunctionWorkload):
        raise StudyError(f"{function} is a workload of its own; see docs/workloads.md")
    compared, *others = [n for n in workload.hints if n != "epochs"] or ["my_setting"]
    dimensions = [
        f"    {other}: {_dimension(workload.hints[other], workload.defaults.get(other))}"
        for other in others
    ]
    epochs = workload.defaults.get("epochs")
    return _FUNCTION.format(
        name=name,
        workload=function,
        trial=f"epochs: {epochs}" if epochs else "",
        first=f"{compared}: {json.dumps(workload.defaults.get(compared), default=str)}",
        space="\n".join(dimensions) or "    # name: {low: 0.1, high: 1.0}",
    )


def _dimension(hint: Any, default: Any) -> str:
    """A range around the default, to be changed by the user."""
    if choices_of(hint):
        return f"{{choices: {json.dumps(choices_of(hint))}}}"
    if isinstance(default, bool):
        return "{choices: [false, true]}"
    if isinstance(default, int):
        return f"{{low: {max(1, default // 2)}, high: {max(2, default * 2)}}}"
    if isinstance(default, float) and default > 0:
        return f"{{low: {default / 10:g}, high: {default * 10:g}, log: true}}"
    return f"{{choices: [{json.dumps(default, default=str)}]}}"


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
    # Both may be written shorter than they are kept.
    search = found["$defs"]["Search"]
    one_or_more = [{"type": "string"}, {"items": {"type": "string"}, "type": "array"}]
    search["properties"]["metric"] = {"anyOf": one_or_more}
    search["properties"]["require"] = {"anyOf": one_or_more}
    rules = ["none", "asha", "median", "wilcoxon"]
    early = search["properties"]["early_stopping"]
    early["anyOf"] = [{"$ref": "#/$defs/EarlyStopping"}, {"enum": rules}]
    for model, name in (("Search", "metric"), ("Confirm", "metrics")):
        required = found["$defs"][model].get("required", [])
        found["$defs"][model]["required"] = [key for key in required if key != name]
    return found


if __name__ == "__main__":  # python -m study.spec.template > docs/study.schema.json
    json.dump(schema(), sys.stdout, indent=1)
    print()

"""The inputs: the plan with its claims and metrics, and two tables.

`results_table` and `runs_table` load pandas and are imported by their own names.
"""

from __future__ import annotations

from analysis.inputs.claim_checks import DEFAULT_CONDITION, check_claims
from analysis.inputs.metric import FRACTION, Metric, Metrics, parse_metric, selected_on
from analysis.inputs.plan import Claim, Plan, read_plan

__all__ = [
    "DEFAULT_CONDITION",
    "FRACTION",
    "Claim",
    "Metric",
    "Metrics",
    "Plan",
    "check_claims",
    "parse_metric",
    "read_plan",
    "selected_on",
]

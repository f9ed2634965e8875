"""Workloads: what a study trains. The built-in one, or any training function."""

from study.workload.function import FunctionWorkload
from study.workload.interface import Settings, SettingsError, Workload
from study.workload.registry import load_object, load_workload, own_code
from study.workload.run import Diverged, Figures, ReportError, Run, Stopped
from study.workload.settings import allowed, choices_of, integral

__all__ = [
    "Diverged",
    "Figures",
    "FunctionWorkload",
    "ReportError",
    "Run",
    "Settings",
    "SettingsError",
    "Stopped",
    "Workload",
    "allowed",
    "choices_of",
    "integral",
    "load_object",
    "load_workload",
    "own_code",
]

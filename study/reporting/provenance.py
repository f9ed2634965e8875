"""Where a study's numbers come from: commands, versions, hardware, looks at the test split."""

from __future__ import annotations

import csv
import json
import platform
import sys
from importlib import metadata
from typing import Any

from study.environment import gpu_names
from study.records import processor
from study.reporting.looks import looks_at
from study.storage import Folder

PACKAGES = ("torch", "torchvision", "ray", "optuna", "mlflow", "numpy", "scipy", "statsmodels")


LIVE = (
    "those of the confirmation could be watched while it ran (MLflow, runs/); that alone changes"
    " nothing, as the number of units was fixed before. To end early, to grow or to begin again"
    " under another design is listed among the looks"
)


def versions() -> dict[str, str]:
    """Of Python and the packages that figures depend on."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


def hardware() -> dict[str, str]:
    """What the driver's machine is."""
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "processor": processor(),
        "gpus": ", ".join(gpu_names()) or "none",
        "python": sys.executable.rsplit("/", 1)[-1],
    }


def provenance_of(folder: Folder) -> dict[str, Any]:
    """What the report says about where its numbers come from."""
    log = folder.log.entries()
    sessions = [entry for entry in log if {"at", "command"} <= entry.keys()]
    last = sessions[-1] if sessions else {}
    places = [entry["mlflow"] for entry in log if "mlflow" in entry]
    changed = sorted({json.dumps(entry.get("versions", {}), sort_keys=True) for entry in sessions})
    note = {"note": "sessions ran with different versions of packages"} if len(changed) > 1 else {}
    return note | {
        "commands": [f"{entry['at']}  {entry['command']}" for entry in sessions],
        "versions": last.get("versions", {}),
        "hardware": last.get("hardware", {}),
        "hash": folder.hash(),
        "study id": folder.identity(),
        "test split": _test_reads(folder),
        "scores before the end": LIVE,
        "mlflow": places[-1] if places else {},
        "looks": looks_at(folder),
    }


def _test_reads(folder: Folder) -> str:
    """How often the test split was read, and by whom."""
    try:
        with folder.runs_csv.open(newline="") as file:
            rows = [(row["phase"], int(row["test_reads"])) for row in csv.DictReader(file)]
    except (OSError, ValueError, KeyError, TypeError, csv.Error):  # damage is reported elsewhere
        return "not known"
    confirming = [reads for phase, reads in rows if phase == "confirm"]
    searching = sum(reads for phase, reads in rows if phase != "confirm")
    return (
        f"reads in the confirmation: {sum(confirming)}, at most {max(confirming, default=0)} per "
        f"run, after its last epoch; in the search: {searching}"
    )

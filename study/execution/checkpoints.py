"""Checkpoints of a training that is not finished, in the study's folder."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import torch

from contrastive.training.loop import StateError
from study.records.job import Job, Record


def save_checkpoint(job: Job, state: dict[str, Any], records: list[Record]) -> None:
    file = Path(job.checkpoint)
    scratch = file.with_suffix(".part")
    data = {
        "job": job.key,
        "config": job.config,
        "state": state,
        "records": [r.plain() for r in records],
    }
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        torch.save(data, scratch)
        os.replace(scratch, file)  # a reader finds the old or the new one, never half of one
    except (OSError, RuntimeError):  # torch says "file write failed" where the disk is full
        # Costs epochs if the worker dies, never the run. A full disk is the driver's to tell.
        with contextlib.suppress(OSError):
            scratch.unlink(missing_ok=True)


def load_checkpoint(job: Job) -> tuple[dict[str, Any] | None, list[Record]]:
    file = Path(job.checkpoint)
    if not file.exists():
        return None, []
    try:
        data = torch.load(file, weights_only=True, map_location="cpu")
        if (data["job"], data["config"]) != (job.key, job.config):
            raise StateError(f"{file} belongs to another training")
        records = [Record(**record) for record in data["records"]]
    except Exception:  # an unreadable checkpoint costs its epochs, never the run
        file.unlink(missing_ok=True)
        return None, []
    return data["state"], records

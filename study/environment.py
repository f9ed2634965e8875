"""The environment: variables that keep Ray, MLflow and PyTorch quiet and private; GPUs; the cache.

Imported before any of them: they read the variables when they are imported.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from platformdirs import user_cache_path

from study.errors import StudyError

QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AIR_NEW_OUTPUT": "0",
    # Of a worker that was lost the study itself says what it means: it is run again, or failed.
    "RAY_DEDUP_LOGS_SKIP_REGEX": "^A worker died or was killed",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    # Workers before the first job: Tune asks for others, with variables of its own.
    "RAY_prestart_worker_first_driver": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1",  # `gpus: 0` means: the worker sees none
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_FUNCTION_THREAD_TIMEOUT_S": "60",  # 2 s would hang reused workers that unwind slowly
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_ENABLE_ASYNC_LOGGING": "false",
    # A tracking server that does not answer is given up after some 15 s, not after 4 minutes.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "3",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
    "OMP_NUM_THREADS": "1",  # of the driver; workers set theirs from what Ray assigned
    "PYTHONWARNINGS": "ignore::FutureWarning,ignore::DeprecationWarning",
}


def quieten() -> None:
    """Set what the user has not set."""
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)


def gpu_names() -> list[str]:
    """The GPUs that this process may use, asked of their driver's tool: PyTorch costs 400 MB."""
    ask = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    try:
        printed = subprocess.run(ask, capture_output=True, text=True, timeout=30, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    names = [line.strip() for line in printed.splitlines() if line.strip()]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return names if visible is None else names[: len([v for v in visible.split(",") if v.strip()])]


def cache_root() -> Path:
    """The folder of what can be made again: $CONTRASTIVE_CACHE, else the user's own.

    Raises:
        StudyError: it would be in the home folder of a user who does not exist.
    """
    chosen = os.environ.get("CONTRASTIVE_CACHE")
    try:
        folder = Path(chosen) if chosen else user_cache_path("contrastive-study")
        return folder.expanduser().absolute()
    except RuntimeError:
        raise StudyError(
            f"CONTRASTIVE_CACHE is {chosen}, in the home folder of a user who does not exist\n"
            "  try: set it to a folder that can be written"
        ) from None

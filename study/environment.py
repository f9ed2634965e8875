"""Which environment variables keep Ray, MLflow and PyTorch quiet, private and on their cores?

Imported before any of them: they read these when they are imported.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from study.errors import StudyError

QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_AUTH_MODE": "disabled",  # otherwise a local start leaves a token in the home folder
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
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


def check_torchvision(trainings: Iterable[Mapping[str, Any]]) -> None:
    """Refuse to start if a training needs torchvision and it does not match torch.

    Raises:
        StudyError: says so in one line; such a pair fails with a bewildering traceback otherwise.
    """
    if not any(str(t.get("encoder", "")).startswith("resnet") for t in trainings):
        return
    # In a process of its own: the driver does without PyTorch's 400 MB.
    tried = subprocess.run(
        [sys.executable, "-c", "import torchvision"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    if tried.returncode:
        raise StudyError(
            f"torch and torchvision do not match ({_message(tried.stderr)}); "
            "try: pip install --force-reinstall torch torchvision -c constraints.txt"
        )


def _message(traceback: str) -> str:
    """The text of the error that a traceback ends with."""
    last = traceback.strip().splitlines()[-1:] or ["no reason given"]
    return last[0].partition(": ")[2] or last[0]

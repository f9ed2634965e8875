"""Where MLflow keeps the runs, and how they are browsed."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from urllib.parse import urlsplit

from study.masking import masked

LOCAL_UI = "http://127.0.0.1:5000"  # where `mlflow ui` listens unless told otherwise


def tracking_uri() -> str:
    """The user's tracking server, or `mlflow.db` in the working directory."""
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{Path.cwd() / 'mlflow.db'}"


def browse_url() -> str | None:
    """Where the MLflow UI is, without any password; None if that cannot be known.

    A database has none of its own: it is shown where the line of `browse_command` serves it.
    """
    parts = urlsplit(tracking_uri())
    if parts.scheme in ("http", "https"):
        host = parts.netloc.rpartition("@")[2]
        return f"{parts.scheme}://{host}{parts.path.rstrip('/')}"
    return LOCAL_UI if parts.scheme in ("sqlite", "postgresql", "mysql", "mssql", "file") else None


def experiment_page(url: str, experiment: str) -> str:
    """The page of an experiment's runs; without the query it opens on language models."""
    return f"{url}/#/experiments/{experiment}?workflowType=machine_learning"


def browse_command() -> str:
    """The line that opens what was logged in a browser."""
    uri = tracking_uri()
    if uri.startswith(("http://", "https://")):
        return f"open {browse_url()}"
    local = f"sqlite:///{Path.cwd() / 'mlflow.db'}"
    shown = "sqlite:///mlflow.db" if uri == local else uri
    # Without these it starts job workers that take 1.7 GB and outlive it.
    lean = "MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false mlflow ui --workers 1"
    return f"{lean} --backend-store-uri {masked(shown)}"


def ui_command(port: int) -> list[str]:
    """The same as arguments of a process, listening on this machine only."""
    words = ["ui", "--backend-store-uri", tracking_uri(), "--workers", "1"]
    return [sys.executable, "-m", "mlflow", *words, "--host", "127.0.0.1", "--port", str(port)]


def ui_environment() -> dict[str, str]:
    """The environment for `ui_command`."""
    return os.environ | {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}

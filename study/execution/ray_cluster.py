"""Ray on this machine, or a cluster at an address: start, environment, shipped code."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import ray

from study.environment import QUIET
from study.errors import StudyError


def start_ray(address: str | None) -> None:
    """Start Ray on this machine, or join the cluster at `address`.

    Raises:
        StudyError: no cluster answers there.
    """
    common = {"log_to_driver": False, "logging_level": "ERROR"}
    try:
        if address:
            _knock(address)
            ray.init(address=address, runtime_env=_runtime_env() | _shipped(), **common)
        else:
            # "local": without it Ray joins whatever cluster somebody has started on this machine.
            ray.init(
                "local",
                include_dashboard=False,
                num_cpus=own_cores(),
                runtime_env=_runtime_env(),
                **common,
            )
    except (OSError, ValueError, RuntimeError) as error:
        where = f"at {address}" if address else "on this machine"
        raise StudyError(
            f"Ray cannot be started {where}: {str(error).splitlines()[0]}\n"
            "  allowed: the address of a running cluster, e.g. 127.0.0.1:6379, or none"
        ) from None


def _knock(address: str) -> None:
    """Fail at once where nobody answers: Ray itself tries for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), timeout=10).close()


def own_node_alive() -> Callable[[], bool]:
    """A question for later: does Ray's process on this machine live? Tune would wait for ever."""
    own = ray.get_runtime_context().get_node_id()
    return lambda: any(node["NodeID"] == own and node["Alive"] for node in ray.nodes())


def own_cores() -> int:
    """Cores that this process may use, which in a container are fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _runtime_env() -> dict[str, object]:
    # OMP_NUM_THREADS is left to Ray: it sets the number of cores that it assigned.
    quiet = {name: value for name, value in QUIET.items() if name != "OMP_NUM_THREADS"}
    passed = ("CONTRASTIVE_CACHE", "CONTRASTIVE_DATA")
    return {"env_vars": quiet | {n: os.environ[n] for n in passed if n in os.environ}}


def _shipped() -> dict[str, object]:
    """The driver's code, which other machines may not have, or have in another version."""
    here = Path(__file__).parents[2]
    return {
        "py_modules": [str(here / package) for package in ("study", "contrastive", "analysis")],
        "excludes": ["__pycache__"],
    }

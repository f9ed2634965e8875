"""Ray on this machine, or a cluster at an address: start, environment, shipped code."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import secrets
import signal
import socket
from collections.abc import Callable, Sequence

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from study.design import Study
from study.environment import QUIET
from study.errors import StudyError, first_line

# In the folder beside the study file, but no part of the user's code.
_NOT_CODE = ("studies", "mlruns", "mlflow.db*", "data", "results", ".git", ".venv", "venv", "*.pt")


def start_ray(address: str | None, study: Study) -> None:
    """Start Ray on this machine, or join the cluster at `address`.

    Args:
        address: of a running cluster; None: start Ray here.
        study: whose code a cluster's workers are given.

    Raises:
        StudyError: no cluster answers there, or this process uses Ray already.
    """
    if ray.is_initialized():
        raise StudyError(
            "Ray is already in use in this process\n"
            "  try: ray.shutdown() first, or another process: one study runs at a time"
        )
    common = {"log_to_driver": False, "logging_level": "ERROR"}
    try:
        if address:
            _knock(address)
            environment = _runtime_env(study) | _shipped(study)
            ray.init(address=address, runtime_env=environment, **common)
        else:
            _admit_nobody_else()
            # "local": without it Ray joins whatever cluster somebody has started on this machine.
            ray.init(
                "local",
                include_dashboard=False,
                num_cpus=own_cores(),
                runtime_env=_runtime_env(study),
                **common,
            )
    except Exception as error:  # on a machine that is too busy Ray raises no more than that
        where = f"at {address}" if address else "on this machine"
        hint = "allowed: the address of a running cluster, e.g. 127.0.0.1:6379, or none"
        if not address:
            hint = "try: again when the machine is less busy and its disk is not full"
        raise StudyError(f"Ray cannot be started {where}: {first_line(error)}\n  {hint}") from None


def stop_ray() -> None:
    """Leave the cluster, or end Ray on this machine."""
    ray.shutdown()


def _admit_nobody_else() -> None:
    """Give Ray on this machine a token that only this process and its workers know.

    Its ports listen on all addresses, and whoever may talk to one runs code as this user. Where
    the user has chosen a mode or a token, that stays. Without ours Ray would keep one in the home
    folder, for which every later cluster on this machine would ask. It stays in the environment:
    Ray reads it once per process.
    """
    if not any(f"RAY_AUTH_{name}" in os.environ for name in ("MODE", "TOKEN", "TOKEN_PATH")):
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)


def _knock(address: str) -> None:
    """Fail at once where nobody answers: Ray itself tries for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), timeout=10).close()


def own_node_alive() -> Callable[[], bool]:
    """For later: whether Ray's process on this machine lives. Tune would wait for it forever."""
    context = ray.get_runtime_context()
    own, head = context.get_node_id(), context.gcs_address

    def alive() -> bool:
        _knock(head)  # without it Ray would wait a minute for an answer
        return any(node["NodeID"] == own and node["Alive"] for node in ray.nodes())

    return alive


def end_worker(pid: int, node: str) -> None:
    """End a worker that does nothing any more; Ray starts what it ran in another one."""
    if node == ray.get_runtime_context().get_node_id():
        _kill(pid)
    else:
        there = NodeAffinitySchedulingStrategy(node, soft=False)
        ray.remote(_kill).options(num_cpus=0, scheduling_strategy=there).remote(pid)


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)  # a stopped process hears nothing else


def own_cores() -> int:
    """Cores that this process may use, which in a container are fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _runtime_env(study: Study) -> dict[str, object]:
    # OMP_NUM_THREADS is left to Ray: it sets the number of cores that it assigned.
    quiet = {name: value for name, value in QUIET.items() if name != "OMP_NUM_THREADS"}
    passed = {n: os.environ[n] for n in study.trains.environment if n in os.environ}
    return {"env_vars": quiet | passed}


def _shipped(study: Study) -> dict[str, object]:
    """The driver's code, which other machines may not have, or have in another version.

    The folder beside the study file is shipped too where a function of it is trained.
    """
    packages = ("study", "analysis", *study.trains.packages)
    shipped: dict[str, object] = {
        "py_modules": _folders(packages),
        "excludes": ["__pycache__", *(_NOT_CODE if study.beside else ())],
    }
    return shipped | ({"working_dir": study.beside} if study.beside else {})


def _folders(packages: Sequence[str]) -> list[str]:
    found = (importlib.util.find_spec(package) for package in packages)
    return [spec.submodule_search_locations[0] for spec in found if spec is not None]

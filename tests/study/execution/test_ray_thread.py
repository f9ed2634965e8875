"""Does Ray start and stop beside other work, once, and only where a study has started it?"""

from __future__ import annotations

import threading

import pytest

from study import execution
from study.errors import StudyError
from study.execution.ray_thread import RayThread
from study.spec.find_workload import resolved

STUDY = resolved({"name": "t", "arms": {"a": {}}, "confirm": {"seeds": 1}})


@pytest.fixture
def go() -> threading.Event:
    """Lets `start_ray` return."""
    return threading.Event()


@pytest.fixture
def calls(monkeypatch, go) -> list[str]:
    """What is asked of Ray."""
    found: list[str] = []

    def start(address, study) -> None:
        assert go.wait(10)
        found.append(f"start {address}")

    monkeypatch.setattr(execution, "start_ray", start)
    monkeypatch.setattr(execution, "stop_ray", lambda: found.append("stop"))
    return found


def test_it_is_started_once_and_stopped_once(calls, go):
    ray = RayThread("head:6379", STUDY)
    ray.begin()
    ray.begin()
    assert calls == []  # nobody waits for it
    go.set()
    ray.wait()
    ray.wait()
    assert calls == ["start head:6379"]
    ray.end()
    ray.close()
    assert calls == ["start head:6379", "stop"]


def test_what_is_still_starting_is_started_and_then_stopped(calls, go):
    ray = RayThread(None, STUDY)
    ray.begin()
    ray.end()
    go.set()
    ray.close()
    assert calls == ["start None", "stop"]


def test_what_was_never_asked_for_is_left_alone(calls):
    RayThread(None, STUDY).close()
    assert calls == []


def test_a_ray_of_the_users_own_is_not_stopped(monkeypatch, calls):
    def refuse(address, study) -> None:
        raise StudyError("Ray is already in use in this process")

    monkeypatch.setattr(execution, "start_ray", refuse)
    ray = RayThread(None, STUDY)
    with pytest.raises(StudyError, match="already in use"):
        ray.wait()
    ray.close()
    assert calls == []

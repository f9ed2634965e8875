"""Settings for all tests: quiet libraries, one thread, a cache of their own."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from study.environment import quieten

quieten()
# Else the first test that starts Ray by itself leaves a token in the home folder.
os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))

import pytest  # noqa: E402
import torch  # noqa: E402
from hypothesis import settings  # noqa: E402

torch.set_num_threads(1)
# Shared machines stall: a slow example is no failure, and the examples are the same every time.
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable")


# Minutes long. The two test processes take whole files: one begun last would be waited for.
LONG = (
    "test_run",
    "test_fault_injection",
    "test_examples",
    "test_ray_cluster",
    "test_ray_tune",
    "test_bench",
    "test_rebuild",
    "test_damage",
    "test_search",
    "test_calibration_end_to_end",
    "test_benchmarks",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the long files."""
    order = {name: place for place, name in enumerate(LONG)}
    items.sort(key=lambda item: order.get(item.path.stem, len(LONG)))


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory):
    """Neither read nor fill the user's cache of decoded datasets."""
    patch = pytest.MonkeyPatch()
    patch.setenv("CONTRASTIVE_CACHE", str(tmp_path_factory.mktemp("cache")))
    yield
    patch.undo()


@pytest.fixture(scope="session")
def empty_mlflow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database of MLflow without anything in it, to be copied: making its tables takes 3 s."""
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    folder = tmp_path_factory.mktemp("mlflow")
    SqlAlchemyStore(f"sqlite:///{folder / 'mlflow.db'}", str(folder / "artifacts"))
    return folder / "mlflow.db"

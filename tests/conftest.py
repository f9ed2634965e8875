"""Settings for all tests: quiet libraries, one thread, a cache of their own."""

from __future__ import annotations

from study.environment import quieten

quieten()

import pytest  # noqa: E402
import torch  # noqa: E402
from hypothesis import settings  # noqa: E402

torch.set_num_threads(1)
# Shared machines stall: a slow example is no failure, and the examples are the same every time.
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable")


# These start Ray, or processes that train: side by side they would wait for each other's cores.
ONE_AFTER_ANOTHER = (
    "test_benchmarks", "test_cards", "test_cluster", "test_compiled", "test_execution",
    "test_faults", "test_memory", "test_run", "test_store",
)  # fmt: skip


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep heavy files in one of the two test processes, and begin with them."""
    for item in items:
        if item.path.stem in ONE_AFTER_ANOTHER:
            item.add_marker(pytest.mark.xdist_group("heavy"))
    items.sort(key=lambda item: item.path.stem not in ONE_AFTER_ANOTHER)


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory):
    """Neither read nor fill the user's cache of decoded datasets."""
    patch = pytest.MonkeyPatch()
    patch.setenv("CONTRASTIVE_CACHE", str(tmp_path_factory.mktemp("cache")))
    yield
    patch.undo()

"""Where do the images of a training lie, prepared, and how many are there to train on?

They are looked for in the driver: workers may have another working directory.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from contrastive.config import TrainConfig, selection
from contrastive.data import prepare, train_images


def prepared(config: TrainConfig) -> str:
    """The folder of the prepared images that `config` trains on.

    Raises:
        DataError: they cannot be had.
    """
    return _prepared(**selection(config))


def train_count(config: TrainConfig) -> int:
    """How many images `config` trains on; raises as `prepared`."""
    return train_images(prepared(config))


@cache  # a study has many configurations and few datasets
def _prepared(**chosen: Any) -> str:
    return str(prepare(**chosen))

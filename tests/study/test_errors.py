"""Do messages name the cause?"""

from __future__ import annotations

import traceback
from typing import Annotated

import pytest
from pydantic import BaseModel, Field

from study.errors import last_line


class Settings(BaseModel):
    rate: Annotated[float, Field(gt=0)]


def test_of_a_validation_error_the_setting_and_its_fault_are_told():
    try:
        Settings(rate=-1)
    except ValueError:
        told = last_line(traceback.format_exc())
    assert "rate Input should be greater than 0" in told
    assert "https://" not in told
    assert "\n" not in told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Traceback (most recent call last):\n  File x\nOSError: gone", "OSError: gone"),
        ("MemoryError\nout of memory with batch_size 8", "out of memory with batch_size 8"),
        ("the worker was lost", "the worker was lost"),
        ("", "unknown"),
    ],
)
def test_of_others_the_last_line(text, told):
    assert last_line(text) == told

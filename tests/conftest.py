"""What holds for every test."""

from __future__ import annotations

import gc
import logging
import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

import tests.support.airflow_home  # noqa: F401 - before Airflow is imported
from slipway_sandbox.host.images import IMAGE_VARIABLES
from tests.support.examples import EXHAUSTIVE, examples

# How long one example takes says how busy the machine is, nothing about the code. In CI the change decides, not chance.
settings.register_profile(
    "slipway", deadline=None, max_examples=examples(), derandomize=not EXHAUSTIVE, print_blob=True
)
settings.load_profile("slipway")

# Tests import onnxruntime too, and what they start inherits from them. Several workers share the cores, and threads for
# linear algebra in each of them only wait for each other.
os.environ.update(IMAGE_VARIABLES | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"})


class _Loggers(dict[str, Any]):
    """All loggers by name; who goes through them is not disturbed by a thread that makes one."""

    def values(self) -> list[Any]:  # type: ignore[override]
        return list(super().values())


# pytest goes through them before and after each test, while what a fixture has begun may still be importing modules.
logging.Logger.manager.loggerDict = _Loggers(logging.Logger.manager.loggerDict)

# What is imported stays: until all tests are read, the garbage collector would look through more and more in vain.
gc.disable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave what is marked `nightly` to `make nightly`."""
    if EXHAUSTIVE:
        return
    config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("nightly")])
    items[:] = [item for item in items if not item.get_closest_marker("nightly")]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Let the garbage collector begin when all tests are read, and leave alone what was imported until then."""
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()

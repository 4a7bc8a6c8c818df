"""What holds for every test."""

from __future__ import annotations

import gc
import os

from hypothesis import settings

import tests.support.airflow_home  # noqa: F401 - before Airflow is imported
from include.sandbox.host.images import IMAGE_VARIABLES
from tests.support.examples import EXHAUSTIVE, examples

# How long one example takes says how busy the machine is, nothing about the code. In CI the change decides, not chance.
settings.register_profile(
    "slipway", deadline=None, max_examples=examples(), derandomize=not EXHAUSTIVE, print_blob=True
)
settings.load_profile("slipway")

# Tests import onnxruntime too, and what they start inherits from them.
os.environ.update(IMAGE_VARIABLES)


def pytest_collection_finish() -> None:
    """Let the garbage collector leave alone what was imported: it stays, and each full round would look through it."""
    gc.freeze()

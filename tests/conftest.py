"""What holds for every test."""

from __future__ import annotations

import os

from hypothesis import settings

import tests.support.airflow_home  # noqa: F401 - before Airflow is imported
from include.sandbox.host.images import IMAGE_VARIABLES

# How long one example takes says how busy the machine is, nothing about the code.
settings.register_profile("slipway", deadline=None)
settings.load_profile("slipway")

# Tests import onnxruntime too, and what they start inherits from them.
os.environ.update(IMAGE_VARIABLES)

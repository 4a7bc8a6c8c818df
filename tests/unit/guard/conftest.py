"""The log of the guards of one test."""

from __future__ import annotations

import json
from io import StringIO

import pytest

from slipway_guard import log
from tests.support.guard.lines import Lines


@pytest.fixture
def lines() -> Lines:
    """What guards have logged in this test."""
    stream = StringIO()
    log.set_up("info", stream)
    return lambda: [json.loads(line) for line in stream.getvalue().splitlines()]

"""The smoke test's report, read from a pod that may be broken or hostile."""

from __future__ import annotations

import copy
import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway_core.errors import SlipwayError
from slipway_core.gates.smoke_test.report import SmokeTestReport
from tests.support.smoke_reports import report

ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a document."""
    found = [path] if path else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        found += places(inner, (*path, key))
    return found


PLACES = places(report())


@given(st.sampled_from(PLACES), ODD)
def test_a_report_is_read_or_refused(place: tuple[Any, ...], odd: Any) -> None:
    """Whatever stands in the place of any part of it, the report is read and written, or refused."""
    document = copy.deepcopy(report())
    inner = document
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = odd
    with suppress(SlipwayError):
        read = SmokeTestReport.from_json(document)
        json.dumps(read.model_dump(mode="json"), allow_nan=False)


def test_a_report_without_loads_is_none() -> None:
    """An older pod's result is not taken for a pass."""
    with pytest.raises(SlipwayError, match="smoke test"):
        SmokeTestReport.from_json({"outcome": "done"})

"""What the stages of a release are called for people."""

from __future__ import annotations

import pytest

from slipway_core.record.stage_names import stage_name


@pytest.mark.parametrize(
    ("stage", "name"),
    [
        ("smoke_test", "smoke test"),
        ("validate", "validation"),
        ("convert-a100", "convert a100"),
        ("one_of_tomorrow", "one of tomorrow"),
    ],
)
def test_a_stage_has_a_name_for_people(stage: str, name: str) -> None:
    """Also one that this version does not know."""
    assert stage_name(stage) == name

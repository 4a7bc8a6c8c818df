"""Where a rollback acts, read out of a release run that anybody may have written."""

from __future__ import annotations

from typing import Any

import pytest

from slipway.rollback_address import RollbackAddress


def drain_s(value: Any) -> float:
    """What is read where the release file's `drain_s` is this."""
    whole = {
        "release_id": "r",
        "model": "digits",
        "version": 3,
        "bucket": "b",
        "spec": {"rollout": {"drain_s": value}},
    }
    return RollbackAddress.parse(whole).drain_s


@pytest.mark.parametrize(("value", "seconds"), [(0, 0.0), (12, 12.0), (900, 900.0)])
def test_the_grace_of_open_requests_is_the_release_files(value: int, seconds: float) -> None:
    """0 is a grace too: nobody is waited for."""
    assert drain_s(value) == seconds


@pytest.mark.parametrize("value", [None, "30", -1, 901, 1e300, float("nan"), float("inf"), True, [30], {}])
def test_a_grace_that_cannot_be_one_is_the_default(value: Any) -> None:
    """A rollback is not kept from its work, nor made to wait for ever."""
    assert drain_s(value) == 30.0

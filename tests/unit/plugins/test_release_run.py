"""What every task of a release is given, as it lies in an XCom."""

from __future__ import annotations

import json

import pytest

from slipway.release_run import ReleaseRun
from slipway_core.errors import UserError


def run_with(rollout: dict[str, object]) -> str:
    """What a task was given by XCom."""
    spec = {"model": "digits", "source": {"format": "onnx"}, "rollout": rollout}
    run = {"release_id": "manual__1", "model": "digits", "version": 3, "bucket": "b", "stable": None}
    return json.dumps({**run, "spec": spec})


def test_a_run_whose_release_file_is_wrong_is_no_admitted_release() -> None:
    """What is wrong with the release file in an XCom is told as an error of the run."""
    with pytest.raises(
        UserError, match=r"not given an admitted release.*`rollout\.window_s` has a wrong value"
    ):
        ReleaseRun.parse(run_with({"window_s": 0}))

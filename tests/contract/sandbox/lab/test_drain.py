"""From weight 0 to nobody, with streams that their clients never end: real Tritons behind a real Envoy."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.live import leak
from benchmarks.live.session import live_model
from slipway_core.rollout.next_action import StartCanary
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

DRAIN_S = 4
# A client on a busy machine notes an answer so much later than it was given. Pods that are not gone answer for longer.
READ_LATE_S = 1.0
NOBODY = '{"conn_type": "http", "host": "127.0.0.1", "port": 1}'


@pytest.mark.parametrize("mode", leak.MODES)
def test_nobody_is_answered_by_the_candidate_once_that_is_said(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Open streams go on after weight 0, end with the candidate's pods after the grace, and no stable stream breaks."""
    monkeypatch.setattr(leak, "WATCHED_S", 3.0)
    found = leak.measure_mode(mode, DRAIN_S, root=tmp_path / "lab")
    assert (found.unary, found.streams) == (0, 0)
    assert found.late > 0
    assert found.broken == 0
    assert DRAIN_S < found.seconds < DRAIN_S + 25


def test_without_metrics_it_goes_by_time_and_by_pods_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record says that the candidate's pods are gone, and that nobody has counted what was open on them."""
    with live_model(weight=50, drain_s=DRAIN_S, root=tmp_path / "lab") as model:
        release_run = model.publish()
        lease_holder = model.lease_holder(release_run)
        model.drive(
            StartCanary(release_run.storage_uri, 50, release_id=release_run.release_id), lease_holder.take
        )
        candidate = model.observed().revision_of(release_run.storage_uri)
        monkeypatch.setenv("AIRFLOW_CONN_SLIPWAY_METRICS", NOBODY)
        with model.open_streams(8) as streams:
            wait_until(lambda: streams.open_on(candidate) > 0, "a stream on the candidate")
            told, revision = model.roll_back(release_run)
            assert told.weight_0_at is not None
            assert told.drain_seconds is not None
            said = told.weight_0_at.timestamp() + told.drain_seconds
            wait_until(
                lambda: len([one for one in streams.answers if one.at > said]) > 50, "answers after it"
            )
        assert (told.drained, told.open_requests, told.requests_after_weight_0) == ("pods_ended", None, None)
        assert revision == candidate
        assert streams.answered(candidate, since=said + READ_LATE_S) == 0
        assert {one.revision for one in streams.ends} <= {candidate, None}


def test_streams_that_end_by_themselves_are_not_cut(tmp_path: Path) -> None:
    """Within the grace the last of them ends: nobody is on the candidate, and no pod was ended."""
    with live_model(weight=50, drain_s=60, root=tmp_path / "lab") as model:
        release_run = model.publish()
        lease_holder = model.lease_holder(release_run)
        model.drive(
            StartCanary(release_run.storage_uri, 50, release_id=release_run.release_id), lease_holder.take
        )
        candidate = model.observed().revision_of(release_run.storage_uri)
        with model.open_streams(8) as streams:
            wait_until(lambda: streams.open_on(candidate) > 0, "a stream on the candidate")
        told, _ = model.roll_back(release_run)
    assert (told.drained, told.open_requests) == ("counted", 0)
    assert streams.ends == []
    assert told.drain_seconds is not None
    assert told.drain_seconds < 30

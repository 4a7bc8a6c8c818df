from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from slipway_core.errors import SlipwayError
from slipway_sandbox.load.answers import failed_elsewhere, harm_by
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from benchmarks.live.canary import LabModel

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

RATE_RPS = 100.0


def test_a_failing_candidate_is_taken_back_and_costs_nobody_else_anything(model: LabModel) -> None:
    """The judge fails it, one patch leads all users off it, and none of their requests fails on stable."""
    release_run = model.publish(error_percent=100)
    with model.load(RATE_RPS, "failing") as load:
        end = model.watch_step(release_run)
        assert end.weight_0_at is not None
        after = end.weight_0_at + 1.0
        wait_until(lambda: any(one.sent > after for one in load.answers()), "answers after the rollback")
    answers = load.answers()
    assert (end.decision, end.verdict, end.patches) == ("roll_back", "fail", 1)
    harm = harm_by(answers, end.candidate)
    assert harm.bad == harm.answers > 0
    assert {one.protocol for one in answers if one.revision == end.candidate} == {"http", "grpc"}
    assert not [one for one in answers if one.revision == end.candidate and one.sent > end.weight_0_at]
    assert failed_elsewhere(answers, end.candidate) == []
    model.restore(release_run)
    with pytest.raises(SlipwayError, match="rolled back before"):
        model.watch_step(release_run)


def test_a_killed_router_routes_as_before_once_it_is_started_again(model: LabModel) -> None:
    """While it is away nobody is answered; afterwards the same revision answers."""
    revision = answered_by(model)
    model.lab.kill("router")
    with pytest.raises(SlipwayError, match="no answer"), model.load(RATE_RPS, "away", start_limit_s=1.0):
        pass
    model.lab.start("router")
    assert answered_by(model) == revision


@pytest.mark.nightly
def test_a_killed_cluster_brings_its_revisions_back(model: LabModel) -> None:
    """Its Tritons end with it; once it is started again, another one serves the same revision."""
    revision = answered_by(model)
    before = model.lab.triton_of(revision)
    model.lab.kill("cluster")
    model.lab.start("cluster")
    wait_until(lambda: model.lab.triton_of(revision) != before, "another Triton")
    assert answered_by(model) == revision


@pytest.mark.nightly
def test_a_triton_that_does_not_run_is_not_found(model: LabModel) -> None:
    """Whoever asks for the server of an unknown revision is told, and ends no other one."""
    with pytest.raises(SlipwayError, match="no Triton serves"):
        model.lab.triton_of("moody-predictor-09999")


def answered_by(model: LabModel) -> str:
    """The one revision that all requests are answered by."""
    with model.load(RATE_RPS, "probe") as load:
        wait_until(lambda: len(load.answers()) > 20, "answers")
    [revision] = {one.revision for one in load.answers() if one.error is None}
    assert revision is not None
    return revision

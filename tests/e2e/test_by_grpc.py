"""Three versions of a model that is asked by gRPC alone."""

from __future__ import annotations

import pytest

from slipway_core.rollout.servers.served import served_protocol
from slipway_sandbox.demo.chapters import answering_at_the_end
from slipway_sandbox.demo.counts import CandidateSpan
from tests.support.e2e.endings import assert_ended, assert_on_stable, rolled_back_by
from tests.support.e2e.grpc_story import GrpcStory

pytestmark = pytest.mark.nightly


def test_a_good_version_is_promoted_by_grpc(by_grpc: GrpcStory) -> None:
    """The judge sees the requests of gRPC: each step passes, and the version gets all traffic."""
    assert_ended(by_grpc.first, "promoted", run="success")
    assert_ended(by_grpc.second, "promoted", run="success")
    assert [(step.weight, step.verdict) for step in by_grpc.second.state.canary] == [
        (50, "pass"),
        (80, "pass"),
    ]
    assert served_protocol(by_grpc.service.predictor) == "grpc"


def test_a_bad_version_is_taken_back_by_grpc(by_grpc: GrpcStory) -> None:
    """A version that fails live fails by the status of gRPC; users end on the stable version."""
    assert_ended(by_grpc.third, "rolled_back")
    assert rolled_back_by(by_grpc.third) == "judge"
    assert_on_stable(by_grpc.service, by_grpc.third)
    assert set(answering_at_the_end(by_grpc.traffic)) == {"2"}


def test_only_the_bad_version_fails_users(by_grpc: GrpcStory) -> None:
    """Every request was sent by gRPC, and what failed was answered by the bad candidate."""
    assert set(by_grpc.traffic.last.by_protocol) == {"grpc"}
    begin, end = by_grpc.third.times("weight_intended")[0], by_grpc.third.times("release_finished")[0]
    span = CandidateSpan(3, begin.timestamp(), end.timestamp())
    assert set(by_grpc.traffic.failed_on([span])) == {3}

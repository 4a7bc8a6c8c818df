"""Whole releases by the real DAG, with Airflow's real scheduler, on the real control plane, under live traffic.

Knative mode. Pods of conversion and benchmark are processes on a node of the lane (`release/pod_node.py`).
"""

from __future__ import annotations

import pytest

from slipway_core.rollout.dialects.registry import observe
from slipway_sandbox.demo.chapters import answering_at_the_end
from slipway_sandbox.demo.counts import CandidateSpan
from tests.support.conformance.real_cluster import RealCluster
from tests.support.conformance.release.airflow import MODEL
from tests.support.conformance.release.story import BAD, FIRST, GOOD, ReleaseStory, play

# The first test waits for all of it.
pytestmark = pytest.mark.timeout(1500)

GATES = ["convert", "publish", "smoke_test", "stage", "validate", "benchmark", "canary"]


@pytest.fixture(scope="module")
def story(cluster: RealCluster) -> ReleaseStory:
    """Three releases, played once."""
    return play(cluster)


def test_the_first_version_goes_live(story: ReleaseStory) -> None:
    """It passes every gate and gets all traffic; there is nothing to compare it with."""
    assert (story.first.run.state, story.first.state.outcome) == ("success", "promoted")
    assert [stage.name for stage in story.first.state.stages] == [*GATES, "promote"]


def test_a_good_version_is_promoted_and_no_request_fails(story: ReleaseStory) -> None:
    """Step after step through Knative's route; every request of every client is answered."""
    assert (story.good.run.state, story.good.state.outcome) == ("success", "promoted")
    assert [(step.weight, step.verdict) for step in story.good.state.canary] == [(20, "pass"), (99, "pass")]
    counted = story.traffic_after_good
    assert counted.failures == []
    assert set(counted.last.by_protocol) == {"http", "grpc"}
    assert set(counted.last.answered_by) == {str(FIRST), str(GOOD)}


def test_a_version_that_fails_live_is_rolled_back_by_the_judge(
    story: ReleaseStory, capsys: pytest.CaptureFixture[str]
) -> None:
    """Users end on the good version, and only the bad one has failed any."""
    assert (story.bad.run.state, story.bad.state.outcome) == ("failed", "rolled_back")
    (begun,) = [event for event in story.bad.events if event.kind == "rollback_started"]
    assert begun.data.by == "judge"
    assert set(answering_at_the_end(story.traffic)) == {str(GOOD)}
    observed = observe(story.service)
    assert observed.canary_percent is None
    assert observed.storage_uri == story.bad.state.stable_storage_uri
    assert observed.alone(observed.latest_ready)
    begin, end = story.bad.times("weight_intended")[0], story.bad.times("release_finished")[0]
    span = CandidateSpan(BAD, begin.timestamp(), end.timestamp())
    assert set(story.traffic.failed_on([span])) == {BAD}
    canary, met = story.bad.report["canary"], story.traffic.last
    with capsys.disabled():
        print(
            f"\nusers' requests over the three releases: {met.requests}, good answers by version "
            f"{dict(met.answered_by)}; failed {met.failed}, all of them on version {BAD}, "
            f"{canary['seconds_from_first_bad_answer_to_weight_0']:.1f} s from its first bad answer to weight 0"
        )


def test_the_pods_of_a_release_run_by_the_rights_that_are_documented(story: ReleaseStory) -> None:
    """The three pods of each version, which convert, try and measure it, are admitted under the restricted standard."""
    # A pod's name ends with a digest of its try: on a busy machine a benchmark may be measured again.
    ran = {name.rpartition("-")[0] for name in story.phases}
    steps = ("convert", "smoke-test", "benchmark")
    assert ran == {f"{step}-{MODEL}-{version}" for step in steps for version in (FIRST, GOOD, BAD)}
    assert all(phases[-1] == "Succeeded" for phases in story.phases.values())

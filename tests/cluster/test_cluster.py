"""The demo's story, then a rollout by the hooks, on a real cluster of one node, while clients ask its gateway."""

from __future__ import annotations

from collections import Counter

import pytest

from slipway_core.rollout.next_action import Done, Goal, Promote, RollBack, ShiftWeight, StartCanary
from slipway_sandbox.demo.story import RELEASE_DAG
from tests.support.cluster_demo.played import PlayedDemo
from tests.support.cluster_demo.story import GUARDED_VERSION
from tests.support.conformance.release.airflow import MODEL
from tests.support.e2e.running_sandbox import RunningSandbox
from tests.support.waiting import wait_until

# The first test waits for all of it.
pytestmark = pytest.mark.timeout(3600)

STABLE, OTHER = 2, 1
_LIMIT_S, _END_LIMIT_S = 300.0, 900.0


def uri(demo: PlayedDemo, version: int) -> str:
    """The storageUri of a version that the story has published."""
    return f"s3://{demo.running.settings.bucket}/models/{MODEL}/{version}/repository"


def bring(demo: PlayedDemo, goal: Goal) -> None:
    """Bring the InferenceService to a goal by the hooks that releases use."""
    assert isinstance(demo.running.rolled_out.bring(goal, limit_s=_LIMIT_S).action, Done)


def next_answers(demo: PlayedDemo, count: int) -> Counter[str]:
    """Who gives the next answers to clients, by version: at least so many."""

    def answered() -> Counter[str]:
        return Counter(demo.clients.traffic().last.answered_by)

    # They are counted once a second: what is counted now was answered before.
    seen = len(demo.clients.traffic().snapshots)
    wait_until(lambda: len(demo.clients.traffic().snapshots) > seen + 1, "a new count", _LIMIT_S, poll_s=0.5)
    before = answered()
    wait_until(lambda: (answered() - before).total() >= count, f"{count} answers", _LIMIT_S, poll_s=0.5)
    return answered() - before


def test_the_four_versions_end_as_in_the_demo(demo: PlayedDemo) -> None:
    """Promoted, promoted by its event, rolled back by the judge, refused in staging; stable has failed nobody."""
    played = demo.played
    assert played.problems == []
    outcomes = [one.state.outcome for one in played.results if one.state is not None]
    assert outcomes == ["promoted", "promoted", "rolled_back", "refused"]
    assert played.document(0)["traffic"]["failed_on_stable"] == 0


def test_the_guards_pod_ends_a_canary_whose_airflow_was_killed(demo: PlayedDemo) -> None:
    """Within two leases and a minute the candidate has weight 0, and answers nobody any more."""
    guarded = demo.played.guarded
    assert guarded is not None
    assert guarded.weight > 0
    assert guarded.job.startswith("slipway-guard-")
    assert guarded.safe_s <= guarded.patched_s + _LIMIT_S


def test_the_hooks_lead_users_up_back_and_over(demo: PlayedDemo) -> None:
    """20 and 50 percent are what clients see; after the rollback nobody is led back; no request is lost."""
    sandbox = RunningSandbox(demo.running.settings)
    # Airflow comes back: it ends the release that it finds half-way, and must not act beside this test.
    run = sandbox.wait(lambda: next(iter(sandbox.airflow.runs(RELEASE_DAG)), None), "Airflow is back")
    sandbox.ended(MODEL, GUARDED_VERSION, run.run_id, _END_LIMIT_S)
    assert set(next_answers(demo, 50)) == {str(STABLE)}
    failed = len(demo.clients.traffic().failures)
    bring(demo, StartCanary(uri(demo, OTHER), 20, version=OTHER))
    at_20 = next_answers(demo, 200)
    assert 0.08 < at_20[str(OTHER)] / at_20.total() < 0.35, at_20
    bring(demo, ShiftWeight(50, uri(demo, OTHER)))
    at_50 = next_answers(demo, 200)
    assert 0.35 < at_50[str(OTHER)] / at_50.total() < 0.65, at_50
    bring(demo, RollBack(uri(demo, STABLE), uri(demo, OTHER)))
    assert set(next_answers(demo, 100)) == {str(STABLE)}
    # Not the same again: what was rolled back is refused.
    bring(demo, StartCanary(uri(demo, GUARDED_VERSION), 20, version=GUARDED_VERSION))
    bring(demo, Promote(uri(demo, GUARDED_VERSION)))
    assert set(next_answers(demo, 100)) == {str(GUARDED_VERSION)}
    assert demo.clients.traffic().failures[failed:] == []

"""Real requests through a real Envoy to real Tritons, led by the KIngresses of the real Knative."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

import pytest

from slipway_core.errors import CanaryRefusedError, TransientError, UserError
from slipway_core.rollout.next_action import (
    Done,
    FirstDeploy,
    Promote,
    RollBack,
    ShiftWeight,
    StartCanary,
)
from tests.support.conformance.data_plane import data_plane
from tests.support.conformance.rollouts import Rollouts
from tests.support.serving.clients import Load
from tests.support.serving.models import table_model, write_repository
from tests.support.waiting import wait_until

DOUBLES, TREBLES, BROKEN = 1, 2, 3
CONTENTS = {DOUBLES: table_model(2.0), TREBLES: table_model(3.0), BROKEN: b"no model"}
MORE = "dynamic_batching { }"
LOAD_LIMIT_S = 120.0
# Three seconds for the first patch, and what a busy machine takes for the rest.
LEFT_WITHIN_S = 9.0


def live_uri(rollouts: Rollouts, version: int) -> str:
    """Return the storageUri of a version that is this test's alone: pods of the test before may still be ending."""
    return f"s3://{rollouts.namespace}/models/table/{version}/repository"


@dataclass
class Live:
    """Users who ask without a pause, and the InferenceService that answers them."""

    rollouts: Rollouts
    load: Load

    def uri(self, version: int) -> str:
        """Return the storageUri of a version."""
        return live_uri(self.rollouts, version)

    def bring(self, goal: FirstDeploy | StartCanary | ShiftWeight | Promote | RollBack) -> None:
        """Bring the InferenceService to a goal."""
        reached = self.rollouts.bring(goal, limit_s=LOAD_LIMIT_S)
        assert isinstance(reached.action, Done)
        self.rollouts.until_served(reached.action.traffic)

    def answers_of(self, count: int) -> Counter[str]:
        """Return who gives the next answers, by factor: at least so many over each protocol."""
        before = self.load.answers.copy()

        def answered(protocol: str) -> int:
            return sum(n for name, n in (self.load.answers - before).items() if name.startswith(protocol))

        wait_until(lambda: min(answered("http"), answered("grpc")) >= count, f"{count} answers", LOAD_LIMIT_S)
        return self.load.answers - before


@pytest.fixture
def live(knative: Rollouts, tmp_path: Path) -> Iterator[Live]:
    """Version 1, which doubles, is live on a Triton, and users ask it."""
    repositories = {
        live_uri(knative, version): write_repository(
            tmp_path / str(version), versions={1: content}, more=MORE
        )
        for version, content in CONTENTS.items()
    }
    cluster = knative.cluster
    logs = cluster.plane.folder / "logs" / knative.namespace
    with data_plane(repositories, logs, cluster.kubelet.runtimes) as plane:
        behaviour = cluster.gateway.of(knative.namespace)
        behaviour.lead = plane.ingress.lead
        manifest = knative.manifest(1)
        manifest["spec"]["predictor"]["model"]["storageUri"] = live_uri(knative, DOUBLES)
        knative.bring(FirstDeploy(manifest), limit_s=LOAD_LIMIT_S)
        knative.until_served({"digits-predictor-00001": 100})
        with Load(plane.port) as load:
            yield Live(knative, load)
        behaviour.lead = None


def test_no_request_is_lost_while_a_canary_goes_up_and_back(live: Live) -> None:
    """Users of both protocols get an answer to each request, and after the rollback none from the bad version."""
    assert set(live.answers_of(20)) == {"http 2", "grpc 2"}
    live.bring(StartCanary(live.uri(TREBLES), 20, version=2))
    live.bring(ShiftWeight(50, live.uri(TREBLES)))
    assert set(live.answers_of(50)) == {"http 2", "grpc 2", "http 3", "grpc 3"}
    live.bring(RollBack(live.uri(DOUBLES), live.uri(TREBLES)))
    assert set(live.answers_of(50)) == {"http 2", "grpc 2"}
    assert not Counter(live.load.failures)


def test_no_request_is_lost_while_a_candidate_is_promoted(live: Live) -> None:
    """From 20 % to all of them, each request is answered."""
    live.bring(StartCanary(live.uri(TREBLES), 20, version=2))
    live.bring(ShiftWeight(99, live.uri(TREBLES)))
    live.bring(Promote(live.uri(TREBLES)))
    assert set(live.answers_of(50)) == {"http 3", "grpc 3"}
    assert not Counter(live.load.failures)


def test_users_leave_the_candidate_while_kserve_hangs(live: Live, capsys: pytest.CaptureFixture[str]) -> None:
    """The rollback writes the Knative Service's traffic, and no request is lost. KServe leads users to the candidate
    once more when it is back, until the InferenceService has taken percent 0.
    """
    live.bring(StartCanary(live.uri(TREBLES), 50, version=2))
    assert set(live.answers_of(50)) == {"http 2", "grpc 2", "http 3", "grpc 3"}
    processes, back = live.rollouts.cluster.processes, RollBack(live.uri(DOUBLES), live.uri(TREBLES))
    processes.pause("kserve-manager")
    try:
        began_s = time.monotonic()
        with pytest.raises(TransientError):
            live.bring(back)
        assert set(live.answers_of(50)) == {"http 2", "grpc 2"}
        left_after_s = max(live.load.last_s[one] for one in ("http 3", "grpc 3")) - began_s
        assert left_after_s < LEFT_WITHIN_S
        tries, before = len(live.rollouts.progress), live.load.answers.copy()
        again = Thread(target=tried_until_done, args=(live, back))
        again.start()
        # A patch waits for KServe's webhooks then, as one does at almost any moment of a rollback that goes on.
        wait_until(lambda: len(live.rollouts.progress) > tries, "the rollback is tried again")
    finally:
        resumed_s = time.monotonic()
        processes.resume("kserve-manager")
    again.join(2 * LOAD_LIMIT_S)
    assert not again.is_alive()
    assert set(live.answers_of(50)) == {"http 2", "grpc 2"}
    more = live.load.answers - before
    once_more = [one for one in ("http 3", "grpc 3") if more[one]]
    there_s = max((live.load.last_s[one] - resumed_s for one in once_more), default=0.0)
    assert there_s < LEFT_WITHIN_S
    assert not Counter(live.load.failures)
    with capsys.disabled():
        print(
            f"\nKServe hangs: the candidate's last answer {left_after_s:.1f} s after the rollback began; with KServe "
            f"back {sum(more[one] for one in once_more)} of {more.total()}, the last after {there_s:.1f} s"
        )


def tried_until_done(live: Live, goal: RollBack) -> None:
    """Bring the InferenceService to a goal as Airflow does: a task that meets an outage is run again."""
    while True:
        with suppress(TransientError):
            live.bring(goal)
            return


def test_users_notice_nothing_of_a_candidate_that_does_not_load(live: Live) -> None:
    """Triton ends over a model that it cannot load; the canary is refused, and the good version answers on."""
    # Knative's status or the pod's, whichever is seen first: the pod blames what the version was given to run with.
    with pytest.raises((CanaryRefusedError, UserError), match="does not come up"):
        live.bring(StartCanary(live.uri(BROKEN), 20, version=3))
    live.bring(RollBack(live.uri(DOUBLES), live.uri(BROKEN)))
    assert set(live.answers_of(20)) == {"http 2", "grpc 2"}
    assert not Counter(live.load.failures)

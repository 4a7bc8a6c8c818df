"""A pause during a promotion, through the emulated Kubernetes API: what is said of it is true, whoever is faster."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from slipway.hooks.inference_service import KServeHook
from slipway.hooks.lease import LeaseHook
from slipway.operators import pause as pausing
from slipway.operators.pause import PauseCanaryOperator
from slipway.release_run import ReleaseRun, StableVersion
from slipway.traffic.lease_holder import LeaseHolder
from slipway.traffic.reconciler import reconcile
from slipway_core.errors import CanaryPausedError, TimedOutError
from slipway_core.rollout.next_action import Promote, StartCanary
from slipway_core.rollout.reconciler import Reconciliation
from slipway_core.spec.release_file import parse_release_spec
from slipway_sandbox.host.ports import LOOPBACK, free_port
from tests.support.cluster.emulator import Emulator
from tests.support.guard.guarded_canary import CANDIDATE_URI, NAME, STABLE_URI
from tests.support.guard.stage import Stage
from tests.support.store.connections import aws_connection
from tests.support.waiting import wait_until

WEIGHT = 20
LIMIT_S = 30.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    """An emulated cluster that the tests of this file share."""
    emulator = Emulator(tmp_path_factory.mktemp("cluster"))
    emulator.start()
    yield emulator
    emulator.stop()


class Release:
    """A release whose canary has `WEIGHT` percent, and a person who may pause it."""

    def __init__(self, stage: Stage, folder: Path) -> None:
        self.stage = stage
        rollout = {"inference_service": NAME, "namespace": stage.namespace, "lease_s": 30}
        text = json.dumps({"model": "digits", "source": {"format": "onnx"}, "rollout": rollout})
        (folder / "digits.yaml").write_text(text, encoding="utf-8")
        self._folder = folder
        self.release_run = ReleaseRun(
            release_id="digits-3",
            model="digits",
            version=3,
            bucket="slipway",
            spec=parse_release_spec(text, "digits.yaml"),
            stable=StableVersion(version=2, storage_uri=STABLE_URI),
        )
        self.lease = LeaseHook(NAME, stage.namespace)
        self.service = KServeHook(NAME, stage.namespace)
        first = LeaseHolder(self.lease, self.release_run, "canary")
        reconcile(
            self.service, StartCanary(CANDIDATE_URI, WEIGHT), timeout_s=LIMIT_S, permit=first.take_to_raise
        )
        self.lease_holder = LeaseHolder(self.lease, self.release_run, "promotion")

    def ask(self, action: str) -> str:
        """What the DAG `canary_pause` does; returns what it tells."""
        operator = PauseCanaryOperator(task_id="pause", releases_dir=str(self._folder), bucket="slipway")
        params = {"model": "digits", "action": action, "reason": "a person wants to look"}
        context: Any = {
            "params": params,
            "run_id": f"digits-{action}",
            "dag_run": SimpleNamespace(triggering_user_name="carol"),
        }
        return operator.execute(context)

    def promote(self, permit: Callable[[], None]) -> Reconciliation:
        """What the task `promote` does."""
        return reconcile(self.service, Promote(CANDIDATE_URI), timeout_s=LIMIT_S, permit=permit)

    def is_promoted(self) -> bool:
        """Whether all users are on the candidate."""
        observed = self.stage.observed()
        return observed.canary_percent is None and observed.storage_uri == CANDIDATE_URI


@pytest.fixture
def release(
    cluster: Emulator, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Release]:
    """A release in a namespace of its own; the object store is away, which no pause and no resume waits for."""
    kubernetes = {"conn_type": "kubernetes", "extra": {"kube_config_path": str(cluster.kubeconfig)}}
    monkeypatch.setenv("AIRFLOW_CONN_KUBERNETES_DEFAULT", json.dumps(kubernetes))
    monkeypatch.setenv("AIRFLOW_CONN_AWS_DEFAULT", aws_connection(f"http://{LOOPBACK}:{free_port()}"))
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setattr(pausing, "POLL_S", 0.05)
    stage = Stage(cluster, request.node.name.replace("_", "-")[:40].rstrip("-"))
    yield Release(stage, tmp_path)
    stage.close()


@pytest.fixture
def in_parallel() -> Iterator[Callable[[Callable[[], Any]], Future[Any]]]:
    """Does something in parallel to the test."""
    with ThreadPoolExecutor(4) as pool:
        yield pool.submit


Beside = Callable[[Callable[[], Any]], Future[Any]]


def test_a_promotion_that_was_permitted_before_the_pause_is_not_called_paused(
    release: Release, in_parallel: Beside
) -> None:
    """A pause that comes between permit and patch waits, and then tells that the version was promoted."""
    permitted, may_continue = threading.Event(), threading.Event()

    def permit() -> None:
        release.lease_holder.keep_to_raise()
        permitted.set()
        assert may_continue.wait(LIMIT_S)

    promoting = in_parallel(lambda: release.promote(permit))
    assert permitted.wait(LIMIT_S)
    asked = in_parallel(lambda: release.ask("pause"))
    wait_until(lambda: (found := release.lease.get()) is not None and found.paused, "the note", LIMIT_S)
    assert not asked.done()
    may_continue.set()
    promoting.result(LIMIT_S)
    release.lease_holder.keep()  # the promotion's own next renewal, before it gives the lease back
    with pytest.raises(AirflowFailException, match="too late: the version was promoted"):
        asked.result(LIMIT_S)
    assert release.is_promoted()


def test_a_promotion_that_meets_the_pause_patches_nothing(release: Release, in_parallel: Beside) -> None:
    """Its renewal confirms the pause; no patch follows while that stands, and the resume lets it through."""
    asked = in_parallel(lambda: release.ask("pause"))
    wait_until(lambda: (found := release.lease.get()) is not None and found.paused, "the note", LIMIT_S)
    assert not asked.done()
    generation = release.stage.observed().generation
    with pytest.raises(CanaryPausedError, match="a person wants to look"):
        release.promote(release.lease_holder.keep_to_raise)
    assert asked.result(LIMIT_S) == f"paused at {WEIGHT} %"
    with pytest.raises(CanaryPausedError):
        release.promote(release.lease_holder.keep_to_raise)
    assert release.stage.observed().generation == generation
    assert release.stage.candidate_share() == WEIGHT
    assert "continues" in release.ask("resume")
    release.promote(release.lease_holder.keep_to_raise)
    assert release.is_promoted()


def test_pauses_and_promotions_at_any_moment_never_contradict_each_other(
    release: Release, in_parallel: Beside
) -> None:
    """Whoever is faster: after "paused" nothing is promoted, and what was promoted is not called paused."""
    for _ in range(8):
        started = threading.Barrier(2)

        def promote(barrier: threading.Barrier = started) -> bool:
            barrier.wait(LIMIT_S)
            try:
                release.promote(release.lease_holder.keep_to_raise)
            except CanaryPausedError:
                return False
            release.lease_holder.leave()
            return True

        def ask(barrier: threading.Barrier = started) -> str:
            barrier.wait(LIMIT_S)
            try:
                return release.ask("pause")
            except AirflowFailException as error:
                return str(error)

        promoted, asked = in_parallel(promote), in_parallel(ask)
        if promoted.result(LIMIT_S):
            assert re.search("too late|no canary is under way", asked.result(LIMIT_S))
        else:
            assert asked.result(LIMIT_S) == f"paused at {WEIGHT} %"
        assert release.is_promoted() == promoted.result()
        if promoted.result():
            return
        release.ask("resume")


def test_a_pause_that_nobody_confirms_says_so(release: Release, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a holder that does not renew nothing is known: the note stays, with who asked, and nobody is told more."""
    monkeypatch.setattr(pausing, "LONGEST_WAIT_S", 0.5)
    monkeypatch.setattr(pausing, "_SPARE_S", 0.0)
    with pytest.raises(TimedOutError, match="noted but not confirmed"):
        release.ask("pause")
    found = release.lease.get()
    assert found is not None
    assert found.paused == "carol: a person wants to look"


def test_a_canary_that_is_ended_meanwhile_is_not_called_paused(release: Release, in_parallel: Beside) -> None:
    """Who ended it, and why, is what the person is told."""
    asked = in_parallel(lambda: release.ask("pause"))
    wait_until(lambda: (found := release.lease.get()) is not None and found.paused, "the note", LIMIT_S)

    def ended() -> bool:
        found = release.lease.get()
        return (
            found is not None and release.lease.end(found, by="guard", reason="nobody renewed it") is not None
        )

    wait_until(ended, "the end", LIMIT_S)
    with pytest.raises(AirflowFailException, match="ended by guard"):
        asked.result(LIMIT_S)

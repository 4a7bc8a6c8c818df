"""The drain beside a rollback: what hangs or fails costs only what it alone can give."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from slipway.traffic import drain as drain_module
from slipway.traffic.drain import CandidateDrain
from slipway_core.errors import ClusterUnavailableError, MetricsUnavailableError
from slipway_core.rollout.dialects.knative.observed import KnativeObserved
from slipway_core.rollout.observation import Observed
from slipway_core.rollout.pods import drain as rules
from slipway_core.rollout.pods.drain import OpenRequests, ServingPod

BAD, GOOD, URI = "m-predictor-00002", "m-predictor-00001", "s3://b/3"
BAD_POD, GOOD_POD = ServingPod("bad", "u-bad", BAD, URI), ServingPod("good", "u-good", GOOD)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drain_module, "POLL_S", 0.02)
    monkeypatch.setattr(drain_module, "_PATIENCE_S", 5.0)
    for name, seconds in (
        ("QUIET_S", 0.1),
        ("SETTLE_S", 0.2),
        ("UNSEEN_LIMIT_S", 0.3),
        ("GONE_LIMIT_S", 1.0),
    ):
        monkeypatch.setattr(rules, name, seconds)


@dataclass
class Service:
    """Pods, and the traffic that is seen; a pod that is ended goes."""

    pods_there: list[ServingPod] = field(default_factory=lambda: [BAD_POD, GOOD_POD])
    traffic: dict[str, int] = field(default_factory=lambda: {GOOD: 100, BAD: 0})
    ended: list[ServingPod] = field(default_factory=list)
    is_away = False

    def pods(self) -> tuple[ServingPod, ...]:
        """The pods of now."""
        if self.is_away:
            raise ClusterUnavailableError("the API does not answer")
        return tuple(self.pods_there)

    def end_pod(self, pod: ServingPod, grace_s: int) -> bool:
        """Ends it at once."""
        self.ended.append(pod)
        self.pods_there.remove(pod)
        return True


@dataclass
class Source:
    """Counts `active` open requests; hangs until it is let go where it is told to."""

    active: int = 0
    hangs: threading.Event | None = None
    is_away: bool = False

    def open_requests(self, revision: str) -> OpenRequests:
        """One count."""
        if self.hangs is not None:
            self.hangs.wait(10)
        if self.is_away:
            raise MetricsUnavailableError("nobody there")
        return OpenRequests(time.time(), self.active, 10)


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Service:
    one = Service()

    def observed(hook: Any) -> Observed:
        return KnativeObserved("m", "models", "1", 1, URI, 0, BAD, BAD, GOOD, one.traffic)

    monkeypatch.setattr(drain_module, "observe_service", observed)
    return one


@pytest.fixture
def stuck() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def begun(service: Any, metrics: Any, drain_s: float = 0.3) -> CandidateDrain:
    def make(what: Any) -> Any:
        if isinstance(what, Exception):
            raise what
        return what

    one = CandidateDrain(lambda: make(service), lambda: make(metrics), candidate_uri=URI, drain_s=drain_s)
    one.begin(BAD, datetime.now(UTC))
    return one


def test_nobody_waits_for_a_drain_that_has_not_begun() -> None:
    """Weight 0 was never seen: there is nothing to say."""
    one = CandidateDrain(
        lambda: pytest.fail("asked"), lambda: pytest.fail("asked"), candidate_uri=URI, drain_s=60
    )
    one.wait_until_removable()
    assert one.end() is None


def test_a_candidate_with_nobody_on_it_is_said_so_and_left_alone(service: Service) -> None:
    """The router's count shows it; no pod is ended."""
    one = begun(service, Source(), drain_s=60)
    one.wait_until_removable()
    found = one.end()
    assert found is not None
    assert (found.how, found.active, service.ended) == ("counted", 0, [])


@pytest.mark.parametrize("metrics", ["hangs", "away", "missing connection", "counts no open requests"])
def test_without_a_count_pods_are_ended_in_time(
    service: Service, stuck: threading.Event, metrics: str
) -> None:
    """Whatever is wrong with the metrics: nothing but the count is lost."""
    source: Any = {
        "hangs": Source(hangs=stuck),
        "away": Source(is_away=True),
        "missing connection": KeyError("slipway_metrics"),
        "counts no open requests": object(),
    }[metrics]
    found = begun(service, source).end()
    assert found is not None
    assert (found.how, found.active, service.ended) == ("pods_ended", None, [BAD_POD])


def test_pods_stay_while_the_route_leads_anybody_to_them(service: Service) -> None:
    """Somebody gave the candidate users again, or KServe did: they are not cut off, and nobody is said to be gone."""
    service.traffic = {GOOD: 50, BAD: 50}
    found = begun(service, Source(active=3)).end()
    assert found is not None
    assert (found.how, found.is_nobody, service.ended) == ("still_asked", False, [])


@pytest.mark.parametrize("service_or_error", [ClusterUnavailableError("no way"), "away"])
def test_a_cluster_that_cannot_be_asked_leaves_it_unsaid(service: Service, service_or_error: Any) -> None:
    """The rollback ends, and says that nobody can tell."""
    service.is_away = True
    found = begun(service if service_or_error == "away" else service_or_error, KeyError("none")).end()
    assert found is not None
    assert (found.how, found.is_nobody) == ("unseen", False)

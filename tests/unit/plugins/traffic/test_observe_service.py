"""What lies behind an InferenceService is read with it, or it is told why it cannot be."""

from __future__ import annotations

from typing import Any, cast

import pytest

from slipway.hooks.inference_service import KServeHook
from slipway.traffic.reconciler import observe_service, reconcile
from slipway_core.errors import ClusterUnavailableError, TimedOutError
from slipway_core.rollout.dialects.knative.observed import KnativeObserved
from slipway_core.rollout.next_action import RollBack
from slipway_core.rollout.reading import Reading
from slipway_sandbox.lab.simulation.knative_model import live_model
from tests.support.canary.doubles import ServiceDouble
from tests.support.rollout.pod_statuses import crashed, pod

V2, V3 = "s3://b/v2", "s3://b/v3"


class Forbidden(ServiceDouble):
    """A cluster whose account may not read one kind."""

    def __init__(self, kind: str) -> None:
        super().__init__(live_model())
        self.kind = kind
        self.asked: list[str] = []

    def read(self, reading: Reading, uid: str) -> list[dict[str, Any]]:
        """Reads what the dialect asks for, where that is allowed."""
        kind = reading.resource.kind
        self.asked.append(kind)
        if kind == self.kind:
            raise ClusterUnavailableError(f"reading the {kind} failed", found="HTTP 403 Forbidden")
        return super().read(reading, uid)


@pytest.mark.parametrize("kind", ["Knative Service", "Revision"])
def test_what_cannot_be_read_is_told_with_its_reason(kind: str) -> None:
    """The first refusal ends the reading, which would be as long again for an API that hangs."""
    service = Forbidden(kind)
    observed = observe_service(cast(KServeHook, service), behind=True)
    assert isinstance(observed, KnativeObserved)
    assert "403" in observed.unseen
    assert service.asked == ["Knative Service", "Revision"][: 1 + (kind == "Revision")]
    assert observed.knative is None
    assert not observed.revisions


def test_nothing_behind_is_read_unasked() -> None:
    """The first patch of a rollback waits for no other object."""
    service = Forbidden("none")
    observed = observe_service(cast(KServeHook, service))
    assert observed is not None
    assert service.asked == []
    behind = observe_service(cast(KServeHook, service), behind=True)
    assert isinstance(behind, KnativeObserved)
    assert behind.serves("digits-predictor-00002") == V2


def test_pods_are_read_only_where_they_are_asked_for() -> None:
    """Pods that may not be seen are none that are known, and never an empty list."""
    service = Forbidden("none")
    service.shown_pods = [pod(crashed(3))]
    unasked, asked = (observe_service(cast(KServeHook, service), pods=one) for one in (False, True))
    assert unasked is not None
    assert unasked.pods is None
    assert asked is not None
    assert asked.pods is not None
    assert [one.trouble.cause for one in asked.pods if one.trouble] == ["CrashLoopBackOff"]
    service.shown_pods = None
    unseen = observe_service(cast(KServeHook, service), pods=True)
    assert unseen is not None
    assert unseen.pods is None


def test_a_rollback_that_cannot_know_says_so_when_its_time_is_up() -> None:
    """With everybody on the good version it is done as soon as that can be read, and not before."""
    with pytest.raises(TimedOutError, match="403"):
        reconcile(cast(KServeHook, Forbidden("Revision")), RollBack(V2, V3), timeout_s=0.6)
    reconcile(cast(KServeHook, Forbidden("none")), RollBack(V2, V3), timeout_s=5)

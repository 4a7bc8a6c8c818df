"""KServe's Knative state machine, its traps included, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from slipway_sandbox.kserve.annotations import TAG_ROUTING_ANNOTATION
from slipway_sandbox.kserve.knative import machine as knative
from slipway_sandbox.kserve.knative.machine import Predictor
from slipway_sandbox.kserve.knative.status import status_of


@dataclass
class EmulatedService:
    """An InferenceService, its predictor's state, and the moves that tests make."""

    service: dict[str, Any] = field(
        default_factory=lambda: {
            "metadata": {"name": "digits", "namespace": "models", "annotations": {}, "labels": {}},
            "spec": {"predictor": {"model": {"modelFormat": {"name": "triton"}, "storageUri": "s3://b/1"}}},
        }
    )
    predictor: Predictor = field(default_factory=Predictor)

    def apply(self, *, uri: str | None = None, percent: int | str | None = "as it is") -> EmulatedService:
        """Patch the storageUri, the percent (None removes it), or both at once, and settle."""
        spec = self.service["spec"]["predictor"]
        if uri is not None:
            spec["model"]["storageUri"] = uri
        if percent is None:
            spec.pop("canaryTrafficPercent", None)
        elif isinstance(percent, int):
            spec["canaryTrafficPercent"] = percent
        return self.settle()

    def annotate(self, **annotations: str) -> EmulatedService:
        """Change the service's annotations alone."""
        self.service["metadata"]["annotations"].update(annotations)
        return self.settle()

    def becomes(self, number: int, phase: str, message: str = "") -> EmulatedService:
        """Let a revision get ready or fail."""
        name = f"digits-predictor-{number:05d}"
        self.predictor = knative.with_revision(
            self.predictor, name, phase=phase, message=message, exit_code=1
        )
        return self.settle()

    def settle(self) -> EmulatedService:
        """One reconciliation."""
        accepted = knative.accept(self.predictor, self.service)
        percent = self.service["spec"]["predictor"].get("canaryTrafficPercent")
        tags = self.service["metadata"]["annotations"].get(TAG_ROUTING_ANNOTATION) == "true"
        self.predictor = knative.settle(accepted, percent, tag_latest=tags)
        return self

    def shares(self) -> dict[int, int]:
        """The observed traffic as {revision number: percent}."""
        shares: dict[int, int] = {}
        for target in self.predictor.traffic:
            number = int(target.revision[-5:])
            shares[number] = shares.get(number, 0) + target.percent
        return shares

    def marks(self) -> tuple[int, int, int, int]:
        """The numbers of latest created, latest ready, latest and previous rolled-out revision, or 0."""
        created = self.predictor.latest_created
        names = (
            created.name if created else "",
            self.predictor.latest_ready,
            self.predictor.latest_rolledout,
            self.predictor.previous_rolledout,
        )
        first, second, third, fourth = (int(name[-5:] or 0) for name in names)
        return first, second, third, fourth

    def status(
        self,
        previous: Mapping[str, Any] | None = None,
        now: str = "2026-11-20T10:00:00Z",
        *,
        is_routed: bool = True,
    ) -> dict[str, Any]:
        """The status that would be written."""
        return status_of(
            self.predictor,
            name="digits",
            namespace="models",
            domain="sandbox.test",
            previous=previous or {},
            now=now,
            is_routed=is_routed,
        )


def stable_service() -> EmulatedService:
    """A service of which revision 1 is rolled out."""
    return EmulatedService().apply().becomes(1, "ready")


def condition(status: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """One condition of a status."""
    found: dict[str, Any] = next(one for one in status["conditions"] if one["type"] == kind)
    return found


def test_first_deploy_gets_everything_once_ready() -> None:
    """The first revision has no traffic until it is ready, then all of it."""
    emulated = EmulatedService().apply()
    assert (emulated.shares(), emulated.marks()) == ({}, (1, 0, 0, 0))
    emulated.becomes(1, "ready")
    assert (emulated.shares(), emulated.marks()) == ({1: 100}, (1, 1, 1, 0))


def test_percent_is_ignored_on_the_first_deploy() -> None:
    """A percent on the first deploy does not keep the first revision from all the traffic."""
    emulated = EmulatedService().apply(percent=5).becomes(1, "ready")
    assert emulated.shares() == {1: 100}
    assert emulated.predictor.latest_rolledout == "digits-predictor-00001"


def test_canary_starts_when_ready() -> None:
    """A new URI with a percent moves nothing until the new revision is ready, then just the percent."""
    emulated = stable_service().apply(uri="s3://b/2", percent=5)
    assert (emulated.shares(), emulated.marks()) == ({1: 100}, (2, 1, 1, 0))
    emulated.becomes(2, "ready")
    assert (emulated.shares(), emulated.marks()) == ({2: 5, 1: 95}, (2, 2, 1, 0))


def test_percent_moves_without_a_new_revision() -> None:
    """A change of the percent alone makes no revision."""
    emulated = stable_service().apply(uri="s3://b/2", percent=5).becomes(2, "ready").apply(percent=50)
    assert (emulated.shares(), emulated.marks()) == ({2: 50, 1: 50}, (2, 2, 1, 0))


def test_promotion_is_the_removal_of_the_percent() -> None:
    """Without the percent the ready candidate gets everything and is recorded as rolled out."""
    emulated = stable_service().apply(uri="s3://b/2", percent=99).becomes(2, "ready").apply(percent=None)
    assert (emulated.shares(), emulated.marks()) == ({2: 100}, (2, 2, 2, 1))


def test_explicit_hundred_is_a_promotion_too() -> None:
    """A percent of 100 leaves no second target and rolls the candidate out."""
    emulated = stable_service().apply(uri="s3://b/2", percent=50).becomes(2, "ready").apply(percent=100)
    assert (emulated.shares(), emulated.marks()) == ({2: 100}, (2, 2, 2, 1))


def test_canary_that_never_gets_ready_gets_nothing() -> None:
    """A candidate that fails leaves all traffic on the stable one; the status says why in modelStatus alone."""
    emulated = stable_service().apply(uri="s3://b/2", percent=20).becomes(2, "failed", "cannot load")
    assert (emulated.shares(), emulated.marks()) == ({1: 100}, (2, 1, 1, 0))
    status = emulated.status()
    assert status["modelStatus"]["transitionStatus"] == "BlockedByFailedLoad"
    assert status["modelStatus"]["states"] == {
        "activeModelState": "Loaded",
        "targetModelState": "FailedToLoad",
    }
    assert status["modelStatus"]["lastFailureInfo"]["message"] == "cannot load"
    for kind in ("PredictorConfigurationReady", "PredictorReady", "Ready"):
        assert condition(status, kind)["status"] == "Unknown"
    assert condition(status, "PredictorRouteReady")["status"] == "True"
    assert condition(status, "RoutesReady")["status"] == "True"


def test_traffic_is_told_before_the_ingress_has_taken_it() -> None:
    """Trap: the status has the intended traffic, and its rolled out revision, while the route is Unknown."""
    emulated = stable_service()
    before = emulated.status()
    emulated.apply(uri="s3://b/2", percent=20).becomes(2, "ready").apply(percent=None)
    status = emulated.status(before, is_routed=False)
    assert emulated.shares() == {2: 100}
    assert status["components"]["predictor"]["latestRolledoutRevision"] == "digits-predictor-00002"
    route = condition(status, "PredictorRouteReady")
    assert (route["status"], route["reason"]) == ("Unknown", "IngressNotConfigured")
    assert condition(status, "RoutesReady")["reason"] == "PredictorRouteReady not ready"
    assert condition(status, "Ready")["reason"] == "IngressNotConfigured"
    assert condition(status, "IngressReady")["status"] == "True"
    assert status["modelStatus"]["transitionStatus"] == "InProgress"
    assert condition(emulated.status(status), "Ready")["status"] == "True"


def test_a_service_has_no_address_before_its_route_was_ready_once() -> None:
    """Until the first traffic is routed there is no url and no address; later on both stay."""
    emulated = stable_service()
    first = emulated.status(is_routed=False)
    assert "url" not in first
    assert {"url", "address"}.isdisjoint(first["components"]["predictor"])
    assert condition(first, "IngressReady")["status"] == "Unknown"
    ready = emulated.status(first)
    address = {"url": "http://digits-predictor.models.svc.cluster.local"}
    assert ready["components"]["predictor"]["address"] == address
    emulated.apply(uri="s3://b/2", percent=20).becomes(2, "ready")
    later = emulated.status(ready, is_routed=False)
    assert later["components"]["predictor"]["address"] == address
    assert later["url"] == ready["url"]


def test_failure_of_the_past_stays_in_the_status() -> None:
    """Trap: after a good candidate has followed, the last failure is still told."""
    emulated = stable_service().apply(uri="s3://b/2", percent=20).becomes(2, "failed", "cannot load")
    status = emulated.apply(uri="s3://b/3").becomes(3, "ready").status()
    assert status["modelStatus"]["transitionStatus"] == "UpToDate"
    assert status["modelStatus"]["lastFailureInfo"]["message"] == "cannot load"


def test_four_phase_rollback_never_leaves_the_good_model() -> None:
    """Percent to 0, the good URI at 0, wait, remove the percent: the bad revision gets nothing meanwhile."""
    emulated = stable_service().apply(uri="s3://b/2", percent=20).becomes(2, "ready")
    assert emulated.apply(percent=0).shares() == {2: 0, 1: 100}
    assert emulated.apply(uri="s3://b/1").shares() == {2: 0, 1: 100}
    assert emulated.becomes(3, "ready").shares() == {3: 0, 1: 100}
    assert emulated.apply(percent=None).shares() == {3: 100}
    assert emulated.marks() == (3, 3, 3, 1)


def test_old_uri_without_percent_sends_everything_to_the_bad_one() -> None:
    """Trap: the old URI and the removal of the percent in one patch give the bad revision all the traffic."""
    emulated = stable_service().apply(uri="s3://b/2", percent=20).becomes(2, "ready")
    emulated.apply(uri="s3://b/1", percent=None)
    assert (emulated.shares(), emulated.marks()) == ({2: 100}, (3, 2, 2, 1))
    assert emulated.becomes(3, "ready").shares() == {3: 100}


def test_removal_of_percent_zero_promotes_the_bad_one() -> None:
    """Trap: after a rollback by percent 0 alone, removing the percent promotes the bad revision."""
    emulated = stable_service().apply(uri="s3://b/2", percent=20).becomes(2, "ready").apply(percent=0)
    assert emulated.apply(percent=None).shares() == {2: 100}


def test_percent_without_a_new_spec_falls_back_to_the_previous_model() -> None:
    """Trap: a percent set after full rollout moves the rest to the revision before."""
    emulated = stable_service().apply(uri="s3://b/2", percent=50).becomes(2, "ready").apply(percent=None)
    emulated.apply(percent=10)
    assert (emulated.shares(), emulated.marks()) == ({2: 10, 1: 90}, (2, 2, 1, 1))


def test_same_uri_again_makes_no_revision() -> None:
    """Applying the present URI once more changes nothing."""
    emulated = stable_service()
    before = emulated.predictor
    assert emulated.apply(uri="s3://b/1").predictor == before


def test_pending_revision_in_between_becomes_latest_when_ready() -> None:
    """Trap: of two candidates in a row the first one gets the percent if it is ready first."""
    emulated = stable_service().apply(uri="s3://b/2", percent=5).apply(uri="s3://b/3")
    assert emulated.predictor.needed() == {f"digits-predictor-0000{number}" for number in (1, 2, 3)}
    assert emulated.becomes(2, "ready").shares() == {2: 5, 1: 95}
    assert emulated.becomes(3, "ready").shares() == {3: 5, 1: 95}
    assert "digits-predictor-00002" not in emulated.predictor.needed()


def test_older_revision_that_gets_ready_late_is_not_latest() -> None:
    """A revision that gets ready after a newer one does not take the traffic back."""
    emulated = stable_service().apply(uri="s3://b/2", percent=5).apply(uri="s3://b/3").becomes(3, "ready")
    assert emulated.becomes(2, "ready").shares() == {3: 5, 1: 95}


def test_annotation_makes_a_revision() -> None:
    """Trap: the service's annotations reach the revision template, so a change of one is a new revision."""
    emulated = stable_service().annotate(**{"example.dev/lease": "10:00"})
    assert emulated.marks() == (2, 1, 1, 0)
    kept_out = {"kubectl.kubernetes.io/last-applied-configuration": "{}"}
    assert emulated.annotate(**kept_out).marks() == (2, 1, 1, 0)


def test_observed_generation_is_the_knative_services() -> None:
    """Trap: observedGeneration counts changes of the Knative Service, not of the InferenceService."""
    emulated = EmulatedService().apply()
    assert emulated.status()["observedGeneration"] == 1
    emulated.apply(percent=5)  # no revision is rolled out yet: the Knative Service stays as it is
    assert emulated.status()["observedGeneration"] == 1
    assert emulated.becomes(1, "ready").status()["observedGeneration"] == 2


def test_status_has_the_shape_of_kserves() -> None:
    """Traffic lines name revision, percent, latest, tag; the conditions are those of the Knative mode."""
    emulated = stable_service().apply(uri="s3://b/2", percent=5).becomes(2, "ready")
    status = emulated.status()
    component = status["components"]["predictor"]
    assert component["traffic"] == [
        {"revisionName": "digits-predictor-00002", "percent": 5, "latestRevision": True},
        {
            "revisionName": "digits-predictor-00001",
            "percent": 95,
            "latestRevision": False,
            "tag": "prev",
            "url": "http://prev-digits-predictor.models.sandbox.test",
        },
    ]
    assert component["latestRolledoutRevision"] == "digits-predictor-00001"
    assert "previousRolledoutRevision" not in component
    assert status["url"] == "http://digits.models.sandbox.test"
    assert {one["type"]: one["status"] for one in status["conditions"]} == {
        "IngressReady": "True",
        "LatestDeploymentReady": "True",
        "PredictorConfigurationReady": "True",
        "PredictorReady": "True",
        "PredictorRouteReady": "True",
        "Ready": "True",
        "RoutesReady": "True",
        "Stopped": "False",
    }


def test_nothing_ready_yet_is_unknown_and_has_no_url() -> None:
    """Before the first revision is ready, and when it fails, readiness is Unknown: RevisionMissing."""
    emulated = EmulatedService().apply()
    status = emulated.status()
    assert condition(status, "Ready")["status"] == "Unknown"
    assert "url" not in status
    assert "traffic" not in status["components"]["predictor"]
    failed = emulated.becomes(1, "failed", "nothing at s3://b/1").status()
    route = condition(failed, "PredictorRouteReady")
    assert (route["status"], route["reason"]) == ("Unknown", "RevisionMissing")
    assert condition(failed, "PredictorConfigurationReady")["status"] == "Unknown"
    assert failed["modelStatus"]["lastFailureInfo"]["message"] == "nothing at s3://b/1"


def test_transition_times_last_while_the_status_does() -> None:
    """A condition keeps its transition time until its status changes."""
    emulated = stable_service()
    before = emulated.status()
    assert emulated.status(before, now="2026-11-20T11:00:00Z") == before
    emulated.apply(uri="s3://b/2", percent=5)
    after = emulated.status(before, now="2026-11-20T11:00:00Z")
    assert condition(after, "PredictorReady")["lastTransitionTime"] == "2026-11-20T11:00:00Z"
    assert condition(after, "PredictorRouteReady")["lastTransitionTime"] == "2026-11-20T10:00:00Z"


def test_tag_routing_gives_the_latest_its_own_url() -> None:
    """With tag routing on, the candidate can be asked under its own URL."""
    emulated = stable_service().annotate(**{TAG_ROUTING_ANNOTATION: "true"})
    emulated.apply(uri="s3://b/2", percent=0).becomes(3, "ready")
    latest = emulated.status()["components"]["predictor"]["traffic"][0]
    assert (latest["tag"], latest["percent"]) == ("latest", 0)
    assert latest["url"] == "http://latest-digits-predictor.models.sandbox.test"


def test_old_revisions_are_forgotten_but_not_those_in_use() -> None:
    """Of many revisions only recent ones and those with a part in the traffic are remembered."""
    emulated = stable_service()
    for number in range(2, 30):
        emulated.apply(uri=f"s3://b/{number}", percent=5)
    kept = knative.forget_old(emulated.predictor, keep=3)
    assert {one.number for one in kept.revisions} >= {1, 27, 28, 29}
    assert knative.settle(kept, 5) == kept


MOVES = st.one_of(
    st.tuples(st.just("uri"), st.integers(1, 4)),
    st.tuples(st.just("percent"), st.one_of(st.none(), st.integers(0, 100))),
    st.tuples(st.just("ready"), st.integers(1, 6)),
    st.tuples(st.just("failed"), st.integers(1, 6)),
)


@given(st.lists(MOVES, max_size=25))
def test_traffic_is_whole_and_goes_to_ready_revisions(moves: list[tuple[str, Any]]) -> None:
    """Whatever is done, traffic sums to 100 over ready revisions, all of them needed, and settles."""
    emulated = EmulatedService().apply()
    for kind, value in moves:
        if kind == "uri":
            emulated.apply(uri=f"s3://b/{value}")
        elif kind == "percent":
            emulated.apply(percent=value)
        else:
            emulated.becomes(value, kind)
        shares = emulated.shares()
        assert not shares or sum(shares.values()) == 100
        ready = {one.name for one in emulated.predictor.revisions if one.phase == "ready"}
        routed = {target.revision for target in emulated.predictor.traffic}
        assert routed <= ready
        assert routed <= emulated.predictor.needed()
        assert bool(routed) == bool(ready)
        before = emulated.predictor
        assert emulated.settle().predictor == before

"""The guard in KServe's Standard mode, where weights lie in `spec.canary` and traffic in HTTPRoutes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipway_core.errors import ClusterUnavailableError
from slipway_core.rollout.actions import ObjectPatch, PatchMade
from slipway_core.rollout.dialects.standard.resources import HTTP_ROUTES
from slipway_core.rollout.next_action import Done, Patch, StartCanary, next_action
from slipway_core.rollout.reading import Reading, Resource
from slipway_guard.cluster import Snapshot
from slipway_guard.watch import Guard, Sight, Terms
from slipway_sandbox.lab.simulation.cluster_model import ConflictError
from slipway_sandbox.lab.simulation.standard_model import StandardModel, standard_live
from tests.support.guard.guarded_canary import CANDIDATE_URI
from tests.support.guard.lines import Lines


class StandardCluster:
    """One InferenceService in Standard mode, without any lease."""

    def __init__(self, model: StandardModel) -> None:
        self.model = model
        self.events: list[Mapping[str, Any]] = []
        self.routes_are_seen = True
        self.routes_are_writable = True
        self.kserve_hangs = False

    def snapshot(self) -> Snapshot:
        """The model's object and routes."""
        watched = {HTTP_ROUTES: tuple(self.model.routes())} if self.routes_are_seen else {}
        return Snapshot((self.model.as_object(),), (), watched)

    def patch_service(
        self, namespace: str, name: str, body: Mapping[str, Any], limit_s: float | None = None
    ) -> bool:
        """A patch of the model."""
        if self.kserve_hangs:
            raise ClusterUnavailableError("patching failed", found="HTTP 500 failed calling webhook")
        try:
            self.model.patch(dict(body))
        except ConflictError:
            return False
        return True

    def patch_made(self, namespace: str, resource: Resource, name: str, body: Mapping[str, Any]) -> bool:
        """Write the weights of one of KServe's two routes; the other follows."""
        if not self.routes_are_writable:
            raise ClusterUnavailableError("patching the HTTPRoute failed", found="HTTP 403 Forbidden")
        if name == self.model.as_object()["metadata"]["name"]:
            self.model.patch_made(PatchMade(resource, (ObjectPatch(name, body),), "", ""))
        return True

    def read(self, namespace: str, reading: Reading) -> tuple[Mapping[str, Any], ...]:
        """Nothing lies behind in Standard mode."""
        raise AssertionError(f"{reading.resource.kind} is read")

    def patch_lease(self, namespace: str, name: str, body: Mapping[str, Any]) -> bool:
        """There is none."""
        return False

    def create_event(self, namespace: str, body: Mapping[str, Any]) -> bool:
        """Keep the event."""
        self.events.append(body)
        return True


def canary(weight: int, replicas: int = 1) -> StandardModel:
    """A model in which a candidate has a share of the users."""
    model = standard_live(replicas=replicas)
    goal = StartCanary(CANDIDATE_URI, weight, release_id="digits-3", version=3)
    for _ in range(20):
        action = next_action(goal, model.read())
        if isinstance(action, Done):
            return model
        if isinstance(action, Patch):
            model.patch(dict(action.body))
        model.settle()
    raise AssertionError(f"no canary: {action}")


def guard_of(cluster: StandardCluster, clock: list[float]) -> Guard:
    """A guard that gives a canary ten seconds to get a lease."""
    return Guard(cluster, Terms(missing_lease_s=10.0, poll_s=1.0), clock=lambda: clock[0])


def test_a_canary_in_standard_mode_is_taken_to_weight_0() -> None:
    """The candidate's entry stays, at percent 0, and users count as safe once the routes lead nobody there."""
    model = canary(20)
    assert model.share(CANDIDATE_URI) == 20
    cluster, clock = StandardCluster(model), [0.0]
    guard = guard_of(cluster, clock)
    for _ in range(11):
        guard.look()
        clock[0] += 1
    assert model.read().canary_percent == 0
    assert guard.look().ending == 1
    assert cluster.events == []
    model.settle()
    assert guard.look() == Sight()
    assert model.share(CANDIDATE_URI) == 0
    assert len(cluster.events) == 1
    assert len(model.spec["canary"]) == 1


def test_routes_that_are_not_seen_do_not_keep_users_on_the_candidate() -> None:
    """Without the right to see routes the guard still sets the weight; only that users are safe it cannot say."""
    model = canary(20)
    cluster, clock = StandardCluster(model), [0.0]
    cluster.routes_are_seen = False
    guard = guard_of(cluster, clock)
    for _ in range(15):
        guard.look()
        model.settle()
        clock[0] += 1
    assert model.share(CANDIDATE_URI) == 0
    assert guard.look().ending == 1
    assert cluster.events == []


def test_the_guard_writes_the_routes_where_kserve_leaves_them_as_they_are() -> None:
    """Two of three stable pods crash: percent 0 has no effect, and three seconds later the guard leads users away."""
    model = canary(20, replicas=3)
    model.lose(model.state.stable, 2)
    cluster, clock = StandardCluster(model), [0.0]
    guard = guard_of(cluster, clock)
    for _ in range(13):
        guard.look()
        model.settle()
        clock[0] += 1
    assert model.read().canary_percent == 0
    assert model.share(CANDIDATE_URI) == 20
    for _ in range(4):
        guard.look()
        model.settle()
        clock[0] += 1
    assert model.share(CANDIDATE_URI) == 0
    assert guard.look() == Sight()
    assert len(cluster.events) == 1


def test_the_guard_writes_the_routes_where_kserve_hangs() -> None:
    """The API asks KServe's webhooks for each patch: users are off all the same, and the spec follows later."""
    model = canary(20)
    cluster, clock = StandardCluster(model), [0.0]
    cluster.kserve_hangs = True
    guard = guard_of(cluster, clock)
    for _ in range(13):
        guard.look()
        model.step("gateway")
        clock[0] += 1
    assert model.share(CANDIDATE_URI) == 0
    assert model.read().canary_percent == 20
    assert cluster.events == []
    cluster.kserve_hangs = False
    for _ in range(3):
        guard.look()
        model.settle()
    assert model.read().canary_percent == 0
    assert guard.look() == Sight()
    assert len(cluster.events) == 1


def test_a_guard_that_may_not_write_routes_says_so_and_goes_on(lines: Lines) -> None:
    """403: told once as what it waits for; users are safe when KServe writes the routes again."""
    model = canary(20, replicas=3)
    stable = model.state.stable
    model.lose(stable, 2)
    cluster, clock = StandardCluster(model), [0.0]
    cluster.routes_are_writable = False
    guard = guard_of(cluster, clock)
    for _ in range(30):
        guard.look()
        model.settle()
        clock[0] += 1
    assert model.share(CANDIDATE_URI) == 20
    told = [one for one in lines() if "403" in str(one.get("found"))]
    assert [one["event"] for one in told] == ["waiting"]
    model.lose(stable, 0)
    for _ in range(6):
        model.settle()
        guard.look()
    assert model.share(CANDIDATE_URI) == 0
    assert guard.look() == Sight()

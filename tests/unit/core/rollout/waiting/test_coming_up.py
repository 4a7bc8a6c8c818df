"""The wait for a version to come up: what its pods' status adds to it, and when it ends early."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slipway_core.errors import CanaryRefusedError, PodStartError, TimedOutError, UserError
from slipway_core.rollout.actions import Goal, RollBack, StartCanary
from slipway_core.rollout.next_action import FirstDeploy, Observed
from slipway_core.rollout.pods.starting import starting_pods
from slipway_core.rollout.pods.trouble import LOGIN_PATIENCE_S
from slipway_core.rollout.reconciler import (
    Act,
    Acted,
    GiveUp,
    Limits,
    Observe,
    Pause,
    Reconciler,
    Saw,
    Waited,
)
from slipway_sandbox.lab.simulation.edits import V1, V2, V3
from slipway_sandbox.lab.simulation.knative_model import KnativeModel, live_model
from slipway_sandbox.lab.simulation.standard_model import StandardModel, standard_live
from tests.support.rollout.pod_statuses import READY, UNSCHEDULABLE, container, crashed, pod
from tests.support.rollout.reading import observe

LIMIT_S = 600.0
KNATIVE, STANDARD = "digits-predictor-00003", "isvc.digits-predictor-canary"
ALL_CRASH = crashed(3, said="unable to find backend")
RESET = container(waiting={"reason": "ErrImagePull", "message": "read: connection reset by peer"})
DENIED = container(waiting={"reason": "ErrImagePull", "message": "401 Unauthorized"})


def booting(model: KnativeModel | StandardModel, goal: Goal) -> Observed:
    """What is observed once the goal's version was named and its pods are not ready."""
    one = reconciler(goal)
    for _ in range(20):
        step = one.next(Saw(model.read()), 0.0)
        if isinstance(step, Act):
            model.patch(dict(step.action.body))  # type: ignore[union-attr]
        for name in (name for name in model.steps if "ready" not in name and name != "scale"):
            model.step(name)
    return model.read()


def reconciler(goal: Goal) -> Reconciler:
    return Reconciler(goal, Limits(LIMIT_S, poll_s=1.0), name="models/digits", began_s=0.0)


def ended(
    goal: Goal, observed: Observed, *pods: dict[str, Any], pods_are_seen: bool = True
) -> tuple[GiveUp, float]:
    """How, and after how many seconds, a wait ends of which each look shows the same."""
    one, now_s = reconciler(goal), 0.0
    step = one.next(Waited(), now_s)
    while not isinstance(step, GiveUp):
        match step:
            case Observe():
                shown = starting_pods(pods) if step.pods and pods_are_seen else None
                step = one.next(Saw(replace(observed, pods=shown)), now_s)
            case Act():
                step = one.next(Acted(accepted=True), now_s)
            case Pause():
                now_s += step.seconds
                step = one.next(Waited(), now_s)
            case _:
                raise AssertionError(step)
    return step, now_s


@pytest.fixture
def knative() -> Observed:
    """A canary of version 3 whose revision was made and is not ready."""
    observed = booting(live_model(), StartCanary(V3, 5))
    assert (observed.latest_created, observed.candidate_ready) == (KNATIVE, False)
    return observed


def test_a_server_that_exits_at_load_ends_the_wait_with_its_own_words(knative: Observed) -> None:
    """Within seconds of the third end, refused, with the container, the exit code and what it said last."""
    over, after_s = ended(StartCanary(V3, 5), knative, pod(ALL_CRASH, uri=V3))
    assert after_s < 5
    assert isinstance(over.error, CanaryRefusedError)
    for word in ("kserve-container", "3 times", "exit code 1", "unable to find backend"):
        assert word in str(over.error)
    assert "kubectl logs" in str(over.error.remedy)


def test_in_standard_mode_too() -> None:
    """There the candidate's pods are found by their Deployment's label."""
    observed = booting(standard_live(), StartCanary(V3, 5))
    candidate = pod(ALL_CRASH, uri=V3)
    candidate["metadata"]["labels"] = {"app": f"isvc.{observed.latest_created}"}
    over, after_s = ended(StartCanary(V3, 5), observed, candidate)
    assert after_s < 5
    assert isinstance(over.error, CanaryRefusedError)
    assert "unable to find backend" in str(over.error)


def test_pods_that_the_cluster_does_not_make_are_told_by_its_own_words() -> None:
    """A full quota leaves a Deployment without pods, so that there is none to look at."""
    model = standard_live()
    observed = booting(model, StartCanary(V3, 5))
    full = {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota: team-a"}
    deployments = model.deployments()
    assert deployments is not None
    for one in deployments:
        one["status"]["conditions"] = [full]
    refused = observe(model.as_object(), model.routes(), deployments)
    assert refused.latest_created == observed.latest_created
    over, after_s = ended(StartCanary(V3, 5), refused)
    assert after_s >= LIMIT_S
    assert type(over.error) is PodStartError
    assert "exceeded quota: team-a" in str(over.error)
    assert "ResourceQuota" in str(over.error)


def test_a_first_version_too() -> None:
    """There is nothing to compare with, and nothing to fall back to."""
    model = KnativeModel()
    manifest = {"metadata": {}, "spec": {"predictor": {"model": {"storageUri": V1}}}}
    model.create(manifest)
    observed = booting(model, FirstDeploy(manifest))
    crashing = pod(ALL_CRASH, uri=V1, revision=observed.latest_created)
    over, after_s = ended(FirstDeploy(manifest), observed, crashing)
    assert after_s < 5
    assert isinstance(over.error, CanaryRefusedError)
    assert "unable to find backend" in str(over.error)


def test_what_the_cluster_lacks_is_waited_for_and_told_by_its_cause(knative: Observed) -> None:
    """A node may be coming, an image may be slow: no fault of the version, so it may be tried again."""
    for shown, word in (
        (pod(conditions=(UNSCHEDULABLE,)), "Insufficient nvidia.com/gpu"),
        (pod(RESET), "reset by"),
    ):
        over, after_s = ended(StartCanary(V3, 5), knative, shown)
        assert after_s >= LIMIT_S
        assert type(over.error) is PodStartError
        assert word in str(over.error)
        assert over.after is not None
        assert word in over.after.action.reason


def test_a_registry_that_refuses_is_waited_for_some_minutes(knative: Observed) -> None:
    """A node's login is renewed by then, or never."""
    over, after_s = ended(StartCanary(V3, 5), knative, pod(DENIED))
    assert LOGIN_PATIENCE_S <= after_s < LOGIN_PATIENCE_S + 10
    assert type(over.error) is UserError
    assert "imagePullSecrets" in str(over.error.remedy)


@pytest.mark.parametrize(
    "seen",
    [
        pod(crashed(2, reason="OOMKilled", code=137)),
        pod(container(waiting={"reason": "InvalidImageName"})),
        pod(init=(crashed(3) | {"name": "storage-initializer"},)),
        pod(container(), crashed(3) | {"name": "queue-proxy"}),
    ],
    ids=["memory", "image", "storage initializer", "sidecar"],
)
def test_what_its_pods_were_given_says_nothing_against_the_version(
    knative: Observed, seen: dict[str, Any]
) -> None:
    """A person has to mend it, and the version may be released again: no gate has refused it."""
    over, after_s = ended(StartCanary(V3, 5), knative, seen)
    assert after_s < 5
    assert type(over.error) is UserError


def test_crashes_that_are_too_few_to_end_a_wait_are_no_time_out_either(knative: Observed) -> None:
    """Where the time is up before the third end, the version is refused by what was seen."""
    over, after_s = ended(StartCanary(V3, 5), knative, pod(crashed(2)))
    assert after_s >= LIMIT_S
    assert isinstance(over.error, CanaryRefusedError)
    assert "twice" in str(over.error)


@pytest.mark.parametrize(
    "others",
    [
        [pod(container(ready=True), name="b", conditions=(READY,))],
        [],
    ],
    ids=["one pod is ready", "another version's pod"],
)
def test_a_pod_that_crashes_ends_nothing_where_another_is_ready_or_it_serves_something_else(
    knative: Observed, others: list[dict[str, Any]]
) -> None:
    """One bad node is no bad version, and the pods of the version before may have the same name."""
    crashing = pod(ALL_CRASH, uri=V3 if others else V2)
    over, after_s = ended(StartCanary(V3, 5), knative, crashing, *others)
    assert after_s >= LIMIT_S
    assert isinstance(over.error, PodStartError if others else TimedOutError)


def test_pods_that_cannot_be_seen_leave_the_wait_as_it_is(knative: Observed) -> None:
    """Who has not the right to list pods waits until the time is up."""
    over, after_s = ended(StartCanary(V3, 5), knative, pod(ALL_CRASH), pods_are_seen=False)
    assert after_s >= LIMIT_S
    assert isinstance(over.error, TimedOutError)


def test_the_way_back_never_gives_the_good_version_up() -> None:
    """What holds its pods up is said, and the rollback waits for them until its time is up."""
    model = live_model()
    model.unloadable = frozenset({V1})
    observed = booting(model, RollBack(V1, V2))
    revision = observed.revision_of(V1)
    over, after_s = ended(RollBack(V1, V2), observed, pod(ALL_CRASH, uri=V1, revision=revision))
    assert after_s >= LIMIT_S
    assert isinstance(over.error, PodStartError)
    assert "unable to find backend" in str(over.error)


def test_pods_are_looked_at_every_two_seconds_once_a_wait_lasts(knative: Observed) -> None:
    """A wait that is soon over asks for none."""
    one, looks = reconciler(StartCanary(V3, 5)), []
    step = one.next(Waited(), 0.0)
    for tenth in range(60):
        assert isinstance(step, Observe)
        if step.pods:
            looks.append(tenth)
        one.next(Saw(replace(knative, pods=() if step.pods else None)), tenth / 10)
        step = one.next(Waited(), (tenth + 1) / 10)
    assert looks == [10, 30, 50]


@pytest.mark.parametrize(
    ("shown", "error"),
    [
        (pod(init=(crashed(1) | {"name": "storage-initializer"},), uri=V3), UserError),
        (pod(crashed(1, said="unable to find backend"), uri=V3), CanaryRefusedError),
    ],
    ids=["storage initializer", "server"],
)
def test_a_failure_that_the_status_tells_is_blamed_on_what_the_pods_show(
    knative: Observed, shown: dict[str, Any], error: type[Exception]
) -> None:
    """Knative's status names a container that ended, whichever it is: only a server's end is the version's fault."""
    failed = replace(knative, failure="RevisionFailed: Container failed with: exit status 1")
    over = reconciler(StartCanary(V3, 5)).next(Saw(replace(failed, pods=starting_pods((shown,)))), 0.0)
    assert isinstance(over, GiveUp)
    assert isinstance(over.error, error)

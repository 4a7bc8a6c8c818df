"""Whole rollouts in Knative mode by our own driver: where users are led, at every moment, on the real controllers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest

from slipway_core.errors import CanaryRefusedError, TimedOutError, UserError
from slipway_core.rollout.next_action import (
    Done,
    Promote,
    RollBack,
    ShiftWeight,
    ShowCandidate,
    StartCanary,
    Withdraw,
)
from tests.support.conformance.kubelet import Fate
from tests.support.conformance.rollouts import NAME, Rollouts, uri
from tests.support.conformance.users import UsersWay
from tests.support.waiting import wait_until

# Long enough for a driver that claims too much to do so.
DEAD_INGRESS_LIMIT_S = 6.0
SLOW_INGRESS_S = 2.0


@pytest.fixture
def users(knative: Rollouts) -> Iterator[UsersWay]:
    """Version 1 is live, and where users are led is followed."""
    knative.first(1)
    followed = UsersWay(knative.cluster.api, knative.namespace, f"{NAME}-predictor")
    followed.start()
    assert followed.versions_now() == {uri(1): 100}
    yield followed
    gateway = knative.cluster.gateway.of(knative.namespace)
    gateway.is_dead, gateway.lag_s = False, 0.0


def canary(rollouts: Rollouts, *weights: int, version: int = 2) -> None:
    """Start a canary over what is live, and take it through weights."""
    first, *others = weights
    rollouts.bring(StartCanary(uri(version), first, release_id=f"{NAME}-{version}", version=version))
    for weight in others:
        rollouts.bring(ShiftWeight(weight, uri(version)))


def test_each_step_leads_the_share_that_was_asked_for(knative: Rollouts, users: UsersWay) -> None:
    """At 20, 50 and 99 %, and when it is promoted, users are led as the driver says that they are."""
    for step, weight in enumerate((20, 50, 99)):
        goal = ShiftWeight(weight, uri(2)) if step else StartCanary(uri(2), weight, version=2)
        reached = knative.bring(goal)
        assert isinstance(reached.action, Done)
        assert users.versions_now() == {uri(1): 100 - weight, uri(2): weight}
    assert isinstance(knative.bring(Promote(uri(2))).action, Done)
    assert users.versions_now() == {uri(2): 100}
    assert [sum(lead.shares.values()) for lead in users.leads if lead.shares] == [100] * len(users.leads)


def test_a_rollback_in_the_middle_of_a_canary_leads_nobody_back(knative: Rollouts, users: UsersWay) -> None:
    """From the moment at which the driver says that users are safe, none is led to the bad version again."""
    canary(knative, 20, 50)
    reached = knative.bring(RollBack(uri(1), uri(2)))
    assert isinstance(reached.action, Done)
    safe_s = knative.progress[-1].users_safe_s
    assert safe_s is not None
    assert users.largest_share(uri(2), since_s=safe_s) == 0
    assert users.versions_now() == {uri(1): 100}
    # What came before it never took the bad version more users than the canary had.
    assert users.largest_share(uri(2)) == 50


def test_a_promoted_version_is_rolled_back(knative: Rollouts, users: UsersWay) -> None:
    """The version before is brought up anew, gets all users, and none is led to the bad one again."""
    canary(knative, 20, 99)
    knative.bring(Promote(uri(2)))
    assert users.versions_now() == {uri(2): 100}
    assert isinstance(knative.bring(RollBack(uri(1), uri(2))).action, Done)
    safe_s = knative.progress[-1].users_safe_s
    assert safe_s is not None
    assert users.largest_share(uri(2), since_s=safe_s) == 0
    assert users.versions_now() == {uri(1): 100}


def test_the_version_after_a_rollback_is_released(knative: Rollouts, users: UsersWay) -> None:
    """What a rollback leaves is no obstacle: the next version gets its canary and is promoted."""
    canary(knative, 20)
    knative.bring(RollBack(uri(1), uri(2)))
    canary(knative, 20, 50, version=3)
    assert users.versions_now() == {uri(1): 50, uri(3): 50}
    knative.bring(Promote(uri(3)))
    assert users.versions_now() == {uri(3): 100}
    assert users.largest_share(uri(2)) == 20


def test_a_candidate_that_crashes_gets_no_user(knative: Rollouts, users: UsersWay) -> None:
    """The canary is refused with the cluster's reason, nobody was led to it, and the good version is restored."""
    crashing = f"s3://crashes-{knative.namespace}/models/{NAME}/2/repository"
    knative.cluster.fates.of_version(crashing, Fate.CRASHES)
    # Knative's status or the pod's, whichever is seen first: the pod blames what the version was given to run with.
    with pytest.raises((CanaryRefusedError, UserError), match="does not come up"):
        knative.bring(StartCanary(crashing, 20, version=2))
    assert isinstance(knative.bring(RollBack(uri(1), crashing)).action, Done)
    assert users.largest_share(crashing) == 0
    assert users.versions_now() == {uri(1): 100}


def test_a_step_is_done_when_the_ingress_has_taken_it(knative: Rollouts, users: UsersWay) -> None:
    """With an ingress that needs seconds, users are led as the driver says when it says so."""
    gateway = knative.cluster.gateway.of(knative.namespace)
    gateway.lag_s = SLOW_INGRESS_S
    canary(knative, 20)
    assert gateway.served[f"{NAME}-predictor"] == users.now()


def test_a_dead_ingress_is_no_rollback(knative: Rollouts, users: UsersWay) -> None:
    """While the ingress leads users to the bad version the driver does not say that they are safe."""
    canary(knative, 50)
    knative.cluster.gateway.of(knative.namespace).is_dead = True
    with pytest.raises(TimedOutError):
        knative.bring(RollBack(uri(1), uri(2)), limit_s=DEAD_INGRESS_LIMIT_S)


def test_a_rollback_goes_on_when_the_ingress_is_back(knative: Rollouts, users: UsersWay) -> None:
    """Whatever the driver said meanwhile: once the ingress lives, the same goal is reached, by the ingress too."""
    canary(knative, 50)
    gateway = knative.cluster.gateway.of(knative.namespace)
    gateway.is_dead = True
    with suppress(TimedOutError):
        knative.bring(RollBack(uri(1), uri(2)), limit_s=DEAD_INGRESS_LIMIT_S)
    gateway.is_dead = False
    assert isinstance(knative.bring(RollBack(uri(1), uri(2))).action, Done)
    knative.until_served(users.now())


def test_a_preview_leads_no_user_and_becomes_the_canary(knative: Rollouts, users: UsersWay) -> None:
    """The candidate answers at an address of its own at 0 %, and the canary that was decided on there begins."""
    shown = knative.bring(ShowCandidate(uri(2), release_id=f"{NAME}-2", version=2)).observed
    assert shown is not None
    assert shown.candidate_url
    assert shown.candidate_url != shown.stable_url
    assert users.versions_now() == {uri(1): 100}
    knative.bring(StartCanary(uri(2), 20, version=2, generation=shown.generation))
    assert users.versions_now() == {uri(1): 80, uri(2): 20}


def test_a_preview_that_is_taken_back_leaves_the_good_version(knative: Rollouts, users: UsersWay) -> None:
    """Nobody was led to it, before or after."""
    knative.bring(ShowCandidate(uri(2), version=2))
    assert isinstance(knative.bring(RollBack(uri(1), uri(2))).action, Done)
    assert users.largest_share(uri(2)) == 0
    assert users.versions_now() == {uri(1): 100}


def test_a_first_version_is_withdrawn(knative: Rollouts) -> None:
    """Where no earlier version exists, the InferenceService is deleted, with all that KServe made for it."""
    knative.first(1)
    assert isinstance(knative.bring(Withdraw(uri(1))).action, Done)
    assert knative.hook.get() is None
    wait_until(lambda: not knative.objects("/apis/serving.knative.dev/v1/services"), "its Service is gone")

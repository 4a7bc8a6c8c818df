"""Rollouts in Knative mode while a part of the control plane hangs: what hangs is worse than what dies."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from slipway_core.errors import TimedOutError, TransientError
from slipway_core.rollout.next_action import Done, RollBack, StartCanary
from tests.support.conformance.rollouts import NAME, Rollouts, uri
from tests.support.conformance.users import UsersWay
from tests.support.waiting import wait_until

# Connecting and reading have limits of 3 and 5 s, writing 15 s: see include/slipway_kubernetes/client.py.
GIVES_UP_WITHIN_S = 25.0
HANGS_LIMIT_S = 8.0


@pytest.fixture
def users(knative: Rollouts) -> UsersWay:
    """Half of the users are led to version 2."""
    knative.first(1)
    followed = UsersWay(knative.cluster.api, knative.namespace, f"{NAME}-predictor")
    followed.start()
    knative.bring(StartCanary(uri(2), 50, version=2))
    assert followed.versions_now() == {uri(1): 50, uri(2): 50}
    return followed


@pytest.fixture
def hanging(knative: Rollouts) -> Callable[[str], Iterator[None]]:
    """Has a program hang while a block runs."""

    @contextmanager
    def hang(name: str) -> Iterator[None]:
        knative.cluster.processes.pause(name)
        try:
            yield
        finally:
            knative.cluster.processes.resume(name)

    return hang


def roll_back_to_the_end(knative: Rollouts, users: UsersWay) -> None:
    """Roll back, and see that users are led to the good version alone."""
    assert isinstance(knative.bring(RollBack(uri(1), uri(2))).action, Done)
    assert users.versions_now() == {uri(1): 100}


def test_an_api_that_hangs_is_given_up_in_seconds(
    knative: Rollouts, users: UsersWay, hanging: Callable[[str], Iterator[None]]
) -> None:
    """The driver raises for Airflow to try again, and the next try goes on."""
    began_s = time.monotonic()
    with hanging("kube-apiserver"), pytest.raises(TransientError):
        knative.bring(RollBack(uri(1), uri(2)))
    assert time.monotonic() - began_s < GIVES_UP_WITHIN_S
    roll_back_to_the_end(knative, users)


def test_a_kserve_that_hangs_holds_no_user_back(
    knative: Rollouts, users: UsersWay, hanging: Callable[[str], Iterator[None]]
) -> None:
    """KServe's webhooks see every change of the InferenceService, so the Knative Service's traffic is written. Nobody
    is said to be safe by that; the same call goes on afterwards.
    """
    with hanging("kserve-manager"):
        with pytest.raises(TransientError):
            knative.bring(RollBack(uri(1), uri(2)))
        wait_until(lambda: users.versions_now() == {uri(1): 100}, "users are off the candidate")
        assert knative.service()["spec"]["predictor"]["canaryTrafficPercent"] == 50
        assert knative.progress[-1].users_safe_s is None
    roll_back_to_the_end(knative, users)


def test_nobody_is_said_to_be_safe_while_knative_hangs(
    knative: Rollouts, users: UsersWay, hanging: Callable[[str], Iterator[None]]
) -> None:
    """The spec asks for 0 %, and users are where they were: the driver waits, and says so."""
    with hanging("knative-controller"):
        with pytest.raises(TimedOutError):
            knative.bring(RollBack(uri(1), uri(2)), limit_s=HANGS_LIMIT_S)
        assert knative.progress[-1].users_safe_s is None
        assert users.versions_now() == {uri(1): 50, uri(2): 50}
    roll_back_to_the_end(knative, users)

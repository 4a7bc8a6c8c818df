"""From weight 0 to nobody: what is counted, what is ended, and what nobody can see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from slipway_core.rollout.pods.drain import (
    GONE_LIMIT_S,
    POD_GRACE_S,
    QUIET_S,
    SETTLE_S,
    UNSEEN_LIMIT_S,
    Drain,
    Drained,
    EndPods,
    Look,
    OpenRequests,
    ServingPod,
    Watch,
    drain_summary,
    serving_pods,
)

URI, STABLE_URI = "s3://b/models/m/3/repository", "s3://b/models/m/2/repository"
BAD, GOOD = "m-predictor-00002", "m-predictor-00001"
BAD_POD = ServingPod("bad-1", "uid-bad", BAD, URI)
GOOD_POD = ServingPod("good-1", "uid-good", GOOD, STABLE_URI)
DRAIN_S = 10.0

See = Callable[[float], Look]


def drain(drain_s: float = DRAIN_S) -> Drain:
    return Drain(revision=BAD, candidate_uri=URI, drain_s=drain_s, weight_0_s=0.0)


def ended(
    see: See, to: Drain | None = None, *, on_end: Callable[[EndPods], None] = lambda step: None
) -> Drained:
    """Look twice a second, until the drain is over."""
    to, at_s = to or drain(), 0.0
    while at_s < 1000:
        step = to.next(see(at_s))
        if isinstance(step, Drained):
            return step
        if isinstance(step, EndPods):
            on_end(step)
        at_s += 0.5
    raise AssertionError("the drain has no end")


def count(at_s: float, active: int, begun: int) -> OpenRequests:
    return OpenRequests(1000.0 + at_s, active, begun)


def test_streams_that_end_by_themselves_are_waited_for() -> None:
    """Nobody is on the candidate once nothing is open and nothing has begun for a while, and no pod was ended."""

    def see(at_s: float) -> Look:
        return Look(at_s, count(at_s, int(at_s < 4), 100), pods=(BAD_POD, GOOD_POD))

    found = ended(see, on_end=lambda step: pytest.fail("a pod was ended"))
    assert (found.how, found.is_nobody, found.active) == ("counted", True, 0)
    assert 4 + QUIET_S <= found.seconds <= 4 + QUIET_S + 1


def test_a_count_of_nothing_open_is_not_enough_while_requests_begin() -> None:
    """A route that was accepted is not the data plane: short requests still begin, though none is open when counted."""

    def see(at_s: float) -> Look:
        return Look(at_s, count(at_s, 0, 100 + int(min(at_s, 3.0) * 10)), pods=(BAD_POD, GOOD_POD))

    assert ended(see).seconds >= 3 + QUIET_S


def test_streams_that_stay_are_ended_after_the_grace() -> None:
    """Its pods are ended, and only when they are gone and nothing is counted any more it says that nobody is there."""
    pods = [BAD_POD, GOOD_POD]
    ends: list[float] = []

    def see(at_s: float) -> Look:
        is_there = BAD_POD in pods and not (ends and at_s >= ends[0] + 2)
        if not is_there and BAD_POD in pods:
            pods.remove(BAD_POD)
        if not is_there:
            return Look(at_s, count(at_s, 0, 100), pods=tuple(pods))
        seen.append(at_s)
        return Look(at_s, count(at_s, 5, 100), pods=tuple(pods))

    seen: list[float] = []

    def end(step: EndPods) -> None:
        assert step.pods == (BAD_POD,)
        ends.append(seen[-1])

    found = ended(see, on_end=end)
    assert ends[0] == DRAIN_S
    assert (found.how, found.is_nobody) == ("counted", True)


@pytest.mark.parametrize("drain_s", [0.0, DRAIN_S])
def test_without_a_count_it_goes_by_time_and_by_pods(drain_s: float) -> None:
    """The metrics are away: the pods are ended after the grace, never before the data plane may have followed."""
    ends: list[float] = []
    at: list[float] = []

    def see(at_s: float) -> Look:
        at.append(at_s)
        return Look(at_s, pods=(GOOD_POD,) if ends else (BAD_POD, GOOD_POD))

    found = ended(see, drain(drain_s), on_end=lambda step: ends.append(at[-1]))
    assert ends == [max(drain_s, SETTLE_S)]
    assert (found.how, found.active, found.is_nobody) == ("pods_ended", None, True)
    assert "were not counted" in drain_summary(found)


def test_a_stale_count_is_none() -> None:
    """A count that stands still, because the source hangs, says nothing of now."""

    def see(at_s: float) -> Look:
        return Look(at_s, count(0, 0, 100), count_age_s=at_s, pods=(BAD_POD,))

    found = ended(see)
    assert (found.how, found.is_nobody, found.active) == ("unseen", False, None)


@pytest.mark.parametrize("pods", [None, ()])
def test_nobody_is_told_gone_who_could_not_be_seen(pods: tuple[ServingPod, ...] | None) -> None:
    """No count, and pods that may not be listed, or a list with nothing in it: it could not be seen."""
    found = ended(lambda at_s: Look(at_s, pods=pods))
    assert (found.how, found.is_nobody) == ("unseen", False)
    assert found.seconds == DRAIN_S + UNSEEN_LIMIT_S
    assert "still has users is unknown" in drain_summary(found)


def test_pods_that_do_not_go_are_ended_again_and_then_told() -> None:
    """A node that is lost keeps its pods: nobody is told that nobody is on them."""
    ends: list[EndPods] = []
    found = ended(lambda at_s: Look(at_s, pods=(BAD_POD, GOOD_POD)), on_end=ends.append)
    assert (found.how, found.is_nobody) == ("unseen", False)
    assert found.seconds == DRAIN_S + GONE_LIMIT_S
    assert 1 < len(ends) <= GONE_LIMIT_S / POD_GRACE_S


def test_requests_at_the_pods_that_came_after_are_told() -> None:
    """A gateway that leaks at weight 0: the old pods are gone, their successors are asked, and that is said."""
    successor = ServingPod("bad-2", "uid-after", BAD, URI)
    pods = [BAD_POD, GOOD_POD]

    def end(step: EndPods) -> None:
        assert step.pods == (BAD_POD,)
        pods[:] = [successor, GOOD_POD]

    found = ended(lambda at_s: Look(at_s, count(at_s, 1, 100 + int(at_s)), pods=tuple(pods)), on_end=end)
    assert (found.how, found.is_nobody, found.active) == ("still_asked", False, 1)
    assert "still has users" in drain_summary(found)


def test_successors_without_users_are_left_alone() -> None:
    """Knative starts a pod again for a revision that it still names: the one of weight 0 is gone, which suffices."""
    successor = ServingPod("bad-2", "uid-after", BAD, URI)
    pods = [BAD_POD, GOOD_POD]
    found = ended(
        lambda at_s: Look(at_s, pods=tuple(pods)),
        on_end=lambda step: pods.__setitem__(slice(None), [successor, GOOD_POD]),
    )
    assert found.how == "pods_ended"


def test_a_candidate_that_has_no_pods_any_more_has_nobody() -> None:
    """The other revisions' pods show that its own would be seen; one without a known revision shows nothing."""
    assert ended(lambda at_s: Look(at_s, pods=(GOOD_POD,))).seconds == 0
    stranger = ServingPod("x", "uid-x", "")
    assert ended(lambda at_s: Look(at_s, pods=(GOOD_POD, stranger))).how == "unseen"


def test_a_pod_that_serves_another_version_is_never_ended() -> None:
    """Whatever its labels say: it is not ended, and who is on it nobody can tell."""
    disguised = ServingPod("good-2", "uid-2", BAD, STABLE_URI)
    found = ended(lambda at_s: Look(at_s, pods=(disguised,)), on_end=lambda step: pytest.fail("it was ended"))
    assert found.how == "unseen"


def test_what_serves_it_may_be_removed_after_the_grace() -> None:
    """Standard mode: the canary's Deployment stays while its streams may still end by themselves."""
    one = drain()

    def busy(at_s: float) -> Look:
        return Look(at_s, count(at_s, 3, 100), pods=(BAD_POD, GOOD_POD))

    assert one.next(busy(DRAIN_S - 0.5)) == Watch(may_remove=False)
    assert isinstance(one.next(busy(DRAIN_S)), EndPods)
    assert one.next(busy(DRAIN_S + 0.5)) == Watch(may_remove=True)


HOSTILE: list[Any] = [{}, {"metadata": None}, {"metadata": {"labels": [1], "annotations": "x", "name": 3}}]


@pytest.mark.parametrize("pod", HOSTILE)
def test_pods_that_tell_nothing_have_no_revision(pod: dict[str, Any]) -> None:
    """What is read is anybody's: it names no revision, so it is nobody's pod."""
    assert serving_pods([pod])[0].revision == ""


def test_pods_tell_their_revision_in_both_dialects() -> None:
    """Knative labels a revision, KServe's Deployments are called after the predictor."""
    knative = {
        "metadata": {"name": "p", "uid": "u", "labels": {"app": BAD, "serving.knative.dev/revision": BAD}}
    }
    standard = {"metadata": {"name": "p", "uid": "u", "labels": {"app": "isvc.m-v3-predictor"}}}
    assert [one.revision for one in serving_pods([knative, standard])] == [BAD, "m-v3-predictor"]

"""slipway_core.rollout.reconciler: what is done about conflicts, errors, time and others' changes."""

from __future__ import annotations

import copy
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipway_core.errors import (
    AlreadyReleasedError,
    CanaryEndedError,
    CanaryPausedError,
    ClusterUnavailableError,
    ForeignChangeError,
    RaiseRefusedError,
    ReleaseHeldError,
    SlipwayError,
    StoreUnavailableError,
    TimedOutError,
)
from slipway_core.rollout.actions import PatchMade
from slipway_core.rollout.dialects.knative.observed import KnativeObserved
from slipway_core.rollout.next_action import (
    Goal,
    Observed,
    Patch,
    Promote,
    RollBack,
    StartCanary,
)
from slipway_core.rollout.reconciler import (
    CACHE_LAG_S,
    Act,
    Acted,
    Event,
    Failed,
    GiveUp,
    Limits,
    Observe,
    Pause,
    Reached,
    Reconciler,
    Saw,
    Step,
    Waited,
)
from slipway_sandbox.lab.simulation.knative_model import ConflictError, KnativeModel
from tests.support.examples import examples
from tests.support.rollout.reading import observe

STABLE, CANDIDATE = "s3://bucket/models/digits/2/repository", "s3://bucket/models/digits/3/repository"
AWAY = ClusterUnavailableError("the API does not answer")
BACK = RollBack(STABLE, CANDIDATE)


def model(weight: int = 0) -> KnativeModel:
    """Version 2 live and, at a weight above 0, version 3 with that share of the users."""
    made = KnativeModel()
    made.create({"metadata": {}, "spec": {"predictor": {"model": {"storageUri": STABLE}}}})
    made.settle()
    if weight:
        assert isinstance(run(made, StartCanary(CANDIDATE, weight)), Reached)
    return made


def reconciler(goal: Goal, **limits: float) -> Reconciler:
    return Reconciler(goal, Limits(**{"poll_s": 1.0, **limits}), name="models/digits", began_s=0.0)


def run(cluster: KnativeModel, goal: Goal, *, rounds: int = 50) -> Step:
    """Carry the reconciler out on a cluster that answers, one second for each step."""
    one, event = reconciler(goal), Waited()
    step: Step = one.next(event, 0.0)
    for second in range(rounds):
        step = one.next(carried_out(step, cluster), float(second))
        if isinstance(step, Reached | GiveUp):
            return step
    raise AssertionError(f"not reached: {step}")


def carried_out(step: Step, cluster: KnativeModel) -> Event:
    """Do what a step says."""
    match step:
        case Observe():
            cluster.settle(rounds=1)
            return Saw(cluster.read())
        case Act(Patch() as patch):
            try:
                cluster.patch(dict(patch.body))
            except ConflictError:
                return Acted(accepted=False)
            return Acted(accepted=True)
        case Act(PatchMade() as patch):
            try:
                cluster.patch_made(patch)
            except ConflictError:
                return Acted(accepted=False)
            return Acted(accepted=True)
        case _:
            return Waited()


def _with_knative(cluster: KnativeModel) -> Observed:
    """An observation with the Knative Service behind it."""
    return observe(cluster.as_object(), behind=cluster.knative_service())


def seen(weight: int = 20) -> Observed:
    """A canary under way, as it is observed."""
    return model(weight).read()


# --- what it answers ---


def test_it_begins_with_an_observation_and_never_acts_twice_on_one() -> None:
    """Observe, act, pause, observe: whatever became of the action."""
    for accepted in (True, False):
        one = reconciler(BACK)
        assert one.next(Waited(), 0.0) == Observe()
        assert isinstance(one.next(Saw(seen()), 0.1), Act)
        step = one.next(Acted(accepted), 0.2)
        assert isinstance(step, Pause)
        assert step.seconds == 1.0
        assert step.after is not None
        assert isinstance(step.after.action, Patch)
        assert one.next(Waited(), 1.2) == Observe(behind=True)


def test_an_observation_from_elsewhere_is_as_good_as_its_own() -> None:
    """Who has just looked need not look again before the first action."""
    step = reconciler(BACK).next(Saw(seen()), 0.0)
    assert isinstance(step, Act)


@pytest.mark.parametrize("outage_s", [0.0, 10.0, math.inf])
def test_transient_errors_are_borne_for_as_long_as_the_limits_allow(outage_s: float) -> None:
    """The first error begins the outage; when it has lasted long enough, that very error ends it."""
    one, met = reconciler(BACK, outage_s=outage_s, timeout_s=math.inf), []
    for second in range(30):
        step = one.next(Failed(AWAY), float(second))
        met.append(step)
        if isinstance(step, GiveUp):
            break
        assert step == Pause(1.0, None)
    assert isinstance(met[-1], GiveUp) == (outage_s < 30)
    assert len(met) == min(30, outage_s + 1)
    if isinstance(met[-1], GiveUp):
        assert met[-1].error is AWAY


def test_an_outage_is_over_only_when_an_action_is_answered() -> None:
    """An API that shows objects and takes no patch is away all the same."""
    forward = StartCanary(CANDIDATE, 40)
    one = reconciler(forward, outage_s=10.0, timeout_s=math.inf)
    assert isinstance(one.next(Failed(AWAY), 0.0), Pause)
    assert isinstance(one.next(Saw(seen()), 5.0), Act)
    assert isinstance(one.next(Failed(AWAY), 10.0), GiveUp)
    other = reconciler(forward, outage_s=10.0, timeout_s=math.inf)
    other.next(Failed(AWAY), 0.0)
    other.next(Saw(seen()), 5.0)
    other.next(Acted(accepted=False), 6.0)
    assert isinstance(other.next(Failed(AWAY), 10.0), Pause)


@pytest.mark.parametrize(
    "error",
    [
        CanaryPausedError("a person wants to look"),
        CanaryEndedError("the guard ended it"),
        ForeignChangeError("somebody has a route of this name"),
        ReleaseHeldError("there is a freeze"),
        RaiseRefusedError("it was rejected"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_is_no_outage_ends_it_at_once(error: SlipwayError) -> None:
    """A pause, an end and a refusal are decisions; asking again would not change them."""
    assert reconciler(BACK).next(Failed(error), 0.0) == GiveUp(error)


def test_a_fallback_that_is_always_in_conflict_is_no_hot_loop() -> None:
    """While KServe hangs and somebody else writes the Knative Service all the while: a pause before each next look."""
    cluster = model(20)
    one = reconciler(BACK, outage_s=math.inf, timeout_s=60.0)
    step, second, acts_since_pause = one.next(Waited(), 0.0), 0.0, 0
    fallbacks = 0
    while not isinstance(step, GiveUp):
        match step:
            case Observe():
                event: Event = Saw(_with_knative(cluster))
            case Act(PatchMade()):
                fallbacks, acts_since_pause = fallbacks + 1, acts_since_pause + 1
                event = Acted(accepted=False)
            case Act():
                event = Failed(AWAY)
            case Pause():
                second, acts_since_pause = second + step.seconds, 0
                event = Waited()
        assert acts_since_pause <= 1
        step = one.next(event, second)
    assert fallbacks > 5
    assert second >= 60.0


@pytest.mark.parametrize(
    ("goal", "kind", "reason"),
    [
        (RollBack(STABLE, "s3://third"), ForeignChangeError, CANDIDATE),
        (Promote("s3://third"), ForeignChangeError, CANDIDATE),
    ],
)
def test_anothers_change_is_told_and_left_alone(goal: Goal, kind: type[SlipwayError], reason: str) -> None:
    """A goal that does not fit what is there is given up without an action, and the error says what was found."""
    step = reconciler(goal).next(Saw(seen()), 0.0)
    assert isinstance(step, GiveUp)
    assert isinstance(step.error, kind)
    assert reason in str(step.error)
    assert step.after is None


def test_a_candidate_that_was_taken_back_is_not_raised() -> None:
    """Percent 0 says that somebody decided to go back."""
    cluster = model(20)
    cluster.patch({"metadata": {}, "spec": {"predictor": {"canaryTrafficPercent": 0}}})
    step = reconciler(StartCanary(CANDIDATE, 50)).next(Saw(cluster.read()), 0.0)
    assert isinstance(step, GiveUp)
    assert isinstance(step.error, AlreadyReleasedError)


def test_time_that_is_over_says_what_was_waited_for() -> None:
    """The error names goal and limit, and the last reason or the last error."""
    one = reconciler(BACK, timeout_s=10.0)
    assert isinstance(one.next(Saw(seen()), 9.0), Act)
    step = one.next(Acted(accepted=True), 10.0)
    assert isinstance(step, GiveUp)
    assert isinstance(step.error, TimedOutError)
    assert step.after is not None
    assert step.error.found == step.after.action.reason
    step = reconciler(BACK, timeout_s=10.0).next(Failed(AWAY), 10.0)
    assert isinstance(step, GiveUp)
    assert isinstance(step.error, TimedOutError)
    assert "does not answer" in str(step.error)


def test_what_is_reached_at_the_last_observation_is_reached() -> None:
    """No goal is given up that was seen to be reached, however late."""
    assert isinstance(reconciler(BACK, timeout_s=10.0).next(Saw(model().read()), 99.0), Reached)


def test_what_suffices_is_enough_whatever_the_goal_says() -> None:
    """Not even a goal that cannot be reached is an error then."""
    one = Reconciler(
        RollBack(STABLE, "s3://third"), Limits(), name="models/digits", began_s=0.0, suffices=lambda _: True
    )
    assert isinstance(one.next(Saw(seen()), 0.0), Reached)


def test_an_observation_that_lacks_what_lies_behind_is_followed_by_one_that_has_it() -> None:
    """Before a wait, at once; whoever begins with an observation from elsewhere needs not wait for the pause."""
    cluster = model()
    one = reconciler(BACK)
    assert one.next(Saw(observe(cluster.as_object())), 0.0) == Observe(behind=True)
    assert isinstance(one.next(Saw(cluster.read()), 0.1), Reached)
    cannot = reconciler(BACK)
    assert cannot.next(Saw(observe(cluster.as_object())), 0.0) == Observe(behind=True)
    assert isinstance(cannot.next(Saw(observe(cluster.as_object(), unseen="HTTP 403")), 0.1), Pause)
    assert reconciler(Promote(CANDIDATE)).next(Waited(), 0.0) == Observe(behind=True)


def test_an_observation_that_is_older_than_what_is_known_is_dropped() -> None:
    """A cache that lags shows what was before our own patch: neither done nor acted on, until no cache can lag so."""
    cluster = model(20)
    one, before = reconciler(BACK), cluster.read()
    step = one.next(Saw(before), 0.0)
    assert isinstance(step, Act)
    assert isinstance(step.action, Patch)
    cluster.patch(dict(step.action.body))
    assert isinstance(one.next(Acted(accepted=True), 0.1), Pause)
    assert isinstance(one.next(Saw(before), 1.0), Pause)
    settled = model().read()
    assert isinstance(one.next(Saw(settled), 2.0), Pause)
    assert not isinstance(one.next(Saw(cluster.read()), 3.0), Reached)
    assert isinstance(one.next(Saw(settled), 4.0), Pause)
    assert isinstance(one.next(Saw(settled), 4.0 + CACHE_LAG_S), Reached)


# --- any order of conflicts, errors and time ---

TROUBLE = st.lists(
    st.sampled_from(["", "lost request", "lost answer", "conflict", "store away", "controller slow"]),
    max_size=25,
)
GOALS = st.sampled_from([BACK, StartCanary(CANDIDATE, 40), Promote(CANDIDATE)])


@settings(max_examples=examples(150), deadline=None)
@given(GOALS, TROUBLE, st.lists(st.floats(0.0, 3.0), max_size=60))
def test_trouble_of_any_kind_and_order_delays_and_changes_nothing(
    goal: Goal, trouble: list[str], delays: list[float]
) -> None:
    """Each action follows from the newest observation; when the trouble is over the goal is reached as ever."""
    cluster, one, now_s = model(20), reconciler(goal), 0.0
    left, waits = list(trouble), list(delays)
    newest: Observed | None = None
    event: Event = Waited()
    for _ in range(400):
        now_s += waits.pop() if waits else 0.5
        step = one.next(event, now_s)
        if isinstance(step, Reached):
            break
        assert not isinstance(step, GiveUp), step
        if isinstance(step, Act):
            assert newest is not None
            assert isinstance(step.action, Patch | PatchMade)
            assert isinstance(newest, KnativeObserved)
            behind = newest.knative
            assert behind is not None
            if isinstance(step.action, Patch):
                body, of = step.action.body, newest.resource_version
            else:
                body, of = step.action.patches[0].body, behind.resource_version
            assert body["metadata"]["resourceVersion"] == of
        event = _troubled(step, cluster, left.pop() if left and not isinstance(step, Pause) else "")
        newest = event.observed if isinstance(event, Saw) else None
    else:
        raise AssertionError("not reached though the trouble was over")
    undisturbed = model(20)
    run(undisturbed, goal)
    cluster.settle()
    undisturbed.settle()
    assert cluster.users() == undisturbed.users()


def _troubled(step: Step, cluster: KnativeModel, trouble: str) -> Event:
    """Carry a step out on a cluster on which something may go wrong."""
    if trouble == "lost request":
        return Failed(AWAY)
    if trouble == "store away" and isinstance(step, Act):
        return Failed(StoreUnavailableError("nobody can be asked whether it is permitted"))
    if trouble == "controller slow" and isinstance(step, Observe):
        return Saw(cluster.read())
    if trouble == "conflict" and isinstance(step, Act):
        cluster.patch({"metadata": {"annotations": {"somebody": str(cluster.resource_version)}}})
    event = carried_out(step, cluster)
    return Failed(AWAY) if trouble == "lost answer" else event


@settings(max_examples=examples(100), deadline=None)
@given(
    st.sampled_from([BACK, StartCanary(CANDIDATE, 40)]),
    st.lists(st.sampled_from(["saw", "accepted", "conflict", "away"]), max_size=40),
    st.floats(0.0, 20.0),
    st.floats(0.0, 60.0),
)
def test_nobody_goes_on_when_the_time_is_over(
    goal: Goal, happens: list[str], outage_s: float, timeout_s: float
) -> None:
    """After the limit no pause is granted, and before it only an outage that lasts ends it.

    On the way back the error of a patch counts when its fallback was tried, or proved needless.
    """
    one, under_way = reconciler(goal, outage_s=outage_s, timeout_s=timeout_s), seen()
    failing_since: float | None = None
    for second, what in enumerate(happens):
        event: Event = {
            "saw": Saw(copy.deepcopy(under_way)),
            "accepted": Acted(accepted=True),
            "conflict": Acted(accepted=False),
            "away": Failed(AWAY),
        }[what]
        step = one.next(event, float(second))
        if what == "away":
            failing_since = float(second) if failing_since is None else failing_since
        elif what != "saw" and goal != BACK:
            failing_since = None
        if isinstance(step, GiveUp):
            too_long = failing_since is not None and second - failing_since >= outage_s
            assert second >= timeout_s or ((what == "away" or goal == BACK) and too_long)
            return
        if isinstance(step, Pause):
            assert second < timeout_s


def test_a_rollback_that_waited_for_the_controller_may_remove_an_unnoted_canary() -> None:
    """Only after the limit, and only a rollback."""
    one = reconciler(BACK, unnoted_after_s=60.0)
    one.next(Saw(seen()), 60.0)
    assert one.goal == BACK
    one.next(Saw(seen()), 60.1)
    assert one.goal == RollBack(STABLE, CANDIDATE, unnoted_may_go=True, unseen_may_serve=True)
    other = reconciler(Promote(CANDIDATE), unnoted_after_s=60.0)
    other.next(Saw(seen()), 99.0)
    assert other.goal == Promote(CANDIDATE)

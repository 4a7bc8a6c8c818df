"""The one loop that brings an InferenceService to a goal: observe, act on what was observed, wait, observe again.

It does nothing itself and knows no clock: it receives what has happened, and when, and returns what to do next.
Operators, triggers and the guard carry that out, each in its own way (`slipway.traffic.reconciler`,
`slipway_guard.watch`).

    step = reconciler.next(Waited(), now_s)              # Observe
    step = reconciler.next(Saw(observed), now_s)         # Act, Pause, Reached or GiveUp
    step = reconciler.next(Acted(accepted=True), now_s)  # Pause
    step = reconciler.next(Waited(), now_s)              # Observe

The rules, for everybody:

- *Observation.* An action follows from one observation and names its resourceVersion. Each observation gives one
  action at most; nothing is done twice on the same one.
- *Conflict.* An action that was not accepted is dropped. It is not an error: observe again.
- *Transient error.* The API did not answer, or what it did is not known: observe again after a pause, for as long as
  `Limits.outage_s` allows; then give up with that error. A pause by a person, a freeze and a closed release window are
  no outage: give up at once.
- *Any other error*, and a goal that cannot be reached from what is there, another's change included: give up at once.
- *In vain.* A wait may name what to do when it has lasted for so long (`Wait.fallback`). That is done again after as
  long. Where it cannot be done, that is said with the wait's reason, and the wait goes on.
- *Refused.* A patch may name what to do when it meets an error (`Patch.fallback`): that is done on a new observation.
  Whatever comes of it, the patch's error counts afterwards as it does without. The first patch that is urgent is given
  up early, so that users do not wait for webhooks that hang; that is no error, and it is sent again with all its time.
- *Pods.* While a wait lasts the pods of the version are read now and then. What holds them up is said with the wait's
  reason; what cannot pass ends a wait forward with the pods' own cause (`waiting/coming_up.py`), as it does at the end
  of the time.
- *Behind.* What KServe and Knative have made in Knative mode is read as well, but on the way back not before the first
  patch. Where an observation without it calls for a wait, the next one, with it, follows at once.
- *Order.* An observation that is older than another one, or than an accepted patch, is dropped: observe again.
- *Time.* When `Limits.timeout_s` is over, give up. What is reached at the last observation is reached.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from slipway_core.errors import (
    AlreadyReleasedError,
    CanaryPausedError,
    CanaryRefusedError,
    ForeignChangeError,
    PodStartError,
    ReleaseHeldError,
    SlipwayError,
    TimedOutError,
    TransientError,
    UserError,
)
from slipway_core.rollout.actions import (
    FALLBACK_AFTER_S,
    Action,
    Create,
    Delete,
    Done,
    Expose,
    Goal,
    Impossible,
    Patch,
    PatchMade,
    RollBack,
    Wait,
)
from slipway_core.rollout.next_action import next_action
from slipway_core.rollout.observation import Observed
from slipway_core.rollout.waiting.coming_up import ComingUp
from slipway_core.rollout.waiting.fallback import WaitFallback

# How long an observation may be older than what is known already.
CACHE_LAG_S = 30.0

_ERRORS: dict[str, type[SlipwayError]] = {
    "load_failed": CanaryRefusedError,
    "setup_failed": UserError,
    "rolled_back": AlreadyReleasedError,
}


@dataclass(frozen=True)
class Reconciliation:
    """What was observed of the InferenceService (None: it does not exist), and the action that follows from it."""

    observed: Observed | None
    action: Action


# --- what the reconciler receives ---


@dataclass(frozen=True)
class Waited:
    """Nothing was done since: the beginning, or the end of a pause."""


@dataclass(frozen=True)
class Saw:
    """The InferenceService was observed; None: it does not exist."""

    observed: Observed | None


@dataclass(frozen=True)
class Acted:
    """The action was sent; not accepted: the object has changed since it was observed."""

    accepted: bool


@dataclass(frozen=True)
class Failed:
    """What was to be done met an error."""

    error: SlipwayError


Event = Waited | Saw | Acted | Failed


# --- what it says ---


@dataclass(frozen=True)
class Observe:
    """Observe the InferenceService; `behind`: and the Knative Service behind it, where there is one; `pods`: and the
    pods, where they may be seen.
    """

    behind: bool = False
    pods: bool = False


@dataclass(frozen=True)
class Act:
    """Send the action to the cluster.

    :param limit_s: when to give its answer up; None: when whoever sends it does by himself.
    """

    action: Create | Patch | Expose | Delete | PatchMade
    limit_s: float | None = None


@dataclass(frozen=True)
class Pause:
    """Wait so many seconds.

    :param after: what was observed and done before; None after an error.
    """

    seconds: float
    after: Reconciliation | None


@dataclass(frozen=True)
class Reached:
    """The goal is reached, or what is observed suffices."""

    last: Reconciliation


@dataclass(frozen=True)
class GiveUp:
    """It is over without the goal.

    :param error: why.
    :param after: what was observed and done before the time was over; None after an error, or where nothing was done.
    """

    error: SlipwayError
    after: Reconciliation | None = None


Step = Observe | Act | Pause | Reached | GiveUp


@dataclass(frozen=True)
class Limits:
    """How much time there is, in seconds.

    :param timeout_s: until the goal must be reached.
    :param poll_s: between two observations.
    :param outage_s: for how long transient errors may follow each other.
    :param unnoted_after_s: after how long a rollback may remove a canary that KServe's controller never took note of;
        see `RollBack.unnoted_may_go`; and a version be trusted of which nobody may see the pods.
    """

    timeout_s: float = math.inf
    poll_s: float = 0.0
    outage_s: float = math.inf
    unnoted_after_s: float = math.inf


class Reconciler:
    """Say what to do next to bring one InferenceService to a goal; the module's docstring has the rules.

    :param name: the InferenceService in messages: `NAMESPACE/NAME`.
    :param began_s: when it began, by the clock that tells every later time too.
    :param suffices: whether it is enough, though the goal may not be reached; then nothing more is done.
    """

    def __init__(
        self,
        goal: Goal,
        limits: Limits,
        *,
        name: str,
        began_s: float,
        suffices: Callable[[Reconciliation], bool] | None = None,
    ) -> None:
        self.goal, self._limits, self._name = goal, limits, name
        self._suffices = suffices
        self._began_s = began_s
        self._failing_since_s: float | None = None
        self._last: Reconciliation | None = None
        self._fallback = WaitFallback()
        self._coming_up = ComingUp()
        self._sent: Patch | None = None
        self._sent_s = began_s
        self._patch_error: SlipwayError | None = None
        self._has_seen = self._asked_behind = False
        self._newest: Observed | None = None
        # The resourceVersion that an accepted patch has replaced.
        self._replaced = ""
        self._old_since_s: float | None = None
        # Whether an urgent patch is given up early, and whether the last one was.
        self._hurries, self._hurried = True, False

    @property
    def reason(self) -> str:
        """Why the last observation calls for its action; "" if there is none."""
        return "" if self._last is None else self._last.action.reason

    def next(self, event: Event, now_s: float) -> Step:
        """Return what to do after `event`, which ended at `now_s`."""
        match event:
            case Waited():
                return self._observe(now_s)
            case Saw():
                return self._after_observation(event.observed, now_s)
            case Acted():
                return self._after_action(event.accepted, now_s)
            case Failed():
                return self._after_failure(event.error, now_s)

    def _after_action(self, accepted: bool, now_s: float) -> Step:
        if accepted and self._sent is not None and self._newest is not None:
            self._replaced = self._newest.resource_version
        self._sent = None
        if self._patch_error is not None:
            return self._after_failed_patch(now_s) if accepted else self._pause(now_s, self._patch_error)
        self._failing_since_s = None
        self._fallback.sent(accepted, now_s)
        return self._pause(now_s)

    def _after_failure(self, error: SlipwayError, now_s: float) -> Step:
        patch, self._sent = self._sent, None
        if self._patch_error is not None:
            return self._after_failed_patch(now_s)
        if self._fallback.failed(error, now_s):
            return self._pause(now_s)
        if patch is None or not (patch.is_urgent or patch.fallback):
            return self._after_error(error, now_s)
        # It may have taken long to fail, so that what was observed before it is old.
        self._patch_error = error
        self._hurried = self._hurries and now_s - self._sent_s >= FALLBACK_AFTER_S
        self._hurries = self._hurries and not self._hurried
        return self._observe(now_s)

    def _after_failed_patch(self, now_s: float) -> Step:
        """Go on after a patch's fallback was tried, or is not needed, with the error of the patch itself."""
        error, self._patch_error = self._patch_error, None
        assert error is not None  # noqa: S101  it is called where there is one
        if self._hurried:
            self._hurried = False
            return self._observe(now_s)
        return self._after_error(error, now_s)

    def _observe(self, now_s: float) -> Observe:
        self._asked_behind = self._has_seen or not isinstance(self.goal, RollBack)
        return Observe(behind=self._asked_behind, pods=self._coming_up.wants_look(now_s))

    def _is_old(self, observed: Observed | None, now_s: float) -> bool:
        """Return whether the observation is older than what is known: a cache between us and the API may lag."""
        newest = self._newest
        is_old = (
            observed is not None
            and newest is not None
            and observed.uid == newest.uid
            and (observed.generation < newest.generation or observed.resource_version == self._replaced)
        )
        self._old_since_s = (now_s if self._old_since_s is None else self._old_since_s) if is_old else None
        # No cache lags forever: the API server's store may have been put back to what it was.
        return self._old_since_s is not None and now_s - self._old_since_s < CACHE_LAG_S

    def _after_observation(self, observed: Observed | None, now_s: float) -> Step:
        self._has_seen = True
        if self._is_old(observed, now_s):
            return self._pause(now_s)
        self._newest = observed
        if isinstance(self.goal, RollBack) and now_s - self._began_s > self._limits.unnoted_after_s:
            self.goal = replace(self.goal, unnoted_may_go=True, unseen_may_serve=True)
        action = self._fallback.with_trouble(next_action(self.goal, observed))
        action = self._coming_up.judged(action, self.goal, observed, now_s)
        self._last = last = Reconciliation(observed, action)
        if isinstance(action, Done) or (self._suffices is not None and self._suffices(last)):
            return Reached(last)
        match action:
            case Patch() if self._patch_error is not None and action.fallback is not None:
                return Act(action.fallback)
            case _ if self._patch_error is not None:
                return self._after_failed_patch(now_s)
            case Create() | Patch() | Expose() | Delete():
                # Whether the API is well shows when it has answered the action as well.
                self._sent, self._sent_s = action if isinstance(action, Patch) else None, now_s
                hurries = isinstance(action, Patch) and action.is_urgent and self._hurries
                return Act(action, FALLBACK_AFTER_S if hurries else None)
            case Impossible():
                return GiveUp(self._impossible(action))
            case Wait() if self._lacks_what_is_behind(observed):
                return self._observe(now_s)
            case Wait():
                self._failing_since_s = None
                fallback = self._fallback.due(action, now_s)
                return self._pause(now_s) if fallback is None else Act(fallback)

    def _lacks_what_is_behind(self, observed: Observed | None) -> bool:
        return observed is not None and observed.lacks_behind and not self._asked_behind

    def _after_error(self, error: SlipwayError, now_s: float) -> Step:
        self._last = None
        if not isinstance(error, TransientError) or isinstance(error, CanaryPausedError | ReleaseHeldError):
            return GiveUp(error)
        self._failing_since_s = now_s if self._failing_since_s is None else self._failing_since_s
        if now_s - self._failing_since_s >= self._limits.outage_s:
            return GiveUp(error)
        return self._pause(now_s, error)

    def _pause(self, now_s: float, error: SlipwayError | None = None) -> Pause | GiveUp:
        if now_s - self._began_s < self._limits.timeout_s:
            return Pause(self._limits.poll_s, self._last)
        found = error.in_short() if error is not None else ""
        if self._last is not None:
            found = self._last.action.reason
            at_fault = self._coming_up.at_the_end(self.goal)
            if at_fault is not None:
                return GiveUp(self._impossible(at_fault), self._last)
        return GiveUp(self._timed_out(found), self._last)

    def _impossible(self, action: Impossible) -> SlipwayError:
        return _ERRORS.get(action.kind, ForeignChangeError)(
            f"the InferenceService {self._name} cannot be brought to {type(self.goal).__name__}",
            found=action.reason,
            remedy=action.remedy or "look at the InferenceService; nothing was changed by this step",
        )

    def _timed_out(self, found: str) -> TransientError:
        trouble = None if self._last is None else self._coming_up.trouble
        name, goal, limit_s = self._name, type(self.goal).__name__, self._limits.timeout_s
        if trouble is None:
            return TimedOutError(
                f"the InferenceService {name} was not brought to {goal} in time",
                expected=f"within {limit_s:.0f} s",
                found=found,
                remedy="look at the revision's pods and at the controller's log",
            )
        return PodStartError(
            f"{trouble.about}, which is to serve {name}, does not come up: {trouble.cause}",
            expected=f"{goal} within {limit_s:.0f} s",
            found=found,
            remedy=trouble.remedy,
        )

"""The wait for a version to come up, with an eye on its pods: what holds them up is said, and hopeless waits end early.

The reconciler asks for the pods once a wait lasts, and every few seconds from then on. What is found joins the wait's
reason. Where it is known that waiting does not help, and no pod of the version is ready, the wait ends with the pod's
own cause, instead of a time-out some minutes later. Not so on the way back to a good version, which nobody gives up:
there it is only said, and no pod is looked at before users are off the bad one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from slipway_core.rollout.actions import (
    SHIELD,
    Action,
    Goal,
    Impossible,
    RollBack,
    Wait,
    Withdraw,
)
from slipway_core.rollout.observation import Observed
from slipway_core.rollout.pods.starting import StartingPod
from slipway_core.rollout.pods.trouble import PodTrouble

LOOK_AFTER_S, LOOK_EVERY_S = 1.0, 2.0


@dataclass
class _Seen:
    """What was seen during one wait.

    :param trouble: the worst that holds the pods up.
    :param since_s: by what holds a pod up: since when it does, without a break.
    """

    waits_since_s: float | None = None
    looked_at_s: float | None = None
    trouble: PodTrouble | None = None
    any_is_ready: bool = False
    since_s: dict[tuple[str, str], float] = field(default_factory=dict)


class ComingUp:
    """What is known of the pods that one wait is about, and since when."""

    def __init__(self) -> None:
        self._seen = _Seen()

    @property
    def trouble(self) -> PodTrouble | None:
        """What was seen last to hold the version's pods up; None: nothing, or they cannot be seen."""
        return self._seen.trouble

    def wants_look(self, now_s: float) -> bool:
        """Return whether the next observation is to have the pods with it."""
        if self._seen.waits_since_s is None or now_s - self._seen.waits_since_s < LOOK_AFTER_S:
            return False
        return self._seen.looked_at_s is None or now_s - self._seen.looked_at_s >= LOOK_EVERY_S

    def judged(self, action: Action, goal: Goal, observed: Observed | None, now_s: float) -> Action:
        """Return what follows from an observation, once its pods, or those that were seen last, have been heard."""
        is_back = isinstance(goal, RollBack)
        if observed is not None and isinstance(action, Impossible) and action.kind == "load_failed":
            return self._blamed_by_pods(action, goal, observed, now_s)
        if observed is None or not isinstance(action, Wait) or not _is_for_pods(action, goal):
            self._seen = _Seen()
            return action
        self._seen.waits_since_s = now_s if self._seen.waits_since_s is None else self._seen.waits_since_s
        if observed.pods is not None:
            self._seen.looked_at_s = now_s
            self._look_at(_awaited(goal, observed), now_s)
            self._seen.trouble = self._seen.trouble or _not_made(goal, observed)
        trouble = self._seen.trouble
        if trouble is None:
            return action
        if (
            not is_back
            and not self._seen.any_is_ready
            and now_s - self._seen.since_s.get(trouble.key, now_s) >= trouble.patience_s
        ):
            return _given_up(trouble)
        reason = f"{action.reason.rstrip()} {_sentence(trouble.summary)}"
        return replace(action, reason=reason, failure=action.failure or trouble.summary)

    def _blamed_by_pods(self, failed: Impossible, goal: Goal, observed: Observed, now_s: float) -> Impossible:
        """Return a failure that the status tells, with what the pods show: the status says that a container ended, and
        not whether another version would end there, too. Which of the two is read first makes no difference.
        """
        if observed.pods is not None:
            self._look_at(_awaited(goal, observed), now_s)
        trouble = self._seen.trouble
        if trouble is None or trouble.blames != "setup" or self._seen.any_is_ready:
            return failed
        reason = f"{failed.reason} {_sentence(trouble.summary)}"
        return replace(failed, reason=reason, kind="setup_failed", remedy=trouble.remedy)

    def at_the_end(self, goal: Goal) -> Impossible | None:
        """Return how a wait for which there is no more time ends, where the version itself is at fault; else None."""
        trouble = self._seen.trouble
        if (
            trouble is None
            or trouble.blames == "cluster"
            or self._seen.any_is_ready
            or isinstance(goal, RollBack)
        ):
            return None
        return _given_up(trouble)

    def _look_at(self, pods: Iterable[StartingPod], now_s: float) -> None:
        """Keep what is the worst that holds the pods up, and for how long."""
        seen = list(pods)
        found = [one.trouble for one in seen if one.trouble is not None]
        self._seen.any_is_ready = any(one.is_ready for one in seen)
        self._seen.since_s = {one.key: self._seen.since_s.get(one.key, now_s) for one in found}
        self._seen.trouble = min(
            found, key=lambda one: (one.patience_s, one.blames == "cluster"), default=None
        )


def _is_for_pods(wait: Wait, goal: Goal) -> bool:
    """Return whether pods may be what is waited for: on the way back it is users first, then the good version."""
    if isinstance(goal, RollBack):
        return wait.users_safe or wait.phase != SHIELD
    return not isinstance(goal, Withdraw)


def _awaited(goal: Goal, observed: Observed) -> list[StartingPod]:
    """Return the pods of the version that is waited for; those of the one before it may have the same name."""
    uri = goal.stable_uri if isinstance(goal, RollBack) else observed.storage_uri
    revision = observed.revision_of(uri)
    found = () if observed.pods is None or not revision else observed.pods
    return [one for one in found if one.revision == revision and one.source_uri in ("", uri)]


def _not_made(goal: Goal, observed: Observed) -> PodTrouble | None:
    """Return why the cluster makes no pod of the version, where the dialect reads what tells of it."""
    uri = goal.stable_uri if isinstance(goal, RollBack) else observed.storage_uri
    revision = observed.revision_of(uri)
    refused = observed.pods_refused(revision)
    if not refused:
        return None
    return PodTrouble(
        "FailedCreate",
        f"the Deployment {revision}",
        refused,
        "make room in the namespace's ResourceQuota, or correct what its admission refuses",
    )


def _given_up(trouble: PodTrouble) -> Impossible:
    passed = "" if trouble.patience_s in (0.0, math.inf) else f" (for {trouble.patience_s:.0f} s and more)"
    reason = f"The version does not come up{passed}: {_sentence(trouble.summary)}"
    kind = "load_failed" if trouble.blames == "version" else "setup_failed"
    return Impossible(reason, kind=kind, remedy=trouble.remedy)


def _sentence(words: str) -> str:
    return words if words.endswith((".", "!", "?", "…")) else f"{words}."

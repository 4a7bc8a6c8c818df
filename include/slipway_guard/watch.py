"""The guard's watch: which canaries nobody drives any more, and what is done about them.

Each look takes a snapshot of the cluster, and everything follows from that and from how long the leases have
been seen unchanged. Two guards, or a guard that was restarted, do no harm: every write carries the version of
what was seen, and what to write is `next_action`'s decision, in whichever dialect the canary speaks.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Protocol

from slipway_core.errors import ClusterUnavailableError
from slipway_core.lease_limits import DEFAULT_LEASE_S
from slipway_core.rollout.actions import PatchMade
from slipway_core.rollout.dialects.registry import dialect_of, observe
from slipway_core.rollout.fields import API_VERSION
from slipway_core.rollout.lease import Lease, LeaseWatch, ending, lease_name, parse_lease
from slipway_core.rollout.next_action import (
    Action,
    Done,
    Observed,
    Patch,
    RollBack,
    Wait,
)
from slipway_core.rollout.observation import CANDIDATE_URI, STABLE_URI
from slipway_core.rollout.reading import Evidence, Reading, Resource
from slipway_core.rollout.reconciler import (
    Act,
    Acted,
    Event,
    Failed,
    GiveUp,
    Limits,
    Pause,
    Reached,
    Reconciler,
    Saw,
)
from slipway_guard.cluster import Snapshot
from slipway_guard.log import say

GUARD = "guard"
COMPONENT = "slipway-guard"
# How long an event is tried to be written once the users are safe.
TELLING_LIMIT_S = 60.0


class ClusterApi(Protocol):
    """What a guard needs of the cluster; see `slipway_guard.cluster.Cluster`."""

    def snapshot(self) -> Snapshot:
        """Look at everything once."""

    def patch_service(
        self, namespace: str, name: str, body: Mapping[str, Any], limit_s: float | None = None
    ) -> bool:
        """Merge-patch an InferenceService; False: look again."""

    def read(self, namespace: str, reading: Reading) -> tuple[Mapping[str, Any], ...]:
        """Return the objects of these names; one that does not exist, or cannot be seen, is left out."""

    def patch_made(self, namespace: str, resource: Resource, name: str, body: Mapping[str, Any]) -> bool:
        """Merge-patch an object that KServe has made; False: look again."""

    def patch_lease(self, namespace: str, name: str, body: Mapping[str, Any]) -> bool:
        """Merge-patch a Lease; False: look again."""

    def create_event(self, namespace: str, body: Mapping[str, Any]) -> bool:
        """Write an Event; False: it is written already."""


@dataclass(frozen=True)
class Terms:
    """How patient a guard is, in seconds: `grace_s` beyond every lease, `missing_lease_s` with a canary that has
    none, `poll_s` between two looks.
    """

    grace_s: float = 0.0
    missing_lease_s: float = DEFAULT_LEASE_S
    poll_s: float = 2.0


@dataclass(frozen=True)
class Sight:
    """What one look came to: how many canaries are under way, are being ended, should be ended and cannot be;
    and the longest lease of any, in seconds.
    """

    canaries: int = 0
    ending: int = 0
    left_alone: int = 0
    longest_lease_s: float = 0.0


@dataclass
class _End:
    """A canary that is being ended, until no user is on its candidate any more."""

    goal: RollBack
    reconciler: Reconciler
    reason: str
    weight: int
    lease_uid: str
    since_s: float
    patched: bool = False
    safe_at_s: float | None = None


class Guard:
    """Looks at canaries again and again, see `look`; `clock` is monotonic, `now` dates what people read."""

    def __init__(
        self,
        cluster: ClusterApi,
        terms: Terms,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._cluster = cluster
        self._terms = terms
        self._clock = clock
        self._now = now
        self._watches: dict[str, LeaseWatch] = {}
        self._ends: dict[str, _End] = {}
        self._left_alone: set[str] = set()
        self._last_said: dict[str, tuple[str, object]] = {}

    def look(self) -> Sight:
        """Look at every InferenceService once, and do the next thing about those that need it.

        What goes wrong with one is logged and tried again at the next look. Raises ClusterUnavailableError
        where there was nothing to be seen at all.
        """
        snapshot = self._cluster.snapshot()
        leases = {(one.namespace, one.name): one for one in map(parse_lease, snapshot.leases)}
        present: set[str] = set()
        for service in snapshot.services:
            metadata = _metadata(service)
            present.add(str(metadata.get("uid")))
            name = f"{metadata.get('namespace')}/{metadata.get('name')}"
            try:
                seen = Evidence(
                    {
                        one: _within(found, metadata.get("namespace"))
                        for one, found in snapshot.watched.items()
                    }
                )
                observed = observe(service, seen)
                if observed.uid in self._ends:
                    observed = observe(service, self._with_what_is_behind(service, observed.namespace, seen))
                lease = leases.get((observed.namespace, lease_name(observed.name)))
                self._look_at(observed, lease, snapshot.server_time)
            except ClusterUnavailableError as error:
                if self._is_new(str(metadata.get("uid")), "tried_in_vain", str(error)):
                    say("tried_in_vain", logging.ERROR, inference_service=name, found=str(error))
            except Exception:  # one object that cannot be understood must not end the watch over the others
                say("not_understood", logging.ERROR, exc_info=True, inference_service=name)
        self._forget_all_but(present)
        longest_s = max((watch.lease_s for watch in self._watches.values()), default=0.0)
        return Sight(len(self._watches), len(self._ends), len(self._left_alone), longest_s)

    def _look_at(self, observed: Observed, lease: Lease | None, server_time: datetime | None) -> None:
        end = self._ends.get(observed.uid)
        if end is None:
            if not is_under_way(observed):
                self._forget(observed.uid)
                return
            end = self._judge(observed, lease, server_time)
            if end is None:
                return
            self._ends[observed.uid] = end
        self._continue_end(observed, end)

    def _with_what_is_behind(self, service: Mapping[str, Any], namespace: str, seen: Evidence) -> Evidence:
        """Return what is seen of a canary whose end was tried already, with what lies behind it."""
        behind = {
            one.resource: self._cluster.read(namespace, one)
            for one in dialect_of(service).extra_readings(service)
        }
        return Evidence({**seen.objects, **behind})

    def _judge(self, observed: Observed, lease: Lease | None, server_time: datetime | None) -> _End | None:
        """Return whether the canary is to be ended; if so, nobody can renew its lease any more."""
        watch = self._watched(observed, lease)
        reason = watch.why_expired(lease, grace_s=self._terms.grace_s, server_time=server_time)
        if not reason:
            self._left_alone.discard(observed.uid)
            return None
        if lease is not None and lease.ended_by == GUARD:
            reason = lease.ended_reason
        goal = RollBack(observed.annotation(STABLE_URI), observed.annotation(CANDIDATE_URI))
        reconciler = self._reconciler(goal, observed)
        step = reconciler.next(Saw(observed), self._clock())
        if isinstance(step, GiveUp):
            self._leave_alone(observed, step, reason)
            return None
        if lease is not None and not lease.is_ended:
            body = ending(lease, by=GUARD, reason=reason, now=self._now())
            if not self._cluster.patch_lease(lease.namespace, lease.name, body):
                _say(observed, "renewed_in_time", expired=reason)
                return None
        weight = observed.canary_percent or 0
        _say(observed, "canary_ended", logging.WARNING, reason=reason, weight=weight, holder=_holder(lease))
        return _End(goal, reconciler, reason, weight, lease.uid if lease else "", self._clock())

    def _watched(self, observed: Observed, lease: Lease | None) -> LeaseWatch:
        known, terms, now_s = self._watches.get(observed.uid), self._terms, self._clock()
        if known is None:
            watch = LeaseWatch.begin(lease, now_s, missing_lease_s=terms.missing_lease_s)
            weight = observed.canary_percent
            _say(observed, "watching", weight=weight, holder=_holder(lease), lease_s=watch.lease_s)
        else:
            watch = known.look(lease, now_s, missing_lease_s=terms.missing_lease_s, poll_s=terms.poll_s)
        self._watches[observed.uid] = watch
        return watch

    def _reconciler(self, goal: RollBack, observed: Observed) -> Reconciler:
        """Return what brings a candidate to weight 0. It has no limit: nobody else may be there to do it."""
        return Reconciler(
            goal,
            Limits(),
            name=f"{observed.namespace}/{observed.name}",
            began_s=self._clock(),
            suffices=lambda last: (
                last.observed is not None and users_are_safe(last.action, last.observed, goal)
            ),
        )

    def _continue_end(self, observed: Observed, end: _End) -> None:
        """Do the next thing on the way to weight 0; the pause after it lasts until the guard looks again."""
        step = end.reconciler.next(Saw(observed), self._clock())
        if isinstance(step, Reached):
            self._conclude(observed, end)
        elif observed.canary_percent is None and not end.patched:
            _say(observed, "over_without_guard", found=end.reconciler.reason)
            self._forget(observed.uid)
        elif isinstance(step, GiveUp):
            self._ends.pop(observed.uid)
            self._leave_alone(observed, step, end.reason)
        elif isinstance(step, Act) and isinstance(step.action, Patch | PatchMade):
            end.reconciler.next(self._send(step.action, observed, end, step.limit_s), self._clock())
        elif isinstance(step, Pause) and step.after is not None:
            action = step.after.action
            self._say_once(observed, "waiting", phase=action.phase, found=action.reason)

    def _send(self, patch: Patch | PatchMade, observed: Observed, end: _End, limit_s: float | None) -> Event:
        """Patch the InferenceService, or what KServe has made of it, and return what came of it."""
        try:
            accepted = self._patch(patch, observed, limit_s)
        except ClusterUnavailableError as error:
            # That a fallback cannot be written is part of what the guard waits for from then on.
            if isinstance(patch, Patch):
                self._say_once(observed, "tried_in_vain", logging.ERROR, found=str(error))
            return Failed(error)
        end.patched = end.patched or accepted
        _say(observed, "patched" if accepted else "conflict", phase=patch.phase, doing=patch.reason)
        return Acted(accepted)

    def _patch(self, patch: Patch | PatchMade, observed: Observed, limit_s: float | None) -> bool:
        namespace = observed.namespace
        match patch:
            case Patch():
                return self._cluster.patch_service(namespace, observed.name, patch.body, limit_s)
            case PatchMade():
                resource = patch.resource
                return all(
                    self._cluster.patch_made(namespace, resource, one.name, one.body) for one in patch.patches
                )

    def _leave_alone(self, observed: Observed, gives_up: GiveUp, expired: str) -> None:
        self._left_alone.add(observed.uid)
        self._say_once(observed, "left_alone", logging.ERROR, expired=expired, found=gives_up.error.found)

    def _conclude(self, observed: Observed, end: _End) -> None:
        """Log that users are safe, create the event, and forget the canary."""
        now_s = self._clock()
        if end.safe_at_s is None:
            end.safe_at_s = now_s
            _say(observed, "users_safe", logging.WARNING, after_s=round(now_s - end.since_s, 3))
        try:
            self._cluster.create_event(observed.namespace, event(observed, end.goal, end, self._now()))
        except ClusterUnavailableError:
            if now_s - end.safe_at_s < TELLING_LIMIT_S:
                raise
            _say(observed, "event_not_written", logging.ERROR)
        self._forget(observed.uid)

    def _forget(self, uid: str) -> None:
        self._watches.pop(uid, None)
        self._ends.pop(uid, None)
        self._left_alone.discard(uid)

    def _forget_all_but(self, present: set[str]) -> None:
        for uid in {*self._watches, *self._ends} - present:
            self._forget(uid)
        self._last_said = {uid: said for uid, said in self._last_said.items() if uid in present}

    def _say_once(self, observed: Observed, word: str, level: int = logging.INFO, **facts: Any) -> None:
        """Log what was not just logged about this object; `found` distinguishes one thing from another."""
        if self._is_new(observed.uid, word, facts.get("found")):
            _say(observed, word, level, **facts)

    def _is_new(self, uid: str, word: str, found: object) -> bool:
        """Return whether this is something else than what was last said of the object; it counts as said then."""
        is_new = self._last_said.get(uid) != (word, found)
        self._last_said[uid] = (word, found)
        return is_new


def is_under_way(observed: Observed) -> bool:
    """Return whether a canary of ours has a share of the users. The guard ignores those of others.

    Where the candidate is the stable version itself, a good version is on its way back.
    """
    candidate = observed.annotation(CANDIDATE_URI)
    is_ours = bool(candidate) and candidate != observed.annotation(STABLE_URI)
    return is_ours and bool(observed.canary_percent) and not observed.deleting


def users_are_safe(action: Action, observed: Observed, goal: RollBack) -> bool:
    """Return whether the traffic that was seen leads nobody to the candidate; `action` is what is due next."""
    if isinstance(action, Wait):
        return action.users_safe
    return isinstance(action, Done) or (
        isinstance(action, Patch) and observed.is_shielded_from(goal.candidate_uri)
    )


def event(observed: Observed, goal: RollBack, end: _End, now: datetime) -> dict[str, Any]:
    """Return the Event about a canary that was ended; two guards write it under one name, hence once."""
    what = sha256(f"{observed.uid} {end.lease_uid} {goal.candidate_uri}".encode()).hexdigest()[:16]
    stamp = now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{observed.name}.guard.{what}", "namespace": observed.namespace},
        "involvedObject": {
            "apiVersion": API_VERSION,
            "kind": "InferenceService",
            "name": observed.name,
            "namespace": observed.namespace,
            "uid": observed.uid,
            "resourceVersion": observed.resource_version,
        },
        "type": "Warning",
        "reason": "CanaryEnded",
        "action": "RollBack",
        "message": (
            f"The guard ended the canary of {goal.candidate_uri}: {end.reason}. It had {end.weight} % of the "
            f"traffic and has 0 % now: new requests go to {goal.stable_uri}. Streams that were open may still be on "
            "the candidate; the release's rollback ends them and does the rest, or end the candidate's pods by hand."
        )[:1024],
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "reportingInstance": "",
        "firstTimestamp": stamp,
        "lastTimestamp": stamp,
        "count": 1,
    }


def _within(found: tuple[Any, ...], namespace: Any) -> tuple[Any, ...]:
    """Return the objects of a namespace."""
    return tuple(one for one in found if str(_metadata(one).get("namespace")) == str(namespace))


def _metadata(obj: Any) -> Mapping[str, Any]:
    """An object's metadata, empty if it has none: one that cannot be understood must not hide the others."""
    metadata = obj.get("metadata") if isinstance(obj, Mapping) else None
    return metadata if isinstance(metadata, Mapping) else {}


def _holder(lease: Lease | None) -> str | None:
    return None if lease is None else lease.holder


def _say(observed: Observed, word: str, level: int = logging.INFO, **facts: Any) -> None:
    say(word, level, inference_service=f"{observed.namespace}/{observed.name}", **facts)

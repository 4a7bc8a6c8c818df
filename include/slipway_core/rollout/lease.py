"""A canary's lease: proof that somebody drives it, and the way to end the canary when nobody does.

The lease is a `coordination.k8s.io/v1` Lease beside the InferenceService. It is no annotation of that, because
KServe copies annotations into the revision template (kserve#3710): every renewal would make a new revision.

Who writes the Lease first wins. Before a patch that raises a weight, the holder reads the InferenceService,
renews the Lease by its resourceVersion, and only then patches by the InferenceService's. A guard that finds
the Lease expired marks it ended by its resourceVersion, and only then takes the weight to 0. So a renewal and
an end exclude each other, and a patch that was decided before the end meets a conflict.

Expiry is judged on the watcher's own monotonic clock, as in Kubernetes' leader election (client-go,
`leaderelection.go`): what counts is whether `renewTime` *changes* while the watcher looks, never what time it
says. Clocks may differ by hours.

A person pauses a canary by a note on the Lease, which changes its resourceVersion. Whoever raises a weight renews the
Lease between looking and patching and is given it as stored, so the note is seen there. A renewal after the note says
that the holder knows of it.

Whatever is read of a Lease may have been written by anybody: see `parse_lease`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from slipway_core.lease_limits import DEFAULT_LEASE_S, LONGEST_LEASE_S
from slipway_core.rollout.holder_identity import HolderIdentity
from slipway_core.rollout.observation import ANNOTATION_PREFIX, CANDIDATE_URI, STABLE_URI

GROUP, API_VERSION, PLURAL = "coordination.k8s.io", "v1", "leases"
MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGER = "slipway"
INFERENCE_SERVICE = ANNOTATION_PREFIX + "inference-service"
ENDED_BY = ANNOTATION_PREFIX + "ended-by"
ENDED_AT = ANNOTATION_PREFIX + "ended-at"
ENDED_REASON = ANNOTATION_PREFIX + "ended-reason"
PAUSED = ANNOTATION_PREFIX + "paused"
# Picks our leases among those of nodes and leaders.
SELECTOR = f"{MANAGED_BY}={MANAGER}"

# A holder that misses two renewals still has its lease.
RENEWALS_PER_LEASE = 3
# The most that a holder waits between two renewals: a pause is noticed by then.
LONGEST_RENEWAL_S = 10.0
# What is kept of a text that somebody wrote into a Lease.
TEXT_LIMIT = 1000
# By how much the clocks of two API servers may differ.
SERVER_SKEW_S = 300.0


def lease_name(inference_service: str) -> str:
    """Return the name of the Lease that belongs to an InferenceService of the same namespace."""
    return f"slipway-{inference_service}"


def renew_interval_s(lease_s: float) -> float:
    """Return the longest that may lie between two renewals if one more may be missed after it, in seconds."""
    return lease_s / RENEWALS_PER_LEASE


def renewal_due_s(lease_s: float) -> float:
    """Return after how many seconds a holder renews: early enough for the lease, and to notice a pause soon."""
    return min(renew_interval_s(lease_s), LONGEST_RENEWAL_S)


@dataclass(frozen=True)
class Lease:
    """One reading of a Lease; texts are "" and times None if the object says nothing.

    `holder` is who may renew it, as text; `HolderIdentity.parse` reads run and try out of it. `renewed_at` is what the
    holder's clock said, `written_at` what the API server's said at the last write (None if the server does not
    tell). All times are UTC. `paused` is why the canary shall stay at its weight, "" if it need not.
    """

    name: str
    namespace: str
    inference_service: str
    holder: str
    lease_s: int
    uid: str = ""
    resource_version: str = ""
    acquired_at: datetime | None = None
    renewed_at: datetime | None = None
    written_at: datetime | None = None
    candidate_uri: str = ""
    stable_uri: str = ""
    ended_by: str = ""
    ended_at: datetime | None = None
    ended_reason: str = ""
    paused: str = ""

    @property
    def is_ended(self) -> bool:
        """Whether somebody has ended the canary; it is over then, whoever holds the lease."""
        return bool(self.ended_by)

    @property
    def release_id(self) -> str:
        """The release whose task holds it."""
        return HolderIdentity.parse(self.holder).release_id

    def is_held_by(self, holder: str) -> bool:
        """Return whether that holder may still raise a weight."""
        return self.holder == holder and not self.is_ended


def parse_lease(obj: Any) -> Lease:
    """Read a Lease as the API returns it; it never raises, whatever somebody has written there.

    A duration that is missing, no whole number or not positive reads as the default; one beyond `LONGEST_LEASE_S`,
    which would switch a guard off, as that. Texts are cut to `TEXT_LIMIT` characters on one line; no text is "".
    """
    metadata, spec = _mapping(_mapping(obj).get("metadata")), _mapping(_mapping(obj).get("spec"))
    notes = {key: _text(value) for key, value in _mapping(metadata.get("annotations")).items()}
    name = _text(metadata.get("name"))
    return Lease(
        name=name,
        namespace=_text(metadata.get("namespace")),
        inference_service=name.removeprefix(lease_name("")),
        holder=_text(spec.get("holderIdentity")),
        lease_s=_duration_s(spec.get("leaseDurationSeconds")),
        uid=_text(metadata.get("uid")),
        resource_version=_text(metadata.get("resourceVersion")),
        acquired_at=_time(spec.get("acquireTime")),
        renewed_at=_time(spec.get("renewTime")),
        written_at=_last_write(metadata.get("managedFields")),
        candidate_uri=notes.get(CANDIDATE_URI, ""),
        stable_uri=notes.get(STABLE_URI, ""),
        ended_by=_said(notes, ENDED_BY),
        ended_at=_time(notes.get(ENDED_AT)),
        ended_reason=notes.get(ENDED_REASON, ""),
        paused=_said(notes, PAUSED),
    )


# --- what is sent ---


def lease_manifest(
    inference_service: str,
    namespace: str,
    *,
    holder: str,
    now: datetime,
    lease_s: int = DEFAULT_LEASE_S,
    candidate_uri: str = "",
    stable_uri: str = "",
) -> dict[str, Any]:
    """Return the Lease with which a canary begins; `now` is the holder's clock. Raises ValueError for a
    duration below one second or above `LONGEST_LEASE_S`.
    """
    if not 1 <= lease_s <= LONGEST_LEASE_S:
        raise ValueError(f"a lease lasts 1 to {LONGEST_LEASE_S} seconds, not {lease_s}")
    return {
        "apiVersion": f"{GROUP}/{API_VERSION}",
        "kind": "Lease",
        "metadata": {
            "name": lease_name(inference_service),
            "namespace": namespace,
            "labels": {MANAGED_BY: MANAGER, INFERENCE_SERVICE: inference_service},
            "annotations": {CANDIDATE_URI: candidate_uri, STABLE_URI: stable_uri},
        },
        "spec": {
            "holderIdentity": holder,
            "leaseDurationSeconds": lease_s,
            "acquireTime": micro_time(now),
            "renewTime": micro_time(now),
        },
    }


def renewal(lease: Lease, now: datetime, holder: str = "", lease_s: int = 0) -> dict[str, Any]:
    """Return the merge patch that renews a lease; on 409 look again. Raises ValueError for one that was ended.

    `holder` takes it over, where it is another's (see `HolderIdentity.may_take_over`), and `lease_s` is how long it
    lasts from then on; 0: as long as before. The label is said again, without which a guard would not see the lease.
    """
    if lease.is_ended:
        raise ValueError(f"the lease {lease.namespace}/{lease.name} was ended by {lease.ended_by}")
    taken_over = {"holderIdentity": holder} if holder not in ("", lease.holder) else {}
    lasts = {"leaseDurationSeconds": lease_s} if lease_s not in (0, lease.lease_s) else {}
    return {
        "metadata": {"resourceVersion": lease.resource_version, "labels": {MANAGED_BY: MANAGER}},
        "spec": {"renewTime": micro_time(now), **taken_over, **lasts},
    }


def ending(lease: Lease, *, by: str, reason: str, now: datetime) -> dict[str, Any]:
    """Return the merge patch that ends a canary for its holder; on 409 it was renewed, so look again."""
    notes = {ENDED_BY: by, ENDED_AT: micro_time(now), ENDED_REASON: reason}
    return {"metadata": {"resourceVersion": lease.resource_version, "annotations": notes}}


def pausing(lease: Lease, reason: str | None) -> dict[str, Any]:
    """Return the merge patch that pauses a canary at its weight, for a reason; None lets it go on."""
    return {"metadata": {"resourceVersion": lease.resource_version, "annotations": {PAUSED: reason}}}


def micro_time(when: datetime) -> str:
    """Return a time as Kubernetes' MicroTime: UTC with six digits of a second, which its parser insists on."""
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


# --- whether it has run out ---


@dataclass(frozen=True)
class LeaseWatch:
    """What one watcher has seen of one canary's lease, by its own monotonic clock.

    `unchanged_s` is how long the watcher has *looked on* while nothing changed; `lease_s` how long nothing may.
    A gap between two looks counts at most as one interval of renewal: while the API is away, the holder cannot
    renew either, and after it is back it has that much time left.
    """

    lease_s: float
    looked_at_s: float
    unchanged_s: float = 0.0
    looks: int = 1
    _last: tuple[object, ...] = field(default=(), repr=False)

    @classmethod
    def begin(
        cls, lease: Lease | None, now_s: float, *, missing_lease_s: float = DEFAULT_LEASE_S
    ) -> LeaseWatch:
        """Return what a first look has seen. A canary without a lease has `missing_lease_s` to get one."""
        lease_s = float(missing_lease_s if lease is None else lease.lease_s)
        return cls(lease_s=lease_s, looked_at_s=now_s, _last=_renewal_of(lease))

    def look(
        self,
        lease: Lease | None,
        now_s: float,
        *,
        missing_lease_s: float = DEFAULT_LEASE_S,
        poll_s: float = 0.0,
    ) -> LeaseWatch:
        """Return what is known after another look at `now_s`; looks at least `poll_s` apart are no gap."""
        if _renewal_of(lease) != self._last:
            begun = LeaseWatch.begin(lease, now_s, missing_lease_s=missing_lease_s)
            return replace(begun, looks=self.looks + 1)
        longest_s = max(renew_interval_s(self.lease_s), 2 * poll_s)
        passed_s = min(max(now_s - self.looked_at_s, 0.0), longest_s)
        return replace(self, looked_at_s=now_s, unchanged_s=self.unchanged_s + passed_s, looks=self.looks + 1)

    def why_expired(
        self, lease: Lease | None, *, grace_s: float = 0.0, server_time: datetime | None = None
    ) -> str:
        """Return why nobody drives the canary any more, as a clause for people; "" if somebody may be.

        A watcher without memory (a first look) need not watch a lease that the API server itself wrote longer
        ago, by its own clock at `server_time`, than clocks can differ.
        """
        if lease is not None and lease.is_ended:
            return f"it was ended by {lease.ended_by}: {lease.ended_reason or 'no reason was given'}"
        if self.unchanged_s >= self.lease_s + grace_s:
            if lease is None:
                return f"it had no lease for {self.unchanged_s:.0f} s"
            return f"its lease of {self.lease_s:.0f} s was not renewed for {self.unchanged_s:.0f} s"
        if self.looks == 1 and lease is not None and lease.written_at is not None and server_time is not None:
            age_s = (server_time - lease.written_at).total_seconds()
            if age_s > self.lease_s + grace_s + SERVER_SKEW_S:
                return f"its lease of {self.lease_s:.0f} s was last renewed {age_s:.0f} s ago"
        return ""


def _renewal_of(lease: Lease | None) -> tuple[object, ...]:
    """Return what changes with every renewal, and with nothing that anyone but a holder does."""
    if lease is None:
        return ()
    return (lease.uid, lease.holder, lease.lease_s, lease.renewed_at)


def _last_write(managers: Any) -> datetime | None:
    """Return the latest time in `metadata.managedFields`, which the API server dates whenever a value changes."""
    entries = managers if isinstance(managers, list) else []
    times = [_time(_mapping(entry).get("time")) for entry in entries]
    return max((time for time in times if time is not None), default=None)


def _time(value: Any) -> datetime | None:
    if not isinstance(value, str):
        return None
    try:
        return datetime.fromisoformat(value).astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _duration_s(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        return DEFAULT_LEASE_S
    return min(value, LONGEST_LEASE_S)


def _text(value: Any) -> str:
    """A text without what would break a line of a log, cut to its limit; "" for anything else."""
    if not isinstance(value, str):
        return ""
    return "".join(one if one.isprintable() else " " for one in value[:TEXT_LIMIT])


def _said(notes: Mapping[str, str], name: str) -> str:
    """A note whose presence counts: one that is there says something, and be it a blank."""
    return (notes[name].strip() or "no reason given") if name in notes else ""


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}

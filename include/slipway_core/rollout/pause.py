"""Whether a pause holds: the answer to the person who asked for it."""

from __future__ import annotations

from dataclasses import dataclass

from slipway_core.rollout.lease import Lease
from slipway_core.rollout.observation import Observed


@dataclass(frozen=True)
class PauseOutcome:
    """What became of a pause: it `holds` from now on, or it came too late; `summary` is a clause for people."""

    holds: bool
    summary: str


def pause_outcome(noted: Lease, lease: Lease | None, observed: Observed | None) -> PauseOutcome | None:
    """Return what is true of a pause, None while nobody can know.

    A task that renewed the lease before the pause was noted may still send the patch that the renewal permitted. A task
    that renews it later learns of the pause and patches no more. So the pause holds from the first renewal after the
    note, and the InferenceService stays as it reads after that renewal.

    :param noted: the lease as it was stored with the note.
    :param lease: the lease now (None: there is none), and `observed` the InferenceService, read after it.
    """
    if lease is None or lease.uid != noted.uid:
        return PauseOutcome(False, f"too late: {_end(noted, observed)}")
    if lease.is_ended:
        return PauseOutcome(
            False, f"too late: the canary was ended by {lease.ended_by} ({lease.ended_reason})"
        )
    if not lease.paused:
        return PauseOutcome(False, "somebody has resumed the canary in the meantime")
    if (lease.renewed_at, lease.holder) == (noted.renewed_at, noted.holder):
        return None
    if observed is not None and observed.canary_percent is not None:
        return PauseOutcome(True, f"paused at {observed.canary_percent} %")
    if observed is not None and observed.storage_uri == noted.candidate_uri:
        return PauseOutcome(False, f"too late: {_end(noted, observed)}")
    return PauseOutcome(True, "paused before the first percent")


def _end(noted: Lease, observed: Observed | None) -> str:
    if observed is None:
        return "the InferenceService no longer exists"
    if observed.canary_percent is None and observed.storage_uri == noted.candidate_uri:
        return "the version was promoted"
    return "the canary is over, and the stable version has all traffic or is about to"

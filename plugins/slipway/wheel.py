"""Who is at the wheel of a canary: the release that renews its lease, until somebody ends the canary."""

from __future__ import annotations

import time

from include.model_release.errors import CanaryEndedError
from include.model_release.lease import Lease, renew_interval_s
from slipway.hooks.lease import LeaseHook
from slipway.ticket import ReleaseTicket


class Wheel:
    """A release's hold on its canary.

    :param hook: the lease of the release's InferenceService.

    `ended_by` says who ended the canary, and `paused` why it shall stay at its weight, both "" where nobody wants so.
    """

    def __init__(self, hook: LeaseHook, ticket: ReleaseTicket) -> None:
        self._hook = hook
        self._ticket = ticket
        self._due_s = 0.0
        self.ended_by = ""
        self.paused = ""

    def take(self) -> None:
        """Takes the lease before the candidate gets its first percent; one that is this release's is renewed.

        :raises ReleaseInProgressError: another release holds it.
        :raises CanaryEndedError: it is this release's, and was ended.
        """
        ticket = self._ticket
        lease = self._hook.acquire(
            ticket.release_id,
            lease_s=ticket.spec.rollout.lease_s,
            candidate_uri=ticket.storage_uri,
            stable_uri="" if ticket.stable is None else ticket.stable.storage_uri,
        )
        self._require(lease)

    def keep(self) -> None:
        """Renews the lease. To be called between looking at the InferenceService and raising a weight.

        :raises CanaryEndedError: somebody ended the canary, or took its lease away.
        """
        self._require(self._hook.keep(self._ticket.release_id))

    def keep_if_due(self) -> None:
        """Renews the lease when it is time to; for whoever waits and raises nothing."""
        if self.is_due:
            self.keep()

    @property
    def is_due(self) -> bool:
        """Whether it is time to renew: three times in the lease's duration."""
        return time.monotonic() >= self._due_s

    def require_not_ended(self) -> None:
        """Looks whether somebody ended this release's canary.

        :raises CanaryEndedError: somebody did.
        """
        lease = self._hook.get()
        if lease is not None and lease.holder == self._ticket.release_id and lease.is_ended:
            self._require(lease)

    def leave(self) -> None:
        """Gives the lease back: the canary is over, and one version has all traffic."""
        self._hook.release(self._ticket.release_id)

    def _require(self, lease: Lease | None) -> None:
        if lease is not None and lease.is_held_by(self._ticket.release_id):
            self._due_s = time.monotonic() + renew_interval_s(lease.lease_s)
            self.paused = lease.paused
            return
        self.ended_by = "someone who removed the lease" if lease is None else lease.ended_by
        raise CanaryEndedError(
            f"the canary of {self._ticket.model!r} version {self._ticket.version} is over",
            expected="the lease of the canary, held by this release",
            found="no lease" if lease is None else f"ended by {lease.ended_by}: {lease.ended_reason}",
            remedy="the candidate's share is 0 or being taken back; release the version again with `force`",
        )

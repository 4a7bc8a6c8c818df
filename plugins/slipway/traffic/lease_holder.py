"""The lease holder: a release's hold on its canary, until the canary is over or somebody ends it."""

from __future__ import annotations

import logging
import time

from slipway.hooks.lease import LeaseHook
from slipway.release_run import ReleaseRun
from slipway_core.errors import CanaryEndedError, TransientError
from slipway_core.permission.raise_permission import lease_refusal
from slipway_core.rollout.holder_identity import HolderIdentity, Stage
from slipway_core.rollout.lease import Lease, renewal_due_s

log = logging.getLogger(__name__)


class LeaseHolder:
    """A release's hold on its canary.

    :param hook: the lease of the release's InferenceService.
    :param stage: which of the release's tasks drives, and `attempt` which try of it; without them it can only look
        (`require_not_ended`) and give the lease back (`leave`).

    `ended_by` says who ended the canary, and `paused` why it shall stay at its weight, both "" where nobody wants so.
    """

    def __init__(
        self, hook: LeaseHook, release_run: ReleaseRun, stage: Stage | None = None, attempt: int = 1
    ) -> None:
        self._hook = hook
        self._release_run = release_run
        self._holder = HolderIdentity(release_run.release_id, stage, attempt if stage else 0)
        self._due_s = 0.0
        self.ended_by = ""
        self.paused = ""

    def take(self, *, to_raise: bool = False) -> None:
        """Take the lease before the candidate gets its first percent; one that is this release's is renewed.

        :raises ReleaseInProgressError: another release holds it.
        :raises LeaseTakenOverError: a later try of this release holds it.
        :raises CanaryEndedError: it is this release's, and was ended.
        """
        release_run = self._release_run
        lease = self._hook.acquire(
            self._holder,
            lease_s=release_run.spec.rollout.lease_s,
            candidate_uri=release_run.storage_uri,
            stable_uri="" if release_run.stable is None else release_run.stable.storage_uri,
        )
        self._require(lease, to_raise=to_raise)

    def take_to_raise(self) -> None:
        """Take the lease for a patch that raises a weight; see `take` and `keep_to_raise`."""
        self.take(to_raise=True)

    def keep(self, *, to_raise: bool = False) -> None:
        """Renew the lease, and learn of a pause.

        :raises LeaseTakenOverError: a later try of this release holds it.
        :raises CanaryEndedError: somebody ended the canary, or took its lease away.
        """
        lease_s = self._release_run.spec.rollout.lease_s
        self._require(self._hook.keep(self._holder, lease_s), to_raise=to_raise)

    def hand_over(self) -> None:
        """Renew the lease for the last time of this task: until the one that promotes has begun, which may take Airflow
        longer than a lease lasts that somebody renews. Its first renewal makes the lease as short as before.

        An API that does not answer is no reason to lose the release: the lease lasts as long as before then.

        :raises CanaryEndedError: as `keep`.
        """
        rollout = self._release_run.spec.rollout
        try:
            self._require(
                self._hook.keep(self._holder, max(rollout.lease_s, rollout.handover_s)), to_raise=False
            )
        except TransientError as error:
            log.warning("the canary's lease could not be handed over: %s", error.in_short())

    def keep_to_raise(self) -> None:
        """Renew the lease for a patch that raises a weight. To be called between looking at the InferenceService and
        patching it: a pause that is noted later meets a holder that has patched, or whose next renewal reports it.

        :raises CanaryPausedError: a person wants the canary to stay at its weight; the renewal has confirmed it.
        :raises CanaryEndedError: as `keep`.
        """
        self.keep(to_raise=True)

    def keep_if_due(self) -> None:
        """Renew the lease when it is time to; for whoever waits and raises nothing."""
        if self.is_due:
            self.keep()

    @property
    def is_due(self) -> bool:
        """Whether it is time to renew: three times in the lease's duration, and soon enough to notice a pause."""
        return time.monotonic() >= self._due_s

    def require_not_ended(self) -> None:
        """Look whether somebody ended this release's canary.

        :raises CanaryEndedError: somebody did.
        """
        lease = self._hook.get()
        if lease is not None and lease.release_id == self._release_run.release_id and lease.is_ended:
            self._require(lease, to_raise=False)

    def leave(self) -> None:
        """Give the lease back: the canary is over, and one version has all traffic."""
        self._hook.release(self._release_run.release_id)

    def _require(self, lease: Lease | None, *, to_raise: bool) -> None:
        refusal = lease_refusal(str(self._holder), lease)
        if lease is not None and lease.is_held_by(str(self._holder)):
            self._due_s = time.monotonic() + renewal_due_s(lease.lease_s)
            self.paused = lease.paused
        if isinstance(refusal, CanaryEndedError):
            self.ended_by = (lease.ended_by if lease else "") or "someone who removed the lease"
            raise refusal
        if refusal is not None and to_raise:
            raise refusal

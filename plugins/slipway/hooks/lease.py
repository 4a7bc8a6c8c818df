"""A canary's lease through the Kubernetes API: taken, renewed, ended and given back, each by what was seen of it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import ClassVar, TypeVar

from slipway.hooks.kubernetes_object import ATTEMPTS, FIRST_PAUSE_S, ClusterObjectHook
from slipway_core.errors import (
    ClusterUnavailableError,
    InputMissingError,
    LeaseTakenOverError,
    ReleaseInProgressError,
)
from slipway_core.lease_limits import DEFAULT_LEASE_S
from slipway_core.rollout.holder_identity import HolderIdentity
from slipway_core.rollout.lease import (
    API_VERSION,
    GROUP,
    PLURAL,
    Lease,
    ending,
    lease_manifest,
    lease_name,
    parse_lease,
    pausing,
    renewal,
)
from slipway_kubernetes import ObjectKind

Outcome = TypeVar("Outcome")


class _ConflictError(Exception):
    """Somebody has written the lease since it was read: look again."""


class LeaseHook(ClusterObjectHook):
    """The lease of one InferenceService.

    "Could not read" (`ClusterUnavailableError`) is never reported as "there is none" (`None`). What meets a conflict is
    decided anew a few times, after pauses that grow; a lease that changes all the while is one that cannot be had.

    :param inference_service: the InferenceService's name.
    :param namespace: its namespace.
    :param kubernetes_conn_id: an Airflow connection of type ``kubernetes``.
    """

    object_kind: ClassVar[ObjectKind] = ObjectKind(
        GROUP, API_VERSION, PLURAL, "Lease", invalid_remedy="correct the release file's `rollout`"
    )

    def __init__(
        self, inference_service: str, namespace: str, kubernetes_conn_id: str = "kubernetes_default"
    ) -> None:
        super().__init__(lease_name(inference_service), namespace, kubernetes_conn_id)
        self.inference_service = inference_service

    def get(self) -> Lease | None:
        """Return the lease, or None where there is none."""
        found = self._read()
        return None if found is None else parse_lease(found)

    def acquire(
        self,
        holder: HolderIdentity,
        *,
        lease_s: int = DEFAULT_LEASE_S,
        candidate_uri: str = "",
        stable_uri: str = "",
    ) -> Lease:
        """Take the lease before a canary begins; one that is the release's already (a task run again) is renewed.

        :returns: the lease as stored. One of the release's that was ended meanwhile is returned as it is: see
            `Lease.is_held_by`.
        :raises ReleaseInProgressError: another release has it, alive or not.
        :raises LeaseTakenOverError: a later try of this release has it.
        """
        manifest = lease_manifest(
            self.inference_service,
            self.namespace,
            holder=str(holder),
            now=datetime.now(UTC),
            lease_s=lease_s,
            candidate_uri=candidate_uri,
            stable_uri=stable_uri,
        )

        def acquired() -> Lease:
            created = self._create(manifest)
            if created is not None:
                return parse_lease(created)
            found = self.get()
            if found is None:
                raise _ConflictError  # given back between our two requests
            if found.release_id != holder.release_id:
                raise ReleaseInProgressError(
                    f"the canary's lease {found.namespace}/{found.name} belongs to another release",
                    expected=f"no lease, or a lease of {holder.release_id}",
                    found=f"held by {found.holder or 'nobody'}, last renewed {found.renewed_at}",
                    remedy="wait until that release has ended; if its process has died, roll back its canary, which "
                    "frees the lease",
                )
            return self._renewed(found, holder, lease_s)

        return self._decided(acquired)

    def renew(self, lease: Lease, holder: HolderIdentity | None = None, lease_s: int = 0) -> Lease | None:
        """Renew the lease that was seen; None: somebody wrote in between, or it is gone, so look again.

        :param holder: takes it over, if it is not the holder already.
        :param lease_s: how long it lasts from now on; 0: as long as before.
        :raises ValueError: what was seen was ended already.
        """
        name = "" if holder is None else str(holder)
        stored = self._patch(renewal(lease, datetime.now(UTC), name, lease_s))
        return None if stored is None else parse_lease(stored)

    def keep(self, holder: HolderIdentity, lease_s: int = 0) -> Lease | None:
        """Renew the lease if it is still the release's. To be called before every patch that raises a weight, after
        the InferenceService was read, and several times a lease in between.

        :param lease_s: how long it lasts from now on; 0: as long as before.
        :returns: the lease as it stands: renewed, or ended by somebody (`Lease.is_ended`) and then left as it is.
            None: there is none any more, or it is another release's. Only `Lease.is_held_by` permits to go on, and
            `Lease.paused` forbids to raise.
        :raises LeaseTakenOverError: a later try of this release holds it.
        """

        def kept() -> Lease | None:
            found = self.get()
            if found is None or found.release_id != holder.release_id:
                return None
            return self._renewed(found, holder, lease_s)

        return self._decided(kept)

    def _renewed(self, found: Lease, holder: HolderIdentity, lease_s: int) -> Lease:
        """Return one of this release's leases, renewed for a holder that may have it; an ended one as it is."""
        if not holder.may_take_over(HolderIdentity.parse(found.holder)):
            raise LeaseTakenOverError(
                f"the canary's lease {found.namespace}/{found.name} is held by a later attempt of the same release",
                expected=str(holder),
                found=found.holder,
                remedy="nothing: the later attempt drives the canary, and this one ended without changing it",
            )
        if found.is_ended:
            return found
        renewed = self.renew(found, holder, lease_s)
        if renewed is None:
            raise _ConflictError
        return renewed

    def end(self, lease: Lease, *, by: str, reason: str) -> Lease | None:
        """End the canary for whoever holds its lease; None: it was renewed or ended in between, so look again."""
        stored = self._patch(ending(lease, by=by, reason=reason, now=datetime.now(UTC)))
        return None if stored is None else parse_lease(stored)

    def pause(self, reason: str | None) -> Lease:
        """Note that the canary shall stay at its weight, for a reason that people see; None lets it continue.

        The note alone stops nobody who renewed the lease before it and has not patched yet: the canary is paused when
        the lease was renewed after the note.

        :returns: the lease as stored.
        :raises InputMissingError: there is no canary under way.
        """

        def noted() -> Lease:
            found = self.get()
            if found is None or found.is_ended:
                raise InputMissingError(
                    f"no canary is under way on {self.namespace}/{self.inference_service}",
                    expected=f"the lease {self.name}",
                    found="none" if found is None else f"ended by {found.ended_by}",
                    remedy="nothing needs to be paused; to stop a release before its canary, abort it",
                )
            stored = self._patch(pausing(found, reason))
            if stored is None:
                raise _ConflictError
            return parse_lease(stored)

        return self._decided(noted)

    def release(self, release_id: str) -> Lease | None:
        """Give the lease back, ended or not, once the canary is promoted or rolled back.

        :returns: the lease as it was when it was deleted, so that the caller learns if it had been ended. None:
            there was none, or it was another release's, which stays.
        """

        def released() -> Lease | None:
            found = self.get()
            if found is None or found.release_id != release_id:
                return None
            if not self._delete(found.uid, found.resource_version):
                raise _ConflictError
            return found

        return self._decided(released)

    def _decided(self, decide: Callable[[], Outcome]) -> Outcome:
        """Return what is decided on a reading that holds until it is carried out.

        :raises ClusterUnavailableError: every reading was overtaken.
        """
        for attempt in range(ATTEMPTS):
            try:
                return decide()
            except _ConflictError:
                time.sleep(FIRST_PAUSE_S * 2**attempt * random.uniform(0.5, 1.0))
        raise ClusterUnavailableError(
            f"the Lease {self.namespace}/{self.name} was changed by others during each of {ATTEMPTS} attempts",
            expected="an occasional change between reading and writing it",
            found=f"{ATTEMPTS} conflicts in a row",
            remedy="find out who else writes it, with `kubectl get lease --show-managed-fields`",
        )

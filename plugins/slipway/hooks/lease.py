"""A canary's lease through the Kubernetes API: taken, renewed, ended and given back, each by what was seen of it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import ClassVar

from include.model_release.errors import InputMissingError, ReleaseInProgressError
from include.model_release.lease import (
    API_VERSION,
    DEFAULT_LEASE_S,
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
from slipway.hooks.cluster_object import ClusterObjectHook


class LeaseHook(ClusterObjectHook):
    """The lease of one InferenceService.

    "Could not read" (`ClusterUnavailableError`) is never reported as "there is none" (`None`).

    :param inference_service: the InferenceService's name.
    :param namespace: its namespace.
    :param kubernetes_conn_id: an Airflow connection of type ``kubernetes``.
    """

    group: ClassVar[str] = GROUP
    api_version: ClassVar[str] = API_VERSION
    plural: ClassVar[str] = PLURAL
    kind: ClassVar[str] = "Lease"
    invalid_remedy: ClassVar[str] = "correct the release file's `rollout`"

    def __init__(
        self, inference_service: str, namespace: str, kubernetes_conn_id: str = "kubernetes_default"
    ) -> None:
        super().__init__(lease_name(inference_service), namespace, kubernetes_conn_id)
        self.inference_service = inference_service

    def get(self) -> Lease | None:
        """The lease, or None where there is none."""
        found = self._read()
        return None if found is None else parse_lease(found)

    def acquire(
        self,
        holder: str,
        *,
        lease_s: int = DEFAULT_LEASE_S,
        candidate_uri: str = "",
        stable_uri: str = "",
    ) -> Lease:
        """Takes the lease before a canary begins; one that is the holder's already (a task run again) is renewed.

        :return: the lease as stored. One of the holder's that was ended meanwhile is returned as it is: see
            `Lease.is_held_by`.
        :raises ReleaseInProgressError: another release has it, alive or not.
        """
        manifest = lease_manifest(
            self.inference_service,
            self.namespace,
            holder=holder,
            now=datetime.now(UTC),
            lease_s=lease_s,
            candidate_uri=candidate_uri,
            stable_uri=stable_uri,
        )
        while True:
            created = self._create(manifest)
            if created is not None:
                return parse_lease(created)
            found = self.get()
            if found is None:
                continue  # given back between our two requests
            if found.holder != holder:
                raise ReleaseInProgressError(
                    f"the canary's lease {found.namespace}/{found.name} is another release's",
                    expected=f"no lease, or one of {holder}",
                    found=f"held by {found.holder or 'nobody'}, last renewed {found.renewed_at}",
                    remedy="wait for that release's end; if it has died, roll its canary back, which frees the lease",
                )
            kept = self.keep(holder)
            if kept is not None:
                return kept

    def renew(self, lease: Lease) -> Lease | None:
        """Renews the lease that was seen; None: somebody wrote in between, or it is gone, so look again.

        :raises ValueError: what was seen was ended already.
        """
        stored = self._patch(renewal(lease, datetime.now(UTC)))
        return None if stored is None else parse_lease(stored)

    def keep(self, holder: str) -> Lease | None:
        """Renews the lease if it is still the holder's. To be called before every patch that raises a weight, after
        the InferenceService was read, and three times a lease in between.

        :return: the lease as it stands: renewed, or ended by somebody (`Lease.is_ended`) and then left as it is.
            None: there is none any more, or it is another's. Only `Lease.is_held_by` permits to go on.
        """
        while True:
            found = self.get()
            if found is None or found.holder != holder:
                return None
            if found.is_ended:
                return found
            renewed = self.renew(found)
            if renewed is not None:
                return renewed

    def end(self, lease: Lease, *, by: str, reason: str) -> Lease | None:
        """Ends the canary for whoever holds its lease; None: it was renewed or ended in between, so look again."""
        stored = self._patch(ending(lease, by=by, reason=reason, now=datetime.now(UTC)))
        return None if stored is None else parse_lease(stored)

    def pause(self, reason: str | None) -> Lease:
        """Keeps the canary at its weight, for a reason that people are told; None lets it go on.

        :raises InputMissingError: there is no canary under way.
        """
        while True:
            found = self.get()
            if found is None or found.is_ended:
                raise InputMissingError(
                    f"no canary is under way on {self.namespace}/{self.inference_service}",
                    expected=f"the lease {self.name}",
                    found="none" if found is None else f"ended by {found.ended_by}",
                    remedy="nothing needs to be paused; a release that has not begun its canary can be stopped",
                )
            stored = self._patch(pausing(found, reason))
            if stored is not None:
                return parse_lease(stored)

    def release(self, holder: str) -> Lease | None:
        """Gives the lease back, ended or not, once the canary is promoted or rolled back.

        :return: the lease as it was when it was deleted, so that the caller learns if it had been ended. None:
            there was none, or it was another's, which stays.
        """
        while True:
            found = self.get()
            if found is None or found.holder != holder:
                return None
            if self._delete(found.uid, found.resource_version):
                return found

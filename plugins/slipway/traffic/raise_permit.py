"""What a release run asks before it raises a weight: the record of this attempt and the manifest, read anew."""

from __future__ import annotations

from include.model_release.raise_permission import Raise, raise_refusal
from slipway.hooks.s3_store import ModelStoreHook
from slipway.registry.registry import ModelRegistry
from slipway.release_record.record import ReleaseRecord
from slipway.release_run import ReleaseRun


class RaisePermit:
    """Asks on behalf of one release run.

    "Could not be read" permits nothing.
    """

    def __init__(self, store: ModelStoreHook, release_run: ReleaseRun) -> None:
        self._store = store
        self._release_run = release_run

    def require(self, weight: int) -> None:
        """Return where the version may get `weight` percent of the traffic.

        :raises RaiseRefusedError: the record does not show what that needs.
        :raises RecordError: the record cannot be right.
        :raises StoreUnavailableError: it could not be read.
        """
        release_run = self._release_run
        record = ReleaseRecord(self._store, release_run.model, release_run.version, release_run.release_id)
        _, digest = ModelRegistry(self._store).require_with_digest(release_run.model, release_run.version)
        refusal = raise_refusal(Raise(release_run.release_id, weight, digest), record.state())
        if refusal is not None:
            raise refusal

"""What is there of a model, as retention asks for it: the bucket, the records, the cluster, staging, lock and pins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slipway.hooks.inference_service import KServeHook
from slipway.hooks.s3_store import ModelStoreHook
from slipway.registry.deletion import what_goes
from slipway.release_context import make_service
from slipway.release_record.lock import ReleaseLock
from slipway.release_record.record_reader import RecordReader
from slipway.workflows import REPOSITORY_GC
from slipway_core.bucket_layout import repository_paths
from slipway_core.errors import UserError
from slipway_core.operations.layout import pin_prefix
from slipway_core.operations.live_history import LiveHistory, live_history, version_of
from slipway_core.operations.names_in_use import staged_versions, versions_named
from slipway_core.operations.pins import (
    PINS_LIMIT,
    Pin,
    pin_key,
    pin_sentence,
    pinned_versions,
)
from slipway_core.operations.retention import ModelFacts, Recorded, StoredVersion
from slipway_core.publishing.tombstone import TOMBSTONE_FILE
from slipway_core.record.arrivals import version_folders
from slipway_core.record.events import Event
from slipway_core.record.fold import fold
from slipway_core.rollout.fields import mapping, text
from slipway_core.spec.release_file import ReleaseSpec
from slipway_rules.version_manifest import MANIFEST_FILE


class RetentionLook:
    """Looks at one model, as often as it is asked; what it has read of records it does not read again.

    :param namespaces: of all release files: any InferenceService in them may name a version.
    """

    def __init__(
        self,
        store: ModelStoreHook,
        spec: ReleaseSpec,
        namespaces: Sequence[str],
        *,
        kubernetes_conn_id: str,
    ) -> None:
        self._store = store
        self._spec = spec
        self._model = spec.model
        self._namespaces = namespaces
        self._service = make_service(spec.rollout, kubernetes_conn_id)
        self._records: dict[int, RecordReader] = {}

    def facts(self, stored: Sequence[StoredVersion]) -> ModelFacts:
        """Return what is there now.

        :param stored: what `stored_versions` found.
        :raises TransientError: something could not be read.
        :raises UserError: something is not what it should be.
        """
        # The cluster last: what it names is what deleting must not meet.
        recorded, history = self._recorded()
        named: dict[int, list[str]] = {}
        for kept in (self._pinned(), self._staged(), self._locked(), self._served()):
            for version, reasons in kept.items():
                named.setdefault(version, []).extend(reasons)
        return ModelFacts(self._model, stored, recorded, history, named)

    def stored_version(self, version: int) -> StoredVersion:
        """Return what lies in the bucket of one version."""
        paths = repository_paths(self._model, version)
        there = self._store.entries(paths.root)
        going = what_goes(paths, there)
        at = {entry.key.removeprefix(paths.root): entry.written_at for entry in there}
        return StoredVersion(
            version,
            objects=len(going),
            size_bytes=sum(entry.size_bytes for entry in going),
            published_at=at.get(MANIFEST_FILE),
            begun_at=at.get(TOMBSTONE_FILE),
        )

    def stored_versions(self) -> list[StoredVersion]:
        """Return what lies in the bucket of each version."""
        return [self.stored_version(version) for version in self._folders(f"models/{self._model}/")]

    def _folders(self, prefix: str) -> list[int]:
        versions, _ = version_folders(prefix, self._store.listing(prefix, delimiter="/").folders)
        return sorted(versions)

    def _recorded(self) -> tuple[dict[int, Recorded], LiveHistory]:
        events: list[Event] = []
        recorded = {}
        for version in self._folders(f"records/{self._model}/"):
            reader = self._records.setdefault(version, RecordReader(self._store, self._model, version))
            own = reader.events()
            if not own:
                continue
            events += own
            state = fold(own)
            uris = (state.stable_storage_uri, state.storage_uri)
            needs = [found for uri in uris if (found := version_of(self._model, uri)) is not None]
            recorded[version] = Recorded(
                state.outcome, state.standing, state.last_at or own[-1].at, tuple(needs)
            )
        return recorded, live_history(self._model, events)

    def _pinned(self) -> Mapping[int, list[str]]:
        prefix = pin_prefix(self._model)
        keys = [entry.key for entry in self._store.entries(prefix, most=PINS_LIMIT + 2)]
        return {version: [self._pin_sentence(version)] for version in pinned_versions(self._model, keys)}

    def _pin_sentence(self, version: int) -> str:
        try:
            return pin_sentence(self._store.read(pin_key(self._model, version), most_bytes=Pin.limit_bytes))
        except UserError:
            return pin_sentence(None)

    def _staged(self) -> Mapping[int, list[str]]:
        keys = (entry.key for entry in self._store.entries(f"staging/{self._model}"))
        return {version: ["on the staging server"] for version in staged_versions(self._model, keys)}

    def _locked(self) -> Mapping[int, list[str]]:
        holder = ReleaseLock(self._store, self._model, lambda _: True).holder()
        # Retention's own hold, also one that a run which died has left, is of a version that goes.
        if holder is None or holder.dag_id == REPOSITORY_GC:
            return {}
        return {holder.version: [f"the run {holder.release_id} holds the model's lock"]}

    def _served(self) -> Mapping[int, list[str]]:
        rollout = self._spec.rollout
        found: dict[int, list[str]] = {}
        for namespace in self._namespaces:
            for service in self._service.objects.list(KServeHook.object_kind, namespace).items:
                name = text(mapping(service.get("metadata")).get("name"))
                is_own = (namespace, name) == (rollout.namespace, rollout.inference_service)
                for version, place in versions_named(self._model, service, is_own=is_own).items():
                    found.setdefault(version, []).append(
                        f"the InferenceService {namespace}/{name} names it in {place}"
                    )
        return found

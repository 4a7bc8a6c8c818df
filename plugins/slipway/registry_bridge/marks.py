"""Tells the registry what became of its versions: aliases and tags, set only where they are different."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

from slipway.hooks.mlflow_registry import MlflowHook
from slipway.hooks.s3_store import ModelStoreHook
from slipway.release_record.history import LIST_PAGES
from slipway.release_record.record_reader import RecordReader
from slipway_core.bucket_layout import repository_paths
from slipway_core.errors import InputMissingError
from slipway_core.operations.registry_answers import RegisteredModel, RegistryVersion
from slipway_core.operations.registry_marks import (
    EVENTS_TAG,
    KEEP,
    alias_changes,
    record_tags,
    served_versions,
    tag_changes,
)
from slipway_core.record.arrivals import version_folders
from slipway_core.record.events import RecordError
from slipway_core.record.fold import fold
from slipway_core.record.state import ReleaseState
from slipway_core.rollout.observation import Observed

log = logging.getLogger(__name__)


class RegistryMarks:
    """Aliases and tags of one registered model."""

    def __init__(self, store: ModelStoreHook, model: str, mlflow: MlflowHook, registered_model: str) -> None:
        self._store = store
        self._model = model
        self._mlflow = mlflow
        self._name = registered_model
        self._readers: dict[int, RecordReader] = {}

    def follow(
        self, registered: RegisteredModel, versions: Sequence[RegistryVersion], observed: Observed | None
    ) -> int:
        """Set what is not as the record and the cluster have it; return how much that was.

        :param versions: the newest of the registered model.
        :param observed: the model's InferenceService; None: there is none.
        """
        page = self._store.listing(f"records/{self._model}/", delimiter="/", pages=LIST_PAGES)
        recorded, _ = version_folders(f"records/{self._model}/", page.folders)
        done = self._set_aliases(registered, versions, observed, recorded)
        for version in versions:
            if version.number in recorded:
                done += self.tag(version, self._record_tags(version))
        return done

    def tag(self, version: RegistryVersion, wanted: Mapping[str, str | None]) -> int:
        """Set the tags of a version that are not as they shall be; return how many."""
        changes = tag_changes(version.tags, wanted)
        for change in changes:
            log.info("version %s of %r: tag %s = %r", version.number, self._name, change.key, change.value)
            if change.value is None:
                self._mlflow.delete_tag(self._name, version.number, change.key)
            else:
                self._mlflow.set_tag(self._name, version.number, change.key, change.value)
        return len(changes)

    def _set_aliases(
        self,
        registered: RegisteredModel,
        versions: Sequence[RegistryVersion],
        observed: Observed | None,
        recorded: Mapping[int, object],
    ) -> int:
        if not recorded:
            return 0  # Slipway has released nothing yet: what the aliases say is somebody else's
        served = served_versions(self._model, observed)
        known = {
            one for one in (served.live, served.previous) if isinstance(one, int) and self._has(one, versions)
        }
        standing = ""
        if isinstance(served.live, int) and served.live in recorded:
            state = self._state(served.live)
            if state is None:  # what cannot be read moves nothing
                served = replace(served, live=KEEP)
            else:
                standing = state.standing
        changes = alias_changes(registered.aliases, served, known, standing)
        for change in changes:
            log.info("%r: alias %s points to version %s", self._name, change.key, change.value)
            if change.value is None:
                self._mlflow.delete_alias(self._name, change.key)
            else:
                self._mlflow.set_alias(self._name, change.key, int(change.value))
        return len(changes)

    def _has(self, number: int, versions: Sequence[RegistryVersion]) -> bool:
        if any(version.number == number for version in versions):
            return True
        try:
            self._mlflow.version(self._name, number)
        except InputMissingError:
            return False
        return True

    def _record_tags(self, version: RegistryVersion) -> Mapping[str, str | None]:
        """Return what the record says of a version; nothing where the tags were written of the same record."""
        reader = self._reader(version.number)
        events = reader.last_seq()
        if events == 0 or version.tags.get(EVENTS_TAG) == str(events):
            return {}
        state = self._state(version.number)
        records = repository_paths(self._model, version.number).records
        return {} if state is None else record_tags(state, self._store.uri(records), state.last_seq)

    def _state(self, number: int) -> ReleaseState | None:
        """Return what a record adds up to; None if it is unknown: that one is left as it is."""
        try:
            events = self._reader(number).events()
            return fold(events) if events else None
        except RecordError as error:
            log.warning("version %s of %s keeps its tags: %s", number, self._model, error)
            return None

    def _reader(self, number: int) -> RecordReader:
        return self._readers.setdefault(number, RecordReader(self._store, self._model, number))

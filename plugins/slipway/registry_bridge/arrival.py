"""Brings the version that carries the alias in: its files, then ready.json, as training leaves them."""

from __future__ import annotations

import hashlib
import logging
import tempfile
from pathlib import Path

from slipway.hooks.s3_store import ModelStoreHook
from slipway.registry_bridge.artifacts import Artifact, Artifacts
from slipway.release_record.history import ModelHistory
from slipway_core.bucket_layout import RepositoryPaths, repository_paths
from slipway_core.intake import READY_LIMIT_BYTES, IncomingVersion, parse_ready
from slipway_core.operations.registry_answers import FILES_LIMIT, RegistryVersion
from slipway_core.operations.registry_arrival import (
    InBucket,
    Origin,
    Step,
    check_present,
    conflict,
    next_step,
    ready_file,
)
from slipway_core.publishing.manifest import Manifest
from slipway_core.publishing.tombstone import TOMBSTONE_FILE
from slipway_core.written_numbers import counted
from slipway_rules.version_manifest import MANIFEST_LIMIT_BYTES

log = logging.getLogger(__name__)


class RegistryArrival:
    """Brings versions of one model in; each of its objects is written once and never replaced."""

    def __init__(
        self, store: ModelStoreHook, model: str, registered_model: str, artifacts: Artifacts
    ) -> None:
        self._store = store
        self._model = model
        self._registered_model = registered_model
        self._artifacts = artifacts

    def bring_in(self, version: RegistryVersion) -> Step:
        """Bring a version in unless it was; return what was to be done about it.

        A run that was broken off is gone on with: what it has left are whole objects.

        :raises UserError: it cannot be brought in.
        :raises TransientError: MLflow or the store did not answer.
        """
        origin = Origin.of(self._registered_model, version)
        paths = repository_paths(self._model, version.number)
        step = next_step(origin, version.status, self._found(paths))
        if step == "bring_in":
            files = self._artifacts.files(version.number, version.run_id)
            self._check_present(paths, files)
            sha256 = {name: self._place(paths, name, artifact) for name, artifact in sorted(files.items())}
            self._announce(paths, ready_file(self._model, origin, sha256))
            log.info(
                "version %s of %s: %s, then ready.json",
                version.number,
                self._model,
                counted(len(files), "file"),
            )
        return step

    def _found(self, paths: RepositoryPaths) -> InBucket:
        ready = self._store.read(paths.ready, most_bytes=READY_LIMIT_BYTES)
        manifest = self._store.read(paths.manifest, most_bytes=MANIFEST_LIMIT_BYTES)
        history = ModelHistory(self._model, self._store.listing, lambda stray: log.warning("%s", stray))
        return InBucket(
            ready=None if ready is None else parse_ready(ready, IncomingVersion(paths.model, paths.version)),
            published=None
            if manifest is None
            else Manifest.from_bytes(manifest, self._store.uri(paths.manifest)).source.metadata,
            deleted=self._store.exists(f"{paths.root}{TOMBSTONE_FILE}"),
            attempts=history.attempts(paths.version),
        )

    def _check_present(self, paths: RepositoryPaths, files: dict[str, Artifact]) -> None:
        there = self._store.entries(paths.incoming, most=FILES_LIMIT + 1)
        present = {entry.key.removeprefix(paths.incoming): entry.size_bytes for entry in there}
        check_present(
            {name: artifact.size_bytes for name, artifact in files.items()},
            present,
            self._store.uri(paths.incoming),
        )

    def _place(self, paths: RepositoryPaths, name: str, artifact: Artifact) -> str:
        """Put one file in its place; return its SHA-256."""
        key = f"{paths.incoming}{name}"
        with tempfile.TemporaryDirectory(prefix="slipway-registry-") as folder:
            fetched = Path(folder) / "artifact"
            self._artifacts.fetch(artifact, fetched)
            with fetched.open("rb") as file:
                sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            if not self._store.upload_once(key, fetched) and self._store.sha256(key)[0] != sha256:
                raise conflict(self._store.uri(paths.incoming), name)
        return sha256

    def _announce(self, paths: RepositoryPaths, ready: bytes) -> None:
        if not self._store.write_once(paths.ready, ready) and self._store.read(paths.ready) != ready:
            raise conflict(self._store.uri(paths.incoming), "ready.json")

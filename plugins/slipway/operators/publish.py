"""Publishing: the repository is laid out, written to the object store and sealed by its manifest."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from include.model_release.intake import IncomingVersion, parse_ready, require_untouched
from include.model_release.manifest import FileEntry, Manifest, Provenance
from include.model_release.model_config import build_config, config_sha256, served_signature
from include.model_release.repository import RepositoryPaths, repository_paths
from include.model_release.signature import ModelSignature
from include.triton_config import to_pbtxt
from slipway.hooks.registry import GOLDEN_FILE, ModelRegistry, StoredSource
from slipway.operators.base import ReleaseOperator, recorded_stage
from slipway.ticket import ReleaseTicket

if TYPE_CHECKING:
    from airflow.sdk import Context


class PublishModelOperator(ReleaseOperator):
    """Publishes what the conversion left as an immutable version.

    :return: nothing; the version's manifest is the result.
    """

    def run(self, context: Context) -> None:
        """Builds configuration and manifest, uploads the files, the manifest last."""
        ticket = self.ticket
        with recorded_stage(self.record, "publish"):
            manifest, sources = self._assemble(ticket)
            golden = ticket.incoming_prefix + ticket.spec.source.golden_file
            written = ModelRegistry(self.store).publish(manifest, sources, golden)
            self.log.info(
                "version %s of %s: %s (%s files, content %s)",
                ticket.version,
                ticket.model,
                "published" if written else "was published before, unchanged",
                len(manifest.files),
                manifest.content_digest(),
            )

    def _assemble(self, ticket: ReleaseTicket) -> tuple[Manifest, dict[str, bytes | StoredSource]]:
        """The manifest and, for each of its files, where the bytes come from."""
        store = self.store
        paths = repository_paths(ticket.model, ticket.version)
        result: dict[str, Any] = store.read_json(f"{paths.work}result.json") or {}
        signature = ModelSignature.model_validate_json(json.dumps(result["signature"]))
        config = build_config(ticket.spec, signature, ticket.version)
        model_file = result["model"]["file"]
        sources: dict[str, bytes | StoredSource] = {
            paths.config_file: to_pbtxt(config).encode(),
            f"{ticket.model}/{ticket.version}/{model_file}": StoredSource(paths.work + model_file),
        }
        manifest = Manifest(
            model=ticket.model,
            version=ticket.version,
            created_at=datetime.now(UTC),
            files={path: self._entry(source) for path, source in sources.items()},
            config_sha256=config_sha256(config),
            signature=served_signature(config),
            source=self._provenance(ticket, paths),
            tools=result["tools"],
        )
        return manifest, sources

    def _provenance(self, ticket: ReleaseTicket, paths: RepositoryPaths) -> Provenance:
        """What training said of the version, and the files it was made of."""
        ready = parse_ready(
            self.store.require(paths.ready, remedy="let training write it, as the last file"),
            IncomingVersion(ticket.model, ticket.version),
        )
        source = ticket.spec.source
        files = {
            name: self._entry(StoredSource(paths.incoming + name))
            for name in {source.model_file, source.golden_file, *ready.files}
        }
        require_untouched(ready, {name: entry.sha256 for name, entry in files.items()})
        return Provenance(
            dataset_version=ready.dataset_version,
            accuracy=ready.accuracy,
            trained_at=ready.trained_at,
            framework=ready.framework,
            metadata=ready.metadata,
            files={**files, GOLDEN_FILE: files[source.golden_file]},
        )

    def _entry(self, source: bytes | StoredSource) -> FileEntry:
        if isinstance(source, bytes):
            return FileEntry.of(source)
        sha256, size_bytes = self.store.sha256(source.key)
        return FileEntry(size_bytes=size_bytes, sha256=sha256)

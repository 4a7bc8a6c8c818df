"""Publishing: the repository is laid out, written to the object store and sealed by its manifest."""

from __future__ import annotations

import io
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from include.model_release.converted import Converted, parse_converted
from include.model_release.ensemble import (
    MEMBERS_FILE,
    Configs,
    bundle_config_sha256,
    is_ensemble,
    load_order,
    members_file,
    pin_bundle,
)
from include.model_release.intake import IncomingVersion, parse_ready, require_untouched
from include.model_release.manifest import FileEntry, Manifest, Provenance
from include.model_release.model_config import Config, build_config, served_signature
from include.model_release.repository import (
    CONFIG_FILE,
    RepositoryPaths,
    is_source_file,
    repository_paths,
)
from include.model_release.warmup import make_warmup, needs_golden
from include.triton_config import from_pbtxt, to_pbtxt
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
        paths = repository_paths(ticket.model, ticket.version)
        result: dict[str, Any] = self.store.read_json(f"{paths.work}result.json") or {}
        converted = parse_converted(result, ticket.model, ticket.version)
        configs, warmup = self._configs(ticket, converted)
        sources: dict[str, bytes | StoredSource] = {
            **self._written_here(configs, ticket.version, converted),
            **{f"{ticket.model}/{path}": content for path, content in warmup.items()},
            **{path: StoredSource(paths.work + place) for path, place in converted.places.items()},
        }
        manifest = Manifest(
            model=ticket.model,
            version=ticket.version,
            created_at=datetime.now(UTC),
            # The converter has measured what it wrote; publishing compares what then lies there with this.
            files={path: converted.files.get(path) or self._entry(body) for path, body in sources.items()},
            config_sha256=bundle_config_sha256(configs),
            signature=served_signature(configs[ticket.model]),
            source=self._provenance(ticket, paths),
            tools=converted.tools,
            engine=converted.engine,
        )
        return manifest, sources

    def _configs(self, ticket: ReleaseTicket, converted: Converted) -> tuple[Configs, Mapping[str, bytes]]:
        """The configuration of each model, and the files that the warm-up of the released one reads.

        The released model's is the release file's, laid over the one that its source brought, if it did. Members'
        are their own. A repository of several is pinned to this version.
        """
        serving, model = ticket.spec.serving, ticket.model
        configs = {name: from_pbtxt(text) for name, text in converted.config_texts.items()}
        golden = self._golden(ticket) if needs_golden(serving.warmup) else {}
        configs[model] = build_config(
            ticket.spec,
            converted.signature,
            ticket.version,
            base=configs.get(model) or self._config_of_training(ticket),
            profiles=converted.profiles,
            golden=golden,
        )
        warmup = make_warmup(serving.warmup, configs[model], golden).files or {}
        if not converted.config_texts:
            return configs, warmup
        load_order(configs)  # nothing is published that calls what is not in it
        return pin_bundle(configs, ticket.version), warmup

    def _config_of_training(self, ticket: ReleaseTicket) -> Config | None:
        """The config.pbtxt that training may leave beside a model of one file."""
        key = ticket.incoming_prefix + CONFIG_FILE
        text = self.store.read(key)
        return None if text is None else from_pbtxt(text.decode(), self.store.uri(key))

    def _golden(self, ticket: ReleaseTicket) -> dict[str, Any]:
        """The golden set's arrays."""
        key = ticket.incoming_prefix + ticket.spec.source.golden_file
        content = self.store.require(key, remedy="let training write it")
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            return dict(archive)

    @staticmethod
    def _written_here(configs: Configs, version: int, converted: Converted) -> dict[str, bytes]:
        """What no converter writes: the configurations, and a file for the version folder of an ensemble."""
        files = {f"{name}/{CONFIG_FILE}": to_pbtxt(config).encode() for name, config in configs.items()}
        for name, config in configs.items():
            folder = f"{name}/{version}/"
            if is_ensemble(config) and not any(path.startswith(folder) for path in converted.files):
                files[folder + MEMBERS_FILE] = members_file(configs, name, version)
        return files

    def _provenance(self, ticket: ReleaseTicket, paths: RepositoryPaths) -> Provenance:
        """What training said of the version, and the files it was made of."""
        ready = parse_ready(
            self.store.require(paths.ready, remedy="let training write it, as the last file"),
            IncomingVersion(ticket.model, ticket.version),
        )
        source = ticket.spec.source
        names = {*source.required_files(), *ready.files}
        if source.is_folder:
            below = self.store.entries(paths.incoming + source.location)
            found = {entry.key.removeprefix(paths.incoming) for entry in below}
            names |= {name for name in found if is_source_file(name)}
        files = {name: self._entry(StoredSource(paths.incoming + name)) for name in names}
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

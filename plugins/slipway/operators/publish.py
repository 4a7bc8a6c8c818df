"""Publishing: the repository is laid out, written to the object store and sealed by its manifest."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from slipway.operators.base import ReleaseOperator, recorded_stage
from slipway.operators.project import project_commit, project_version
from slipway.registry.registry import GOLDEN_FILE, ModelRegistry, StoredSource
from slipway.registry.reuse import recipe_for, require_published
from slipway.registry.signing import sign
from slipway.release_run import ReleaseRun
from slipway.training_configs import config_of_training
from slipway_core.bucket_layout import is_source_file, repository_paths
from slipway_core.errors import InputMissingError
from slipway_core.gates.validation.npz import read_arrays
from slipway_core.intake import IncomingVersion, parse_ready, require_untouched
from slipway_core.publishing.build_fingerprint import RECIPE_FILE
from slipway_core.publishing.conversion_result import (
    Converted,
    parse_converted,
    require_same_service,
)
from slipway_core.publishing.manifest import FileEntry, Manifest, Provenance
from slipway_core.publishing.variants import ONLY
from slipway_core.spec.serving.sequences import require_no_sequences
from slipway_core.triton_config.build import build_config, served_signature
from slipway_core.triton_config.checks.contradictions import require_consistent
from slipway_core.triton_config.ensemble import (
    MEMBERS_FILE,
    Configs,
    bundle_config_sha256,
    is_ensemble,
    load_order,
    members_file,
    pin_bundle,
)
from slipway_core.triton_config.files import named_files
from slipway_core.triton_config.options import Config
from slipway_core.triton_config.pbtxt import from_pbtxt, to_pbtxt
from slipway_core.triton_config.warmup import make_warmup, needs_golden
from slipway_core.written_numbers import counted
from slipway_rules.pod_files import RESULT_FILE, SBOM_FILE
from slipway_rules.version_manifest import CONFIG_FILE

if TYPE_CHECKING:
    from airflow.sdk import Context


@dataclass(frozen=True)
class _Made:
    """What a converter made, and below which prefix it lies."""

    work_prefix: str
    converted: Converted

    def places(self) -> dict[str, StoredSource]:
        """Where the bytes of each file of the repository come from."""
        made = self.converted
        return {
            path: StoredSource(
                self.work_prefix + place, measured=made.files[path], parts=made.parts.get(path)
            )
            for path, place in made.places.items()
        }


class PublishModelOperator(ReleaseOperator):
    """Publishes what the conversion left as an immutable version.

    Where nothing was converted, since the version is published, every byte of it is checked instead.

    :param variants: the names of the conversion's variants to publish, as JSON (templated); ``null``: nothing was
        converted.
    :returns: the SHA-256 of the version's manifest, by which later tasks know what they look at.
    """

    template_fields: Sequence[str] = (*ReleaseOperator.template_fields, "variants")

    def __init__(self, *, variants: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.variants = variants

    def run(self, context: Context) -> str:
        """Builds configuration and manifest, signs, and publishes; the manifest last."""
        release_run = self.release_run
        self._publish(release_run)
        _, digest = ModelRegistry(self.store).require_with_digest(release_run.model, release_run.version)
        return digest

    def _publish(self, release_run: ReleaseRun) -> None:
        with recorded_stage(self.record, "publish"):
            key = self.parts.signing_key  # before anything takes long
            if not self._chosen:
                published = require_published(self.store, release_run, key)
                self.log.info("unchanged since it was published (content %s)", published.content_digest())
                return
            manifest, sources = self._assemble(release_run)
            golden = release_run.incoming_prefix + release_run.spec.source.golden_file
            written = ModelRegistry(self.store).publish(
                manifest,
                sources,
                golden,
                attachments=self._attachments(release_run),
                settings=release_run.spec.publish,
                sign=None if key is None else partial(sign, key=key),
            )
            self.log.info(
                "version %s of %s: %s (%s, content %s)",
                release_run.version,
                release_run.model,
                "published" if written else "unchanged since it was published",
                counted(len(manifest.files), "file"),
                manifest.content_digest(),
            )

    def _attachments(self, release_run: ReleaseRun) -> dict[str, bytes | StoredSource]:
        """What lies beside the repository but the signature: how it was made, the packages where the pod lists them."""
        attachments: dict[str, bytes | StoredSource] = {RECIPE_FILE: recipe_for(self.store, release_run)}
        packages = f"{release_run.of_variant(self._chosen[0]).work_prefix}{SBOM_FILE}"
        if self.store.exists(packages):
            attachments[SBOM_FILE] = StoredSource(packages)
        return attachments

    def _assemble(self, release_run: ReleaseRun) -> tuple[Manifest, dict[str, bytes | StoredSource]]:
        """The manifest and, for each of its files, where the bytes come from."""
        leading, *others = (self._converted(name) for name in self._chosen)
        configs, warmup = self._configs(release_run, leading.converted)
        places = {**leading.places(), **self._other_engines(leading, others, configs[release_run.model])}
        sources: dict[str, bytes | StoredSource] = {
            **self._written_here(configs, release_run.version, leading.converted),
            **{f"{release_run.model}/{path}": content for path, content in warmup.items()},
            **places,
        }
        engines = (one.converted.engine for one in (leading, *others))
        manifest = Manifest(
            model=release_run.model,
            version=release_run.version,
            created_at=datetime.now(UTC),
            files={path: self._entry(body) for path, body in sources.items()},
            config_sha256=bundle_config_sha256(configs),
            signature=served_signature(configs[release_run.model]),
            source=self._provenance(release_run, leading.converted),
            tools=leading.converted.tools,
            engines=tuple(engine for engine in engines if engine is not None),
            project_version=project_version(),
            project_commit=project_commit(),
        )
        return manifest, sources

    @property
    def _chosen(self) -> list[str]:
        """The variants to publish, the leading one first; none where nothing was converted."""
        return list(json.loads(self.variants) or ()) if self.variants else [ONLY]

    def _converted(self, name: str) -> _Made:
        """What the converter of one variant has left."""
        release_run = self.release_run.of_variant(name)
        result: dict[str, Any] = self.store.read_json(f"{release_run.work_prefix}{RESULT_FILE}") or {}
        return _Made(release_run.work_prefix, parse_converted(result, release_run.model, release_run.version))

    @staticmethod
    def _other_engines(leading: _Made, others: list[_Made], config: Config) -> dict[str, StoredSource]:
        """Engines for further kinds of GPU lie beside the leading one; the configuration says which is whose.

        :raises ModelInvalidError: an engine does not fit the configuration, or takes or answers something else.
        """
        if not others:
            return {}
        require_same_service(config, [made.converted for made in (leading, *others)])
        ((first, _),) = leading.converted.places.items()
        folder, _, file_name = first.rpartition("/")
        stem, _, suffix = file_name.rpartition(".")
        sources, names = {}, {}
        for made in (leading, *others):
            assert made.converted.engine is not None  # noqa: S101  only engines are published together
            kind = made.converted.engine.compute_capability
            names[kind] = file_name if made is leading else f"{stem}_{kind}.{suffix}"
            ((_, source),) = made.places().items()
            sources[f"{folder}/{names[kind]}"] = source
        config["cc_model_filenames"] = names
        return sources

    def _configs(
        self, release_run: ReleaseRun, converted: Converted
    ) -> tuple[Configs, Mapping[str, bytes | StoredSource]]:
        """The configuration of each model, and the files beside the released one's, which Triton reads with it.

        The released model's is the release file's, laid over the one that its source brought, if it did. Members'
        are their own. A repository of several is pinned to this version.

        :raises ModelInvalidError: one of them contradicts itself, or keeps a state between requests.
        """
        serving, model = release_run.spec.serving, release_run.model
        configs = {name: from_pbtxt(text) for name, text in converted.config_texts.items()}
        golden = self._golden(release_run) if needs_golden(serving.warmup) else {}
        folder = f"{model}/{release_run.version}/"
        configs[model] = build_config(
            release_run.spec,
            converted.signature,
            release_run.version,
            base=configs.get(model) or config_of_training(self.store, release_run.incoming_prefix),
            profiles=converted.profiles,
            golden=golden,
            files=[path.removeprefix(folder) for path in converted.files if path.startswith(folder)],
            overridable=converted.overridable,
        )
        for name in configs.keys() - {model}:
            below = f"{name}/{release_run.version}/"
            files = [path.removeprefix(below) for path in converted.files if path.startswith(below)]
            require_consistent(configs[name], files=files)
        require_no_sequences(configs)
        warmup = (
            make_warmup(serving.warmup, configs[model], golden, release_run.spec.golden.row_axis).files or {}
        )
        attachments: dict[str, bytes | StoredSource] = {
            **self._named_files(release_run, converted, configs, warmup),
            **warmup,
        }
        if not converted.config_texts:
            return configs, attachments
        load_order(configs)  # nothing is published that calls what is not in it
        return pin_bundle(configs, release_run.version), attachments

    def _named_files(
        self, release_run: ReleaseRun, converted: Converted, configs: Configs, made: Mapping[str, bytes]
    ) -> dict[str, StoredSource]:
        """Where the files lie that the released model's configuration names, such as labels, and nobody made.

        Training leaves them as in a Triton repository, beside its config.pbtxt; a converter that passes a folder
        through may leave them in the version's own. Members bring theirs.
        """
        found: dict[str, StoredSource] = {}
        for name, config in configs.items():
            released = name == release_run.model
            for path, field in named_files(config).items():
                if f"{name}/{path}" in converted.files or (released and path in made):
                    continue
                passed = converted.places.get(f"{name}/{release_run.version}/{path}")
                work = release_run.of_variant(self._chosen[0]).work_prefix
                key = release_run.incoming_prefix + path if passed is None else work + passed
                if not released or not self.store.exists(key):
                    raise InputMissingError(
                        f"config.pbtxt of {name}: `{field}` names a file that is not there",
                        expected=self.store.uri(key) if released else f"{name}/{path} in the repository",
                        found="no such file",
                        remedy="Upload it as a new version, with ready.json last, or remove the field.",
                    )
                found[path] = StoredSource(key)
        return found

    def _golden(self, release_run: ReleaseRun) -> dict[str, Any]:
        """The golden set's arrays."""
        key = release_run.incoming_prefix + release_run.spec.source.golden_file
        content = self.store.require(key, remedy="let training write it")
        return dict(read_arrays(content, self.store.uri(key)))

    @staticmethod
    def _written_here(configs: Configs, version: int, converted: Converted) -> dict[str, bytes]:
        """What no converter writes: the configurations, and a file for the version folder of an ensemble."""
        files = {f"{name}/{CONFIG_FILE}": to_pbtxt(config).encode() for name, config in configs.items()}
        for name, config in configs.items():
            folder = f"{name}/{version}/"
            if is_ensemble(config) and not any(path.startswith(folder) for path in converted.files):
                files[folder + MEMBERS_FILE] = members_file(configs, name, version)
        return files

    def _provenance(self, release_run: ReleaseRun, converted: Converted) -> Provenance:
        """What training said of the version, and the files it was made of: as the converter has read them."""
        read = converted.inputs
        paths = repository_paths(release_run.model, release_run.version)
        ready = parse_ready(
            self.store.require(paths.ready, remedy="let training write it, as the last file"),
            IncomingVersion(release_run.model, release_run.version),
        )
        source = release_run.spec.source
        names = {*release_run.spec.required_files(), *ready.files}
        if source.is_folder:
            below = self.store.entries(paths.incoming + source.location)
            found = {entry.key.removeprefix(paths.incoming) for entry in below}
            names |= {name for name in found if is_source_file(name)}
        else:
            # Weights beside a model of one file, which nobody has listed.
            root = self.store.uri(paths.incoming)
            names |= {uri.removeprefix(root) for uri in read if uri.startswith(root)}
        keys = {name: paths.incoming + name for name in names}
        sources = {
            name: StoredSource(key, measured=read.get(self.store.uri(key))) for name, key in keys.items()
        }
        files = {name: self._entry(source) for name, source in sources.items()}
        require_untouched(ready, {name: entry.sha256 for name, entry in files.items()})
        return Provenance(
            dataset_version=ready.dataset_version,
            accuracy=ready.accuracy,
            trained_at=ready.trained_at,
            framework=ready.framework,
            metadata=ready.metadata,
            hub=converted.hub,
            files={**files, GOLDEN_FILE: files[source.golden_file]},
        )

    def _entry(self, source: bytes | StoredSource) -> FileEntry:
        if isinstance(source, bytes):
            return FileEntry.of(source)
        if source.measured is not None:
            # By the converter, which wrote it; publishing compares what then lies there with this.
            return source.measured
        sha256, size_bytes = self.store.sha256(source.key)
        return FileEntry(size_bytes=size_bytes, sha256=sha256)

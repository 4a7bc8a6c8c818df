"""Staging: a published version on a Triton of its own, beside the stable one that it is compared with."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, ValidationError

from airflow_provider_triton.operators import TritonLoadModelOperator
from airflow_provider_triton.operators.base import LINKS
from slipway.extra_links import RELEASE_LINK
from slipway.failures import airflow_failures
from slipway.hooks.s3_store import ModelStoreHook
from slipway.hooks.triton import STAGING_CONN_ID, TritonHook
from slipway.operators.base import ReleaseOperator, ReleaseStep, recorded_stage
from slipway.registry.registry import ModelRegistry
from slipway.release_run import RELEASE_RUN_TEMPLATE, ReleaseRun
from slipway.triton_errors import slipway_errors
from slipway_core.admitted import otherwise
from slipway_core.bucket_layout import Role, staged_key, staged_model, staged_name
from slipway_core.errors import GateRefusedError, LoadRefusedError, SlipwayError, UserError
from slipway_core.publishing.engine import require_loadable
from slipway_core.publishing.manifest import Manifest, attachment
from slipway_core.record.kinds import StageFinished
from slipway_core.spec.release_file import ReleaseSpec
from slipway_core.spec.serving.sequences import require_no_sequences
from slipway_core.triton_config.ensemble import Configs, departures, load_order, pin_bundle, rename_bundle
from slipway_core.triton_config.options import Config
from slipway_core.triton_config.pbtxt import to_pbtxt
from slipway_core.triton_config.staged_paths import SERVING_ROOT, names_files, on_staging
from slipway_rules.version_manifest import CONFIG_FILE, SIGNATURE_FILE

if TYPE_CHECKING:
    from airflow.sdk import Context

log = logging.getLogger(__name__)

_FOUND_LIMIT = 300
# What `PrepareStagingOperator` says of the candidate's manifest, for tasks that are not given the whole `Staging`.
MANIFEST_TEMPLATE = "{{ ti.xcom_pull(task_ids='staging.prepare')['manifest_sha256'] }}"


class StagedMember(BaseModel):
    """A model that the staged one needs: its name on staging and the whole configuration to load."""

    model_config = ConfigDict(frozen=True)

    name: str
    config: dict[str, Any]


class StagedModel(BaseModel):
    """A version as the staging server knows it: the model's name there and the whole configuration to load.

    `members` are an ensemble's, in the order in which they can be loaded; they have the same version number.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    version: int
    config: dict[str, Any]
    members: tuple[StagedMember, ...] = ()


class Staging(BaseModel):
    """What is on staging for one release; there is no baseline where nothing is live yet."""

    model_config = ConfigDict(frozen=True)

    candidate: StagedModel
    baseline: StagedModel | None
    manifest_sha256: str
    """Digest of the candidate's manifest as it was read for staging; what the gates find out holds for it alone."""
    not_compared: str = ""
    """Why there is no baseline although a version is live; empty otherwise."""
    load_timeout_s: int = 600
    """The release file's limit for the loads of each of the two."""
    model_names: tuple[str, ...] = ()
    """All of them with their members, in the order in which they are unloaded: who calls goes before the called."""

    @classmethod
    def parse(cls, rendered: str) -> Staging:
        """Return what the template of an operator's ``staging`` field was rendered to.

        :raises UserError: it is not what the task that prepares staging returned.
        """
        try:
            return cls.model_validate_json(rendered)
        except ValidationError as error:
            raise UserError(
                "this task was not given a prepared staging",
                expected="what the task 'staging.prepare' returned",
                found=str(error).replace("\n", " ")[:_FOUND_LIMIT],
                remedy="Clear the tasks of the group staging, so that they are run again.",
            ) from error

    def of(self, release_run: ReleaseRun) -> Staging:
        """Return it where it is about the two versions of this release: what else stands on staging proves nothing.

        :raises HandedOtherwiseError: it is about others.
        """
        stable = release_run.stable
        wanted = {"candidate": release_run.version, "baseline": None if stable is None else stable.version}
        names = {
            "candidate": staged_name(release_run.model, "candidate"),
            "baseline": staged_name(release_run.model, "stable"),
        }
        for role, model in (("candidate", self.candidate), ("baseline", self.baseline)):
            if model is not None and (model.name, model.version) != (names[role], wanted[role]):
                expected = f"{names[role]} version {wanted[role]}" if wanted[role] else "none"
                raise otherwise(f"the {role} on staging", expected, f"{model.name} version {model.version}")
        return self


class PrepareStagingOperator(ReleaseOperator):
    """Copies the candidate and the stable version into the staging server's model repository.

    Each gets a folder of its own, so that each is served with its own configuration and both can be measured in
    the same run. A stable version that cannot be there is left out: it is an engine for the GPUs or the TensorRT that
    were replaced, or signed with a key that is not accepted any more. It must not stand in its successor's way.

    :param triton_conn_id: the staging server, which may see its repository as files (`TritonHook.repository_path`).
    :returns: a `Staging` as a mapping.
    """

    def __init__(self, *, triton_conn_id: str = TritonHook.default_conn_name, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.triton_conn_id = triton_conn_id

    def run(self, context: Context) -> dict[str, Any]:
        """Copy both; the stage goes on when the candidate is loaded.

        :raises SigningRefusedError: a signature is demanded of the candidate, and there is none or it does not hold.
        """
        with recorded_stage(self.record, "stage", goes_on=True):
            return self._prepare()

    def _prepare(self) -> dict[str, Any]:
        release_run = self.release_run
        registry = ModelRegistry(self.store)
        manifest, manifest_sha256 = registry.require_with_digest(release_run.model, release_run.version)
        candidate = self._place(registry, manifest, "candidate")
        baseline, not_compared = self._place_stable(release_run)
        staged = [candidate] if baseline is None else [candidate, baseline]
        staging = Staging(
            candidate=candidate,
            baseline=baseline,
            manifest_sha256=manifest_sha256,
            not_compared=not_compared,
            load_timeout_s=release_run.spec.serving.load_timeout_s,
            model_names=tuple(name for one in staged for name in _unload_order(one)),
        )
        return staging.model_dump(mode="json")

    def _place_stable(self, release_run: ReleaseRun) -> tuple[StagedModel | None, str]:
        """Return the baseline, or why there is none although a version is live."""
        if release_run.stable is None:
            return None, ""
        registry = ModelRegistry(self.store)
        try:
            manifest = registry.require(release_run.model, release_run.stable.version)
            return self._place(registry, manifest, "stable"), ""
        except (UserError, GateRefusedError) as error:
            return None, leave_out_baseline(self, error)

    def _place(self, registry: ModelRegistry, manifest: Manifest, role: Role) -> StagedModel:
        """Copy one version, once its signature is what the release file demands."""
        require_loadable(manifest.engines, self.release_run.spec.serving.hardware, where="the staging server")
        self._require_signed(registry, manifest, role)
        return place_version(self.store, self.release_run.spec, manifest, role, self.triton_conn_id)

    def _require_signed(self, registry: ModelRegistry, manifest: Manifest, role: Role) -> None:
        """Refuse what the release file's key has not signed, before a server reads any of it.

        The stable version may be older than the key; it serves already.
        """
        key = self.parts.signing_key
        if key is None:
            return
        if role == "stable" and attachment(manifest, SIGNATURE_FILE) is None:
            self.log.warning(
                "the stable version %s is not signed: it is older than the key", manifest.version
            )
            return
        registry.require_signed(manifest, key)


def place_version(
    store: ModelStoreHook, spec: ReleaseSpec, manifest: Manifest, role: Role, triton_conn_id: str
) -> StagedModel:
    """Copy one version, checked against its manifest, to staging, and pin it in the configurations to load.

    Its models get names of their own there, those of an ensemble's members included.

    :raises ModelInvalidError: what is measured or released keeps a state between requests.
    :raises LoadRefusedError: it is an engine for another GPU or TensorRT than the release file declares, or it names
        its files by absolute paths, and their folder on the staging server is unknown.
    """
    registry = ModelRegistry(store)
    require_loadable(manifest.engines, spec.serving.hardware, where="the staging server")
    name = staged_name(manifest.model, role)
    published = registry.configs(manifest)
    names = {member: staged_model(manifest.model, member, name) for member in published}
    if role != "stable":
        require_no_sequences(published)  # it may have been published before this was refused
    placed = _with_staged_paths(spec, pin_bundle(published, manifest.version), names, triton_conn_id)
    configs = rename_bundle(placed, names)
    registry.copy_to_staging(manifest, name)
    for staged, config in configs.items():
        store.write(staged_key(f"{staged}/{CONFIG_FILE}", staged), to_pbtxt(config).encode())
    members = [StagedMember(name=one, config=configs[one]) for one in load_order(configs) if one != name]
    return StagedModel(name=name, version=manifest.version, config=configs[name], members=tuple(members))


def _with_staged_paths(
    spec: ReleaseSpec, configs: Configs, names: Mapping[str, str], triton_conn_id: str
) -> Configs:
    """Return the configurations with the paths in their parameters as the staging server has them."""
    # Only TensorRT-LLM's conversion may lay its repository elsewhere than KServe does.
    roots = {SERVING_ROOT, getattr(spec.conversion, "serving_root", SERVING_ROOT)}
    if not names_files(configs, roots):
        return configs
    path = TritonHook(triton_conn_id).repository_path
    return on_staging(configs, names, repository_path=path, connection=triton_conn_id, roots=roots)


def leave_out_baseline(step: ReleaseStep, error: SlipwayError) -> str:
    """Say in the log and in the record that the gates have no stable version to compare with; return why."""
    stable = step.release_run.stable
    assert stable is not None  # noqa: S101  there is a baseline to leave out
    reason = f"version {stable.version}, which is live, cannot be loaded on the staging server: {error}"
    log.warning("the gates do not compare with the stable version: %s", reason)
    step.record.append(StageFinished(stage="baseline", outcome="left_out", reason=reason))
    return reason


def _unload_order(staged: StagedModel) -> list[str]:
    return [staged.name, *(member.name for member in reversed(staged.members))]


class StagingLoadOperator(ReleaseStep, TritonLoadModelOperator):
    """A load on the staging server, as a step of a release."""

    template_fields: Sequence[str] = ("release", *TritonLoadModelOperator.template_fields)
    operator_extra_links = (*RELEASE_LINK, *LINKS)

    def __init__(
        self,
        *,
        release: str = RELEASE_RUN_TEMPLATE,
        aws_conn_id: str = "aws_default",
        triton_conn_id: str = STAGING_CONN_ID,
        **kwargs: Any,
    ) -> None:
        super().__init__(triton_conn_id=triton_conn_id, **kwargs)
        self.release = release
        self.aws_conn_id = aws_conn_id

    def execute(self, context: Context) -> Any:
        """Load; return the versions of the model that are ready."""
        with airflow_failures():
            return super().execute(context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """Go on when the server has answered the loads."""
        with airflow_failures():
            return super().execute_complete(context, event)

    def load(self) -> list[int]:
        """Ask for the loads and wait; errors are Slipway's."""
        with slipway_errors():
            return super().load()

    def load_answered(self, event: dict[str, Any]) -> list[int]:
        """Wait for the versions to get ready; errors are Slipway's."""
        with slipway_errors():
            return super().load_answered(event)

    def departures(self, wanted: Config, served: Config) -> list[str]:
        """Compare by the canonical form, as everything that is published is compared."""
        return departures(wanted, served)


class LoadCandidateOperator(StagingLoadOperator):
    """`TritonLoadModelOperator` for the candidate: whether it loads is the release's stage ``stage``.

    :param manifest_sha256: digest of the manifest that was staged (templated).
    """

    template_fields: Sequence[str] = ("manifest_sha256", *StagingLoadOperator.template_fields)

    def __init__(self, *, manifest_sha256: str = MANIFEST_TEMPLATE, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.manifest_sha256 = manifest_sha256

    def load(self) -> list[int]:
        """Load the candidate and record how that went."""
        self.require_admitted()
        with self._recorded():
            return super().load()

    def load_answered(self, event: dict[str, Any]) -> list[int]:
        """Go on when the server has answered the load."""
        with self._recorded():
            return super().load_answered(event)

    def _recorded(self) -> AbstractContextManager[None]:
        return recorded_stage(self.record, "stage", resumed=True, manifest_sha256=self.manifest_sha256)


class LoadBaselineOperator(StagingLoadOperator):
    """`TritonLoadModelOperator` for the stable version, which is left out where this server refuses to load it.

    :param staging: the `Staging` as JSON (templated).
    :returns: the `Staging` as the gates shall take it, with the baseline or without, as a mapping.
    """

    template_fields: Sequence[str] = ("staging", *StagingLoadOperator.template_fields)

    def __init__(self, *, staging: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.staging = staging

    def execute(self, context: Context) -> Any:
        """Load the stable version."""
        with airflow_failures():
            return self._loaded(self.load)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """Go on when the server has answered the load."""
        with airflow_failures():
            return self._loaded(lambda: self.load_answered(event))

    def _loaded(self, load: Callable[[], object]) -> dict[str, Any]:
        staging = Staging.parse(self.staging).of(self.release_run)
        try:
            load()
        except LoadRefusedError as error:
            left_out = {"baseline": None, "not_compared": leave_out_baseline(self, error)}
            staging = staging.model_copy(update=left_out)
        return staging.model_dump(mode="json")

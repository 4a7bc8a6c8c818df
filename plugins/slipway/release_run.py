"""What every task of one release is given: which version, from where, under which release file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_serializer, field_validator

from slipway.workflows import ADMIT_TASK
from slipway_core.admitted import (
    Admitted,
    digest_of,
    handed_otherwise,
    otherwise,
    require_consistent_stable,
)
from slipway_core.bucket_layout import evidence_prefix, repository_paths
from slipway_core.errors import SpecError, UserError
from slipway_core.publishing.variants import ONLY, with_variant
from slipway_core.record.state import ReleaseState
from slipway_core.spec.release_file import ReleaseSpec, release_spec_of

_FOUND_LIMIT = 300
BUCKET_VARIABLE = "slipway_bucket"


def release_template(task_id: str) -> str:
    """Return the template of an operator's ``release`` field: what a task returned, and the bucket of this deployment.

    The bucket comes from Airflow's Variable, whatever the XCom says; a teardown is rendered without it too.
    """
    handed = f"{{% set handed = ti.xcom_pull(task_ids='{task_id}') %}}"
    whole = f"dict(handed, configured_bucket=var.value.get('{BUCKET_VARIABLE}', None))"
    return f"{handed}{{{{ ({whole} if handed else handed) | tojson }}}}"


RELEASE_RUN_TEMPLATE = release_template(ADMIT_TASK)


class StableVersion(BaseModel):
    """The version that is live when a release begins: the baseline of its gates and where a rollback ends."""

    model_config = ConfigDict(frozen=True)

    version: int
    storage_uri: str


class ReleaseRun(BaseModel):
    """The admitted release, as it travels between tasks by XCom.

    The release file is pinned here, with what the run's Params changed in it: an edit during a release takes
    effect in the next one.
    """

    model_config = ConfigDict(frozen=True, defer_build=True)

    release_id: str = Field(description="the Airflow run id")
    model: str
    version: int
    bucket: str
    spec: ReleaseSpec
    stable: StableVersion | None = Field(description="None: no version of this model is live yet")
    force: bool = Field(default=False, description="release again what was promoted or rolled back before")
    variant: str = Field(default=ONLY, description="the conversion's variant that a task is about")
    recorded_under: int | None = Field(
        default=None, description="the version in whose record this run writes; None: its own"
    )
    configured_bucket: str | None = Field(
        default=None, exclude=True, description="this deployment's; None: it is not known here"
    )

    @field_validator("spec", mode="before")
    @classmethod
    def _by_new_names(cls, value: Any) -> Any:
        # A run that was admitted by the release of Slipway before this one may hold former names of keys.
        if not isinstance(value, Mapping):
            return value
        try:
            return release_spec_of(value, "the release file in this run")
        except SpecError as error:
            raise ValueError(str(error)) from error

    @field_serializer("spec")
    def _as_written(self, spec: ReleaseSpec) -> dict[str, Any]:
        # Without the defaults: what a release file does not mention must stay unmentioned on the way.
        return spec.model_dump(mode="json", exclude_unset=True)

    @property
    def admitted(self) -> Admitted:
        """What the record pins of this release run when it is admitted."""
        stable = None if self.stable is None else self.stable.model_dump(mode="json")
        return Admitted(
            bucket=self.bucket,
            namespace=self.spec.rollout.namespace,
            inference_service=self.spec.rollout.inference_service,
            stable_storage_uri="" if self.stable is None else self.stable.storage_uri,
            sha256=digest_of(
                {
                    "release_id": self.release_id,
                    "model": self.model,
                    "version": self.version,
                    "bucket": self.bucket,
                    "spec": self._as_written(self.spec),
                    "stable": stable,
                    "force": self.force,
                }
            ),
        )

    def require_configured_bucket(self) -> None:
        """Return where this release run is about the bucket of this deployment.

        :raises HandedOtherwiseError: it is about another one.
        """
        if self.configured_bucket not in (None, self.bucket):
            raise otherwise("the bucket", str(self.configured_bucket), self.bucket)

    def require_admitted(self, state: ReleaseState) -> None:
        """Return where this is what was admitted, as the record of this attempt has it.

        :param state: the fold of the record in which this release run writes, read anew.
        :raises HandedOtherwiseError: it is not.
        """
        self.require_configured_bucket()
        if state.release_id != self.release_id:
            return
        whole = self if self.recorded_under is None else self._tried_for(state)
        if whole.stable is not None:
            require_consistent_stable(whole.model, whole.stable.version, whole.stable.storage_uri)
        error = handed_otherwise(whole.admitted, state.admitted)
        if error is not None:
            raise error

    def _tried_for(self, state: ReleaseState) -> ReleaseRun:
        """Return the release run of the rollback for which staging tries this version."""
        stable = StableVersion(version=self.version, storage_uri=state.stable_storage_uri or "")
        return self.model_copy(
            update={"version": self.recorded_under, "stable": stable, "recorded_under": None}
        )

    @property
    def incoming_prefix(self) -> str:
        """Where training left the version."""
        return repository_paths(self.model, self.version).incoming

    @property
    def work_prefix(self) -> str:
        """Where the conversion leaves what is not published yet."""
        work = repository_paths(self.model, self.version).work
        return f"{work}{self.variant}/" if self.variant else work

    def of_variant(self, name: str) -> ReleaseRun:
        """Return the release run of a task that works on one variant of the conversion."""
        return self.model_copy(update={"variant": name, "spec": with_variant(self.spec, name)})

    @property
    def evidence_prefix(self) -> str:
        """Where this release's gate reports go."""
        return evidence_prefix(self.model, self.version, self.release_id)

    @property
    def storage_uri(self) -> str:
        """The version's model repository, as an InferenceService is given it."""
        return repository_paths(self.model, self.version).storage_uri(self.bucket)

    def uri(self, key: str) -> str:
        """``s3://BUCKET/KEY``."""
        return f"s3://{self.bucket}/{key}"

    @classmethod
    def parse(cls, rendered: str | dict[str, Any]) -> ReleaseRun:
        """Read what the template of an operator's ``release`` field was rendered to.

        :raises UserError: it is no admitted release.
        """
        try:
            return cls.model_validate_json(rendered if isinstance(rendered, str) else json.dumps(rendered))
        except (ValidationError, ValueError, RecursionError) as error:
            raise UserError(
                "this task was not given an admitted release",
                expected=f"what the task {ADMIT_TASK!r} returned",
                found=str(error).replace("\n", " ")[:_FOUND_LIMIT],
                remedy="Clear the whole run, so that it is admitted again.",
            ) from error

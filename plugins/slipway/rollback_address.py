"""Where a rollback acts: as little of the release run as it takes, so that nothing else of it is in the way."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from include.model_release.bucket_layout import repository_paths
from include.model_release.errors import InputMissingError
from include.model_release.spec.release_file import Rollout


@dataclass(frozen=True)
class RollbackAddress:
    """The InferenceService of a release run, and the two versions that it may serve.

    A release run may have been written by another version of this code: what is not needed is not read.

    :param ready_timeout_s: how long a version may take to come up, in seconds.
    :param stable_uri: "" where nothing was live before, or it is not told; the InferenceService notes it as well.
    """

    release_id: str
    model: str
    version: int
    bucket: str
    namespace: str
    inference_service: str
    ready_timeout_s: float
    stable_uri: str

    @property
    def candidate_uri(self) -> str:
        """What the version to leave serves."""
        return repository_paths(self.model, self.version).storage_uri(self.bucket)

    @classmethod
    def parse(cls, rendered: str | Mapping[str, Any]) -> RollbackAddress:
        """Read the release run as the task was given it.

        :raises InputMissingError: it does not name the model, its version and the bucket.
        """
        try:
            whole = json.loads(rendered) if isinstance(rendered, str) else rendered
            rollout = _mapping(_mapping(whole.get("spec")).get("rollout"))
            model = str(whole["model"])
            return cls(
                release_id=str(whole["release_id"]),
                model=model,
                version=int(whole["version"]),
                bucket=str(whole.get("configured_bucket") or whole["bucket"]),
                namespace=str(rollout.get("namespace") or _default("namespace")),
                inference_service=str(rollout.get("inference_service") or model),
                ready_timeout_s=_positive(rollout.get("ready_timeout_s")) or _default("ready_timeout_s"),
                stable_uri=str(_mapping(whole.get("stable")).get("storage_uri") or ""),
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise InputMissingError(
                "the release run that this task was given names no InferenceService",
                expected="release_id, model, version and bucket, as the task admit returned them",
                found=f"{type(error).__name__}: {error}",
                remedy="take the canary back by the DAG model_rollback, which needs the model's name only",
            ) from error


def _default(name: str) -> Any:
    return Rollout.model_fields[name].default


def _positive(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and value > 0 else None


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}

"""Where a rollback acts: as little of the release run as it takes, so that nothing else of it is in the way."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from slipway_core.bucket_layout import parse_storage_uri, repository_paths
from slipway_core.documents.yaml_source import parse_yaml_mapping
from slipway_core.errors import ForeignChangeError, InputMissingError, SlipwayError, SpecError
from slipway_core.identifiers import validate_model_name
from slipway_core.spec.release_file import (
    ReleaseSpec,
    Rollout,
    apply_overrides,
    load_model_spec,
    release_spec_of,
)
from slipway_core.spec.rollout.rollout import LONGEST_DRAIN_S

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RollbackAddress:
    """The InferenceService of a release run, and the two versions that it may serve.

    A release run may have been written by another version of this code: what is not needed is not read.

    :param ready_timeout_s: how long a version may take to come up, in seconds.
    :param drain_s: how long requests that are open on the version to leave may take to end by themselves, in seconds.
    :param stable_uri: "" where nothing was live before, or it is not given; the InferenceService notes it as well.
    """

    release_id: str
    model: str
    version: int
    bucket: str
    namespace: str
    inference_service: str
    ready_timeout_s: float
    drain_s: float
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
                drain_s=_drain_s(rollout.get("drain_s")),
                stable_uri=str(_mapping(whole.get("stable")).get("storage_uri") or ""),
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise InputMissingError(
                "the release run that this task was given names no InferenceService",
                expected="release_id, model, version and bucket, as the task admit returned them",
                found=f"{type(error).__name__}: {error}",
                remedy="roll the canary back with the DAG model_rollback, which needs only the model's name",
            ) from error


@dataclass(frozen=True)
class NamedService:
    """The InferenceService of a model, as a person names it who wants users off a version.

    :param ready_timeout_s: how long a version may take to come up, in seconds.
    :param spec: the model's release file; None: it cannot be used, for the reason in `problem`.
    :param is_certain: the release file says that it is this one. What is guessed, or said by the run, must serve this
        model before anything is changed there.
    """

    model: str
    namespace: str
    inference_service: str
    ready_timeout_s: float
    spec: ReleaseSpec | None
    problem: SlipwayError | None = None
    is_certain: bool = True

    @classmethod
    def find(
        cls, releases_dir: Path, model: str, *, namespace: str = "", inference_service: str = ""
    ) -> NamedService:
        """Return the InferenceService by the release file, or by what of it can be read, or by defaults.

        :param namespace: what the run says instead; "": nothing.
        :param inference_service: likewise.
        :raises UnknownModelError: what is named cannot be a model's name.
        """
        name = validate_model_name(model)
        said = {
            key: value
            for key, value in (("namespace", namespace), ("inference_service", inference_service))
            if value
        }
        try:
            spec = load_model_spec(releases_dir, name)
            if said:
                spec = apply_overrides(spec, {"rollout": said}, "the run's parameters")
        except Exception as error:  # whatever is wrong with it is told when users are safe
            log.warning("continuing without the release file of %s: %s", name, error)
            return cls._guess(releases_dir, name, said, _problem(error, name))
        rollout = spec.rollout
        found = cls(name, rollout.namespace, rollout.inference_service, rollout.ready_timeout_s, spec)
        return replace(found, is_certain=not said)

    @classmethod
    def _guess(
        cls, releases_dir: Path, model: str, said: Mapping[str, str], problem: SlipwayError
    ) -> NamedService:
        written = {**_rollout_as_written(releases_dir / f"{model}.yaml"), **said}
        return cls(
            model,
            str(written.get("namespace") or _default("namespace")),
            str(written.get("inference_service") or model),
            _positive(written.get("ready_timeout_s")) or _default("ready_timeout_s"),
            spec=None,
            problem=problem,
            is_certain=False,
        )

    @property
    def drain_s(self) -> float:
        """How long requests that are open on the version to leave may take to end by themselves, in seconds."""
        return _drain_s(None if self.spec is None else self.spec.rollout.drain_s)

    @property
    def required_spec(self) -> ReleaseSpec:
        """The release file, for what needs it.

        :raises SlipwayError: what is wrong with it.
        """
        if self.spec is None:
            raise self.problem or SpecError(f"there is no release file for {self.model!r}")
        return self.spec

    def stand_in_spec(self) -> ReleaseSpec:
        """Return the release file, or what stands for it where the address is all that is needed."""
        if self.spec is not None:
            return self.spec
        log.warning("continuing without the release file: %s", self.problem)
        rollout = {
            "namespace": self.namespace,
            "inference_service": self.inference_service,
            "ready_timeout_s": int(self.ready_timeout_s),
        }
        data = {"model": self.model, "source": {"format": "onnx"}, "rollout": rollout}
        return release_spec_of(data, f"the address of {self.model}")

    def spec_in(self, *, emergency: bool) -> ReleaseSpec:
        """Return the release file; in an emergency its address will do.

        :raises SlipwayError: what is wrong with it, where it is needed.
        """
        return self.stand_in_spec() if emergency else self.required_spec

    def require_its_model(self, storage_uri: str) -> None:
        """Refuse an InferenceService that was not named by the model's release file and serves another model.

        :raises InputMissingError: it does, or what it serves is not a published version.
        """
        if self.is_certain:
            return
        try:
            model, _ = parse_storage_uri(storage_uri)
        except ForeignChangeError:
            model = ""
        if model != self.model:
            raise InputMissingError(
                f"{self.namespace}/{self.inference_service} is not known to be the InferenceService of "
                f"{self.model!r}",
                expected=f"one that serves a version of {self.model!r}",
                found=storage_uri or "nothing",
                remedy="set `namespace` and `inference_service`, or correct the release file",
            )


def _problem(error: Exception, model: str) -> SlipwayError:
    if isinstance(error, SlipwayError):
        return error
    return SpecError(
        f"the release file of {model!r} cannot be read", found=f"{type(error).__name__}: {error}"
    )


def _rollout_as_written(path: Path) -> Mapping[str, Any]:
    """Return the section `rollout` of a release file that may be wrong everywhere; empty where it has none."""
    try:
        return _mapping(parse_yaml_mapping(path.read_text(encoding="utf-8"), path.name).data.get("rollout"))
    except (SlipwayError, OSError, ValueError, AttributeError):
        return {}


def _default(name: str) -> Any:
    return Rollout.model_fields[name].default


def _positive(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and value > 0 else None


def _drain_s(value: Any) -> float:
    is_usable = (
        isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= LONGEST_DRAIN_S
    )
    return float(value) if is_usable else float(_default("drain_s"))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}

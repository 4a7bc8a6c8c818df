"""The result.json of a converter: the repository's files and their digests."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from slipway_core.errors import ModelInvalidError
from slipway_core.publishing.engine import EngineBuild, engine_of
from slipway_core.publishing.manifest import FileEntry, HubSource
from slipway_core.publishing.publication import PartsDigest
from slipway_core.tensors import ModelSignature, TensorSpec
from slipway_core.tensors import differences as signature_differences
from slipway_core.triton_config.checks.contradictions import EngineProfile, contradictions
from slipway_core.value_types import RelativePath, Sha256
from slipway_rules.version_manifest import SIZE_LIMIT_BYTES

REPOSITORY = "repository/"


def _with_all_ends(profile: dict[str, _Shapes]) -> dict[str, _Shapes]:
    if profile.keys() != {"min", "opt", "max"}:
        raise ValueError("must have `min`, `opt` and `max`")
    return profile


_Shapes = dict[str, tuple[Annotated[int, Field(ge=-1)], ...]]
_Profile = Annotated[dict[str, _Shapes], AfterValidator(_with_all_ends)]


class _Measured(BaseModel):
    model_config = ConfigDict(extra="ignore")

    size_bytes: Annotated[int, Field(ge=0, le=SIZE_LIMIT_BYTES)]
    sha256: Sha256
    parts: PartsDigest | None = None

    @property
    def entry(self) -> FileEntry:
        return FileEntry(size_bytes=self.size_bytes, sha256=self.sha256)


class _File(_Measured):
    path: RelativePath


class _Repository(BaseModel):
    model_config = ConfigDict(extra="ignore")

    files: tuple[_File, ...]
    configs: dict[str, str] = {}


class _SingleFile(_Measured):
    file: RelativePath


class _Result(BaseModel):
    model_config = ConfigDict(extra="ignore")

    signature: ModelSignature
    overridable: tuple[TensorSpec, ...] = ()
    tools: dict[str, str] = {}
    profiles: tuple[_Profile, ...] = ()
    model: _SingleFile | None = None
    repository: _Repository | None = None
    inputs: dict[str, FileEntry] = {}
    hub: HubSource | None = None


@dataclass(frozen=True)
class Converted:
    """The files of the repository to publish, without the configurations, which are written again.

    `files` are by their path in the repository, `places` say where each lies below the work prefix.
    `config_texts` has the config.pbtxt of each model that brought one; it is empty for a model whose
    configuration is made from the release file. `engine` and `profiles` are those of a TensorRT engine.
    `parts` says how S3 knows a file that was written in parts; `inputs` are the objects that the converter has
    read, by their address, as they were then; `hub` is what came from elsewhere; `overridable` are the model's
    initializers that a request may replace.
    """

    files: dict[str, FileEntry]
    places: dict[str, str]
    config_texts: dict[str, str]
    signature: ModelSignature
    tools: dict[str, str]
    parts: dict[str, PartsDigest] = field(default_factory=dict)
    inputs: dict[str, FileEntry] = field(default_factory=dict)
    hub: HubSource | None = None
    engine: EngineBuild | None = None
    profiles: tuple[EngineProfile, ...] = ()
    overridable: tuple[TensorSpec, ...] = ()


def parse_converted(result: Mapping[str, Any], model: str, version: int) -> Converted:
    """Read a converter's result: either one file of one model (`model`), or a `repository` of several.

    :raises ModelInvalidError: it is neither, or a file belongs to no model of the repository.
    """
    try:
        read = _Result.model_validate_json(json.dumps(dict(result)))
    except (ValidationError, ValueError) as error:
        raise _unreadable(str(error).replace("\n", " ")[:300]) from error
    if read.repository is None:
        if read.model is None:
            raise _unreadable("neither `model` nor `repository`")
        made = _of_one_file(read, read.model, f"{model}/{version}/")
    else:
        made = _of_repository(read, read.repository, model)
    made = replace(made, engine=engine_of(result), profiles=read.profiles, inputs=read.inputs, hub=read.hub)
    return replace(made, overridable=read.overridable)


def converted_signature(result: Mapping[str, Any]) -> ModelSignature:
    """Return the tensors of the converted model, as its converter tells them.

    :raises ModelInvalidError: it does not, or they are no tensors.
    """
    try:
        # As JSON, its original form: an unpaired surrogate in a text is found here, not when it is written.
        return ModelSignature.model_validate_json(json.dumps(result.get("signature")))
    except (ValidationError, ValueError, RecursionError) as error:
        raise _unreadable(f"`signature`: {str(error).replace(chr(10), ' ')[:300]}") from error


def require_same_service(config: Mapping[str, Any], engines: Sequence[Converted]) -> None:
    """Raise ModelInvalidError, which names the GPU, unless one configuration serves all of the engines alike.

    They stand under one name on different servers, and a client must not be able to tell them apart. The first one
    is what the others are compared with.
    """
    for made in engines:
        found = signature_differences(engines[0].signature, made.signature)
        found += [
            f"`{one.field}` {one.what}: expected {one.expected}, found {one.found}"
            for one in contradictions(config, profiles=made.profiles)
        ]
        if found:
            gpu = "a GPU" if made.engine is None else made.engine.gpu
            raise ModelInvalidError(
                f"the engine for {gpu} does not fit the others of its version",
                expected="the same tensors, and profiles as large as `serving.max_batch_size`",
                found="; ".join(found),
                remedy="Give its variant the same `max_batch_size` and `profiles` as the others.",
            )


def _of_one_file(result: _Result, file: _SingleFile, folder: str) -> Converted:
    path = folder + file.file
    return Converted(
        files={path: file.entry},
        places={path: file.file},
        parts={} if file.parts is None else {path: file.parts},
        config_texts={},
        signature=result.signature,
        tools=result.tools,
    )


def _of_repository(result: _Result, repository: _Repository, model: str) -> Converted:
    known = repository.configs.keys() or {model}
    strange = sorted({file.path for file in repository.files if file.path.split("/")[0] not in known})
    if strange or model not in known:
        raise _unreadable(
            f"files of no model: {', '.join(strange)}" if strange else f"no configuration of {model!r}"
        )
    return Converted(
        files={file.path: file.entry for file in repository.files},
        places={file.path: REPOSITORY + file.path for file in repository.files},
        parts={file.path: file.parts for file in repository.files if file.parts is not None},
        config_texts=dict(repository.configs),
        signature=result.signature,
        tools=result.tools,
    )


def _unreadable(found: str) -> ModelInvalidError:
    return ModelInvalidError(
        "the converter's result does not say what it made",
        expected="`signature`, and either `model` (one file) or `repository` (files and configurations)",
        found=found,
        remedy="Check that the image in `conversion.image` holds this version's converter.",
    )

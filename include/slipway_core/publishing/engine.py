"""On what an engine was built, and whether a server may load it.

A TensorRT engine is made for one kind of GPU and one version of TensorRT. Loaded elsewhere it is refused by
the server at best, so it is compared with the server before anything is loaded. Rules of TensorRT 10, chapters
"Version Compatibility" and "Hardware Compatibility" of its developer guide: an engine wants the same compute
capability and the same TensorRT version, unless it was built to be compatible.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from slipway_core.documents.document_form import first_problem
from slipway_core.errors import LoadRefusedError, ModelInvalidError
from slipway_core.spec.serving.serving import ServerHardware

HardwareCompatibility = Literal["none", "same_compute_capability", "ampere_plus"]

_AMPERE = (8, 0)


class EngineBuild(BaseModel):
    """What a converter recorded of the machine that built an engine; part of the version's manifest."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    gpu: str
    """The GPU's name as nvidia-smi prints it."""
    compute_capability: Annotated[str, Field(pattern=r"^\d+\.\d$")]
    tensorrt: Annotated[str, Field(min_length=1)]
    tensorrt_llm: str | None = None
    cuda: str | None = None
    driver: str | None = None
    hardware_compatibility: HardwareCompatibility = "none"
    version_compatible: bool = False
    gpus: Annotated[int, Field(ge=1)] = 1
    """How many GPUs one instance takes: tensor parallel times pipeline parallel."""


def engine_of(result: Mapping[str, Any]) -> EngineBuild | None:
    """Return the engine that a converter's `result.json` tells of; None if it built none.

    :raises ModelInvalidError: `engine` is there, and does not describe one.
    """
    document = result.get("engine")
    if document is None:
        return None
    try:
        return EngineBuild.model_validate(document)
    except ValidationError as error:
        raise ModelInvalidError(
            "the converter's result does not say on what the engine was built",
            expected="gpu, compute_capability and tensorrt under `engine` in result.json",
            found=first_problem(error),
            remedy="Build the engine again with the converter's image of this version.",
        ) from error


def differences(engine: EngineBuild, hardware: ServerHardware) -> list[str]:
    """Say in words why `engine` may not be loaded on `hardware`; empty when it may."""
    found = []
    if not _gpu_fits(engine, hardware):
        found.append(
            f"it was built for compute capability {engine.compute_capability} ({engine.gpu}), "
            f"the server has {hardware.compute_capability}"
        )
    if hardware.gpu is not None and hardware.gpu != engine.gpu and engine.hardware_compatibility == "none":
        found.append(f"it was built on {engine.gpu}, the server has {hardware.gpu}")
    if not _tensorrt_fits(engine, hardware):
        found.append(f"it was built with TensorRT {engine.tensorrt}, the server has {hardware.tensorrt}")
    return found


def require_loadable(engines: Sequence[EngineBuild], hardware: ServerHardware | None, *, where: str) -> None:
    """Raise LoadRefusedError unless a server with `hardware` may load one of a version's engines.

    `where` is what the error calls the server. A version without engines may be loaded anywhere. A server
    that nobody described is refused too: not to know is not to fit.
    """
    if not engines:
        return
    engine = engines[0]
    if hardware is None:
        raise LoadRefusedError(
            f"it is unknown which GPU {where} has, and the version is an engine",
            expected="`serving.hardware` with compute_capability and tensorrt in the release file",
            found="neither; Triton itself reports neither",
            remedy=f'Write `serving.hardware: {{compute_capability: "{engine.compute_capability}", '
            f'tensorrt: "{_short(engine.tensorrt)}"}}` if the servers have that.',
        )
    found = [differences(one, hardware) for one in engines]
    if all(found):
        raise LoadRefusedError(
            f"the engine cannot be loaded on {where}",
            expected=f"compute capability {hardware.compute_capability}, TensorRT {hardware.tensorrt}",
            found="; ".join(difference for one in found for difference in one),
            remedy="Convert on a node with the servers' GPU (`conversion.node_selector`) and with the image of "
            "the servers' Triton release, whose TensorRT is the same.",
        )


def _gpu_fits(engine: EngineBuild, hardware: ServerHardware) -> bool:
    if engine.hardware_compatibility == "ampere_plus":
        return _numbers(hardware.compute_capability) >= _AMPERE
    return engine.compute_capability == hardware.compute_capability


def _tensorrt_fits(engine: EngineBuild, hardware: ServerHardware) -> bool:
    built, served = _numbers(engine.tensorrt), _numbers(hardware.tensorrt)
    if engine.version_compatible:
        return built[:1] == served[:1] and served >= built[: len(served)]
    # The release file may leave out the build number.
    length = min(len(built), len(served))
    return built[:length] == served[:length]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:4])


def _short(version: str) -> str:
    return ".".join(str(part) for part in _numbers(version)[:3])

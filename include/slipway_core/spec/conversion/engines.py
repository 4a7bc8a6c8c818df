"""Engines, built on a GPU by TensorRT and TensorRT-LLM."""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Self

from pydantic import AfterValidator, Field, model_validator

from slipway_core.spec.conversion.conversion import LONGEST_CONVERSION_S, Conversion
from slipway_core.spec.parts import Quantity, SpecPart, size_of
from slipway_core.spec.pods.resources import GpuCount, MemoryQuantity, Resources
from slipway_core.spec.pods.settings import StartupSeconds

_S3_URL = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]/[^\s]+")


def _s3_url(text: str) -> str:
    if not _S3_URL.fullmatch(text):
        raise ValueError("must be an address of the form s3://BUCKET/KEY")
    return text.rstrip("/")


S3Url = Annotated[str, AfterValidator(_s3_url)]
Mebibytes = Annotated[int, Field(ge=1, le=10_000_000)]
Shape = Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1)]


class ShapeRange(SpecPart):
    """The smallest, usual and largest shape of an input, batch first."""

    min: Shape
    opt: Shape
    max: Shape

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if not len(self.min) == len(self.opt) == len(self.max):
            raise ValueError("`min`, `opt` and `max` need the same number of sizes")
        if any(not a <= b <= c for a, b, c in zip(self.min, self.opt, self.max, strict=True)):
            raise ValueError("each size needs min <= opt <= max")
        return self


class EngineResources(Resources):
    """What a pod that builds engines asks of its node."""

    cpu: Quantity = "4"
    memory: MemoryQuantity = "16Gi"
    gpu: GpuCount = 0
    """Default: as many as the build needs."""


class LanguageModelResources(EngineResources):
    """The same for a language model, whose weights are read whole."""

    cpu: Quantity = "8"
    memory: MemoryQuantity = "96Gi"


class EngineSettings(Conversion):
    """What the two conversions on a GPU share: GPUs, time for a node and a large image to come, long builds."""

    needs_gpu: ClassVar[bool] = True
    default_disk: ClassVar[Quantity] = "100Gi"
    timeout_s: Annotated[int, Field(ge=1, le=LONGEST_CONVERSION_S)] = 7200
    startup_timeout_s: StartupSeconds = 1800
    resources: EngineResources = EngineResources()
    memory_mib: Mebibytes | None = None
    """Limit for the builders' own memory on the host; default: seven eighths of `resources.memory`."""

    @property
    def gpus(self) -> int:
        """Return how many GPUs the build needs."""
        return 1

    @model_validator(mode="after")
    def _can_be_built(self) -> Self:
        asked, memory = self.resources, self.resources.memory
        if "gpu" not in asked.model_fields_set:
            self.__dict__["resources"] = asked.filled(gpu=max(asked.gpu, self.gpus))
        elif asked.gpu < self.gpus:
            raise ValueError(f"`resources.gpu: {asked.gpu}` is too few: the build needs {self.gpus}")
        if self.memory_mib is not None and self.memory_mib * 2**20 > size_of(memory):
            raise ValueError(
                f"`memory_mib: {self.memory_mib}` is above the pod's `resources.memory: {memory}`"
            )
        return self

    def memory_arguments(self) -> list[str]:
        """Return the limit on the builders' memory."""
        return ["--memory-mib", str(self.memory_mib or self.tools_memory_mib)]


def given(part: SpecPart, *names: str) -> list[str]:
    """Return the keys that say something, as options of a program."""
    return [
        text
        for name in names
        if getattr(part, name) is not None
        for text in (f"--{name.replace('_', '-')}", str(getattr(part, name)))
    ]


def flags(part: SpecPart, *names: str) -> list[str]:
    """Return the keys that are true, as options of a program."""
    return [f"--{name.replace('_', '-')}" for name in names if getattr(part, name)]

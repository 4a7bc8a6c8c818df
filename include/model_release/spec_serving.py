"""The release file's `serving`: what becomes the model's config.pbtxt."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from include.model_release.spec_parts import Count, SpecPart


class DynamicBatching(SpecPart):
    """Triton gathers single requests into batches for at most this long."""

    max_queue_delay_us: Annotated[int, Field(ge=0, le=1_000_000)] = 1000
    preferred_batch_sizes: tuple[Count, ...] = ()


class InstanceGroup(SpecPart):
    """Copies of the model that run side by side."""

    kind: Literal["cpu", "gpu", "auto"] = "cpu"
    count: Annotated[int, Field(ge=1, le=1024)] = 1
    gpus: tuple[Annotated[int, Field(ge=0)], ...] = ()

    @model_validator(mode="after")
    def _gpus_need_the_kind(self) -> Self:
        if self.gpus and self.kind != "gpu":
            raise ValueError("`gpus` needs `kind: gpu`")
        return self


class VersionPolicy(SpecPart):
    """Which versions Triton serves: `specific` (the released one) or the `latest` few of the repository."""

    mode: Literal["specific", "latest"] = "specific"
    count: Annotated[int, Field(ge=1, le=16)] = 1
    """With `latest`: how many."""


class Serving(SpecPart):
    """What becomes the model's config.pbtxt."""

    platform: Literal["onnxruntime_onnx"] = "onnxruntime_onnx"
    max_batch_size: Annotated[int, Field(ge=0, le=65536)] = 64
    """0: the model takes no batch dimension."""
    dynamic_batching: DynamicBatching | None = DynamicBatching()
    instances: Annotated[tuple[InstanceGroup, ...], Field(min_length=1)] = (InstanceGroup(),)
    version_policy: VersionPolicy = VersionPolicy()

    @model_validator(mode="after")
    def _batches_fit(self) -> Self:
        if self.dynamic_batching is None:
            return self
        if self.max_batch_size == 0:
            raise ValueError(
                "`max_batch_size: 0` leaves nothing to batch; write `dynamic_batching: null` too"
            )
        if any(size > self.max_batch_size for size in self.dynamic_batching.preferred_batch_sizes):
            raise ValueError(f"`preferred_batch_sizes` go above `max_batch_size: {self.max_batch_size}`")
        return self

"""The release file's `serving`: what becomes the model's config.pbtxt."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from slipway_core.spec.parts import Count, SpecPart, Text
from slipway_core.spec.serving.batching import DynamicBatching, SequenceBatching
from slipway_core.spec.serving.instances import InstanceGroup, Optimization

__all__ = [
    "DynamicBatching",
    "InstanceGroup",
    "Optimization",
    "SequenceBatching",
    "ServerHardware",
    "Serving",
    "VersionPolicy",
    "WarmupSample",
]

Platform = Literal[
    "onnxruntime_onnx", "tensorrt_plan", "pytorch_libtorch", "python", "tensorrt_llm", "ensemble"
]
WarmupData = Literal["golden", "zero", "random"]
Label = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_-]{0,63}$")]


class VersionPolicy(SpecPart):
    """Which versions Triton serves: `specific` (the released one), the `latest` few, or `all` of them."""

    mode: Literal["specific", "latest", "all"] = "specific"
    count: Annotated[int, Field(ge=1, le=16)] = 1
    """With `latest`: how many."""


class WarmupSample(SpecPart):
    """A request that each instance answers before the model counts as ready.

    A warm-up that fails may take the whole server down: `smoke_test` tries it on its own server first.
    """

    name: Label
    data: WarmupData = "golden"
    """`golden`: a row of the golden set, written to the configuration's folder; `zero`, `random`: made by Triton."""
    inputs: dict[str, WarmupData] = Field(default_factory=dict)
    """For single inputs: other data than `data`."""
    shapes: dict[str, tuple[Annotated[int, Field(ge=0)], ...]] = Field(default_factory=dict)
    """For `zero` and `random`: the size of an input whose shape varies, without the batch."""
    batch_size: Annotated[int, Field(ge=1, le=65536)] = 1
    """How many requests of one row make up the batch; 1 where the model takes no batch dimension."""
    count: Annotated[int, Field(ge=1, le=10_000)] = 1
    """How often the request is sent."""
    row: Annotated[int, Field(ge=0)] = 0
    """With `golden`: which row of the golden set; Triton sends the same row `batch_size` times in one batch."""


class ServerHardware(SpecPart):
    """What the servers that load this model run on. An engine that was built for something else is refused.

    Triton tells neither its GPU nor its TensorRT, so this is a declaration, as good as the node selector of
    the servers is.
    """

    compute_capability: Annotated[str, Field(pattern=r"^\d+\.\d$")]
    """The GPU's, such as `8.9` for an L4 or L40S and `9.0` for an H100 or H200."""
    tensorrt: Annotated[str, Field(pattern=r"^\d+\.\d+\.\d+(\.\d+)?$")]
    """TensorRT's version in the server's image, such as 10.13.2."""
    gpu: Text | None = None
    """The GPU's name as nvidia-smi prints it; only if the model must run on exactly this one."""


class Serving(SpecPart):
    """What becomes the model's config.pbtxt.

    Where training left a config.pbtxt of its own, what is written here is laid over it, and what is not
    written stays as it was; `null` removes what training wrote, and what a release must have is then filled
    in as if training had not.
    """

    platform: Platform | None = None
    """Default: that of config.pbtxt, else that of the file which the conversion made."""
    max_batch_size: Annotated[int, Field(ge=0, le=65536)] = 64
    """0: the model takes no batch dimension. Cannot be removed: write the number."""
    dynamic_batching: DynamicBatching | None = DynamicBatching()
    sequence_batching: SequenceBatching | None = None
    """For models that keep a state between requests; in place of dynamic batching."""
    instances: Annotated[tuple[InstanceGroup, ...], Field(min_length=1)] | None = None
    """Default: those of config.pbtxt, else one, on a GPU for an engine and on the CPU for all else."""
    version_policy: VersionPolicy | None = VersionPolicy()
    """Only `specific` for the targets python, ensemble and tensorrt_llm, which are pinned with their members."""
    warmup: tuple[WarmupSample, ...] | None = ()
    response_cache: bool | None = False
    """Answer equal requests from memory; the server needs `--cache-config`."""
    decoupled: bool | None = False
    """The model may send none or several responses to one request."""
    optimization: Optimization | None = None
    parameters: dict[str, str | None] | None = Field(default_factory=dict)
    """Passed to the backend unchanged."""
    metric_tags: dict[str, str | None] | None = Field(default_factory=dict)
    """Labels on the model's metrics."""
    hardware: ServerHardware | None = None
    load_timeout_s: Annotated[int, Field(ge=1, le=3 * 3600)] = 600
    """Limit for loading the version on staging, an ensemble's members included; no part of config.pbtxt."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.sequence_batching is not None:
            if self.dynamic_batching is not None and "dynamic_batching" in self.model_fields_set:
                raise ValueError("`sequence_batching` and `dynamic_batching` exclude each other; keep one")
            self.__dict__["dynamic_batching"] = None
        if self.response_cache and self.decoupled:
            raise ValueError("`response_cache` and `decoupled` exclude each other: a cache keeps one answer")
        self._batches_fit()
        names = [sample.name for sample in self.warmup or ()]
        if len(set(names)) != len(names):
            raise ValueError(f"two samples of `warmup` have the same name: {names}")
        return self

    def _batches_fit(self) -> None:
        if "max_batch_size" not in self.model_fields_set:
            return  # config.pbtxt may say another one; what is published is compared with that
        preferred: tuple[Count, ...] | None = ()
        if self.dynamic_batching is not None:
            # Written out it is taken, as Triton takes it: its queue has priorities and limits without batches, too.
            if self.max_batch_size == 0 and "dynamic_batching" not in self.model_fields_set:
                raise ValueError(
                    "`max_batch_size: 0` leaves nothing to batch; write `dynamic_batching: null` too"
                )
            preferred = self.dynamic_batching.preferred_batch_sizes
        elif self.sequence_batching is not None:
            preferred = self.sequence_batching.preferred_batch_sizes
        limit = max(self.max_batch_size, 1)
        if any(size > self.max_batch_size for size in preferred or ()):
            raise ValueError(f"`preferred_batch_sizes` go above `max_batch_size: {self.max_batch_size}`")
        large = [sample.name for sample in self.warmup or () if sample.batch_size > limit]
        if large:
            raise ValueError(
                f"`batch_size` of the warm-up {large[0]!r} is above `max_batch_size: {self.max_batch_size}`"
            )

"""The release file's `instances` and `optimization`: on what a model runs, and how it is sped up.

`null` under `optimization` stands where the option of a config.pbtxt that training left is to be removed.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from slipway_core.spec.parts import Count, SpecPart, Text


class RateResource(SpecPart):
    """How much of a resource an instance takes while it runs; `--rate-limit-resource` of the server is the stock."""

    name: Text
    shared: bool = False
    """One pool for the whole server (Triton's `global`) instead of one for each device."""
    count: Count = 1


class RateLimiter(SpecPart):
    """Which instances may run at the same time; the server needs `--rate-limit=execution_count`."""

    resources: tuple[RateResource, ...] = ()
    priority: Annotated[int, Field(ge=0, le=2**32 - 1)] = 0
    """An instance of priority 2 gets half as many turns as one of priority 1."""


class InstanceGroup(SpecPart):
    """Copies of the model that run side by side."""

    kind: Literal["cpu", "gpu", "auto", "model"] = "cpu"
    """`model`: the model itself says where it runs."""
    count: Annotated[int, Field(ge=1, le=1024)] = 1
    """With `gpus`: on each of them."""
    gpus: tuple[Annotated[int, Field(ge=0)], ...] = ()
    profiles: tuple[Annotated[int, Field(ge=0)], ...] = ()
    """The optimisation profiles of a TensorRT engine that these instances may use, by number."""
    host_policy: Text | None = None
    passive: bool = False
    """Loaded, but given no requests by Triton itself."""
    rate_limiter: RateLimiter | None = None

    @model_validator(mode="after")
    def _gpus_need_the_kind(self) -> Self:
        if self.gpus and self.kind != "gpu":
            raise ValueError("`gpus` needs `kind: gpu`")
        if len(set(self.gpus)) != len(self.gpus):
            raise ValueError(f"`gpus` lists one twice: {list(self.gpus)}")
        return self


class Accelerator(SpecPart):
    """An execution accelerator of ONNX Runtime, such as `tensorrt` or `openvino`."""

    name: Text
    parameters: dict[str, str] = Field(default_factory=dict)


class CudaGraph(SpecPart):
    """A size for which a CUDA graph is captured when the model is loaded."""

    batch_size: Annotated[int, Field(ge=0, le=65536)] = 1
    """0 where the model takes no batch dimension."""
    inputs: dict[str, tuple[Annotated[int, Field(ge=0)], ...]] = Field(default_factory=dict)
    """The size of each input whose shape varies, without the batch."""


class CudaOptions(SpecPart):
    """CUDA graphs: a whole inference is launched at once, which saves launch time of small kernels."""

    graphs: bool | None = True
    graph_sizes: tuple[CudaGraph, ...] | None = ()
    """Besides batch sizes 1 and the preferred ones, which the TensorRT backend captures anyway."""
    busy_wait_events: bool | None = False
    output_copy_stream: bool | None = False


class Optimization(SpecPart):
    """Flags for the backend; what is not written stays as Triton has it."""

    priority: Literal["default", "min", "max"] | None = None
    graph_level: Annotated[int, Field(ge=-1, le=3)] | None = None
    """How far the backend rewrites the graph; the backend's own documentation says what each number means."""
    cuda: CudaOptions | None = None
    gpu_accelerators: tuple[Accelerator, ...] | None = ()
    cpu_accelerators: tuple[Accelerator, ...] | None = ()
    input_pinned_memory: bool | None = None
    output_pinned_memory: bool | None = None
    gather_kernel_buffer_threshold: Annotated[int, Field(ge=0, le=2**32 - 1)] | None = None
    eager_batching: bool | None = None
    """Prepare the next batch while an instance is still at work."""

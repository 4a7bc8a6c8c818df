"""What a container asks of its node: CPU, memory, disk, and GPUs by the name that the device plugin gives them."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from slipway_core.spec.parts import Quantity, SpecPart, size_of
from slipway_core.spec.pods.names import ExtendedResource

DEFAULT_GPU_RESOURCE = "nvidia.com/gpu"
# No program of ours, and no server, begins in less: `memory: 16` is 16 bytes, `memory: 16m` less than one.
_LEAST_MEMORY_BYTES = 2**20


def _whole_gpus(value: object) -> object:
    if isinstance(value, float):
        raise ValueError(
            "must be a whole number: Kubernetes gives no fractions of a GPU. For a part of one write `gpu: 1` with "
            "`gpu_resource: nvidia.com/mig-1g.10gb` (a MIG slice) or `nvidia.com/gpu.shared` (time-slicing)"
        )
    return value


def _memory(text: str) -> str:
    if size_of(text) < _LEAST_MEMORY_BYTES:
        raise ValueError("must be a Kubernetes quantity of bytes, 1Mi or more, such as 2Gi")
    return text


GpuCount = Annotated[int, Field(ge=0, le=64), BeforeValidator(_whole_gpus)]
DeviceCount = Annotated[int, Field(ge=1, le=1024)]
MemoryQuantity = Annotated[Quantity, AfterValidator(_memory)]


class Resources(SpecPart):
    """What a container asks of its node."""

    cpu: Quantity = "1"
    memory: MemoryQuantity = "2Gi"
    gpu: GpuCount = 0
    """Whole devices of `gpu_resource`: Kubernetes gives no fractions of one. Left out beside `gpu_resource`: 1."""
    gpu_resource: ExtendedResource = DEFAULT_GPU_RESOURCE
    """What the device plugin calls a GPU: `nvidia.com/mig-1g.10gb` is a MIG slice, `nvidia.com/gpu.shared` a place on
    a GPU that is shared by time-slicing.
    """
    extended: dict[ExtendedResource, DeviceCount] = Field(default_factory=dict)
    """What other device plugins offer, such as `vpc.amazonaws.com/efa: 1`; GPUs are `gpu` and `gpu_resource`."""
    ephemeral_storage: Quantity | None = None
    """Of the node's own disk, for files, logs and the scratch volume; asked for, and no more given. Default: a
    little is asked for, and no more given than the kind of pod needs.
    """

    @model_validator(mode="after")
    def _names_what_it_counts(self) -> Self:
        if "gpu" not in self.model_fields_set:
            if "gpu_resource" in self.model_fields_set:
                self.__dict__["gpu"] = max(1, self.gpu)
        elif not self.gpu and self.gpu_resource != DEFAULT_GPU_RESOURCE:
            raise ValueError(
                f"`gpu: 0` asks for nothing of `gpu_resource: {self.gpu_resource}`; remove one of them"
            )
        return self

    @model_validator(mode="after")
    def _counts_gpus_once(self) -> Self:
        prefix = DEFAULT_GPU_RESOURCE.partition("/")[0]
        gpus = [name for name in self.extended if name.startswith(f"{prefix}/") or name == self.gpu_resource]
        if gpus:
            raise ValueError(
                f"`extended` names a GPU, {gpus[0]}: write `gpu: {self.extended[gpus[0]]}` and "
                f"`gpu_resource: {gpus[0]}` in its place"
            )
        return self

    def to_kubernetes(self) -> dict[str, dict[str, str]]:
        """Return `{"requests", "limits"}`.

        CPU has no limit: throttling would show as latency that the model has not.
        """
        limited = {"memory": self.memory}
        if self.ephemeral_storage is not None:
            limited["ephemeral-storage"] = self.ephemeral_storage
        if self.gpu:
            limited[self.gpu_resource] = str(self.gpu)
        limited |= {name: str(count) for name, count in self.extended.items()}
        return {"requests": {"cpu": self.cpu, **limited}, "limits": limited}

    def unless_said(self, **derived: Any) -> Self:
        """Return a copy with these values for the keys that nobody has written."""
        unsaid = {name: value for name, value in derived.items() if name not in self.model_fields_set}
        return self.filled(**unsaid) if unsaid else self

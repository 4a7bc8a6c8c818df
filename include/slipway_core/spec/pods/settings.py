"""What every pod of a release may say of how it runs."""

from __future__ import annotations

from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from slipway_core.spec.parts import (
    DnsLabel,
    EnvironmentName,
    Quantity,
    Seconds,
    SpecPart,
    Text,
    size_of,
)
from slipway_core.spec.pods.placement import Placement
from slipway_core.spec.pods.resources import Resources

LONGEST_STARTUP_S = 3600
StartupSeconds = Annotated[int, Field(ge=1, le=LONGEST_STARTUP_S)]
# A pod's request of a node's disk if none is configured; its limit is larger.
_LEAST_DISK = "1Gi"


class SecretKey(SpecPart):
    """A value that lies in a Kubernetes Secret of the pod's namespace, and never in the release file."""

    secret: DnsLabel
    key: Text


class PodSettings(Placement):
    """What every pod of a release may say of how it runs, and where."""

    timeout_s: Seconds = 600
    """How long the program may run."""
    startup_timeout_s: StartupSeconds = 120
    """How long the pod may take to begin on its node: an image of many GB takes minutes. A node that is being made is
    waited for 15 minutes, an image whose pull fails 10, or as long as this says where it is longer.
    """
    resources: Resources = Resources()
    default_disk: ClassVar[Quantity] = "20Gi"
    """The limit if neither `resources.ephemeral_storage` nor a larger `scratch_size` is given."""
    service_account: DnsLabel = "slipway"
    """Bound to an IAM role (IRSA), which gives the pod access to S3 without keys."""
    shm_size: Quantity | None = None
    """Shared memory at /dev/shm, taken from `resources.memory`; default: the node's 64 MiB. Several GPUs talk to
    each other through it, and Triton's Python backend to its models: 1 MiB for each instance, more for large tensors.
    """
    scratch_size: Quantity | None = None
    """A volume of the node's disk at /tmp, all that the pod may write to; default: as large as the pod's disk."""
    secret_env: dict[EnvironmentName, SecretKey] = Field(default_factory=dict)
    """Environment variables from secrets, such as HF_TOKEN."""

    @property
    def disk_limit(self) -> str:
        """All that the pod may take of the node's disk, as a Kubernetes quantity."""
        if self.resources.ephemeral_storage is not None:
            return self.resources.ephemeral_storage
        return max(self.default_disk, self.scratch_limit, key=size_of)

    @property
    def scratch_limit(self) -> str:
        """How much of it the pod's temporary files may be, as a Kubernetes quantity."""
        return self.scratch_size or self.resources.ephemeral_storage or self.default_disk

    def container_resources(self) -> dict[str, dict[str, str]]:
        """Return the container's `{"requests", "limits"}`, with a limit to its disk in any case."""
        asked = self.resources.to_kubernetes()
        disk = "ephemeral-storage"
        return {
            "requests": {disk: _LEAST_DISK, **asked["requests"]},
            "limits": {**asked["limits"], disk: self.disk_limit},
        }

    @model_validator(mode="after")
    def _has_room(self) -> Self:
        storage = self.resources.ephemeral_storage
        if storage and self.scratch_size and size_of(self.scratch_size) > size_of(storage):
            raise ValueError(
                f"`scratch_size: {self.scratch_size}` is above `resources.ephemeral_storage: {storage}`, "
                "of which it is a part"
            )
        return self

"""The servers that users ask: what `rollout` says of a model's predictor."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from slipway_core.spec.parts import DnsLabel, Text
from slipway_core.spec.pods.placement import Placement
from slipway_core.spec.pods.resources import Resources
from slipway_core.spec.servers.deployment_modes import DeploymentModeName, deployment_mode

ServingProtocol = Literal["http", "grpc"]
# KServe's own is a 32-bit number.
_MOST_REPLICAS = 10_000


class Predictor(Placement):
    """The predictor of a model's InferenceService, as its first release makes it.

    Later releases change only the model. Other differences from what is deployed are reported, and stay.
    """

    service_account: DnsLabel = "slipway-models"
    deployment_mode: DeploymentModeName = "Knative"
    """For a model's first deployment; later releases follow what its InferenceService is deployed as."""
    runtime: DnsLabel = "kserve-tritonserver"
    runtime_version: Text | None = None
    """The tag of the Triton image; null takes the serving runtime's own, which is old."""
    protocol: ServingProtocol = "http"
    """The protocol of the users' requests. `grpc`: the predictor has one port, for HTTP/2 without TLS (h2c)."""
    resources: Resources = Resources()
    """Left out, for a model that needs a GPU: one GPU, or as many as its engines were built for, and 8Gi of memory, or
    32Gi for a language model.
    """
    min_replicas: Annotated[int, Field(ge=1, le=_MOST_REPLICAS)] = 1
    """At least one: a stable version that scales to zero is cold when traffic comes back to it."""
    max_replicas: Annotated[int, Field(ge=1, le=_MOST_REPLICAS)] | None = None
    """Default: as the cluster's autoscaler has it. In Standard mode at least twice `min_replicas`, unless that is 1: a
    canary has replicas of its own beside stable's.
    """

    @model_validator(mode="after")
    def _replicas_fit(self) -> Self:
        most, least = self.max_replicas, self.min_replicas
        if most is None:
            return self
        if most < least:
            raise ValueError(f"`max_replicas: {most}` is below `min_replicas: {least}`")
        adds_replicas = deployment_mode(self.deployment_mode).canary_adds_replicas
        if adds_replicas and least > 1 and most < 2 * least:
            raise ValueError(
                f"`max_replicas: {most}` leaves no room for a canary in {self.deployment_mode} mode, whose "
                f"replicas are added to the {least} of stable: write {2 * least} or more"
            )
        return self

"""What the KServe controller is given: the cluster's store, and its settings."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from slipway_core.errors import SlipwayError
from slipway_sandbox.cluster.settings import DEFAULT_DEPLOYMENT_MODE
from slipway_sandbox.kserve.annotations import UNPROPAGATED_ANNOTATIONS
from slipway_sandbox.kserve.revisions import RunPolicy
from slipway_sandbox.services.routing import Mirror


class Store(Protocol):
    """What the controller needs of the cluster's object store."""

    def create(self, obj: Mapping[str, Any]) -> dict[str, Any]:
        """Store a new object; raises `ApiError`."""

    def delete(self, kind: str, namespace: str | None, name: str) -> dict[str, Any]:
        """Delete an object.

        :raises ApiError: 404, there is no such object.
        """

    def merge_patch(
        self, kind: str, namespace: str | None, name: str, patch: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Lay a merge patch over an object; raises `ApiError`."""

    def list(self, kind: str, namespace: str | None = None) -> list[dict[str, Any]]:
        """Return the objects of a kind."""

    def get(self, kind: str, namespace: str | None, name: str) -> dict[str, Any]:
        """Return an object.

        :raises ApiError: 404, there is no such object.
        """

    def update_status(
        self, kind: str, namespace: str | None, name: str, status: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Replace an object's status.

        :raises ApiError: 404, there is no such object.
        """

    def finalize(self, kind: str, namespace: str | None, name: str, uid: str) -> None:
        """Remove an object that was marked for deletion; nothing happens if it is gone."""

    def watch(self, kind: str, namespace: str | None = None) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        """Yield the objects there are and then every change."""


@dataclass(frozen=True)
class KServeSettings:
    """Where the controller keeps its files, what it steers, and how patient it is.

    `environment` is what a predictor's pod would have (AWS_*); `scale_down_grace_s` is how long a revision
    stays that has no part in the traffic; `unpropagated_annotations` is inferenceservice-config's list of
    annotations that do not reach the revision template, `gateway_api` its enableGatewayApi, `gateway` the
    Gateway (NAMESPACE/NAME) that HTTPRoutes name, and `gateway_lag_s` how long that takes to act on one.
    `ingress_lag_s` is how long Knative's ingress takes to act on new traffic (None: it is dead, and never does).
    `mirror` gets copies of users' requests while a candidate without users is shown. In Standard mode the autoscalers
    look each `autoscaler_period_s` (Kubernetes': 15), and each further pod of a Deployment takes `pod_start_s` to come
    up.
    """

    state_dir: Path
    router_dir: Path
    router_admin_url: str
    domain: str = "sandbox.slipway"
    triton_venv: Path | None = None
    triton_root: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    scale_down_grace_s: float = 10.0
    unpropagated_annotations: tuple[str, ...] = UNPROPAGATED_ANNOTATIONS
    gateway_api: bool = True
    gateway: str = "kserve/kserve-ingress-gateway"
    gateway_lag_s: float = 0.1
    autoscaler_period_s: float = 0.5
    pod_start_s: float = 0.2
    ingress_lag_s: float | None = 0.3
    mirror: Mirror | None = None
    # inferenceservice-config's defaultDeploymentMode.
    default_deployment_mode: str = DEFAULT_DEPLOYMENT_MODE
    run_policy: RunPolicy = field(default_factory=RunPolicy)

    @classmethod
    def from_cluster_config(cls, config: Mapping[str, Any], base: Path | None = None) -> KServeSettings:
        """Read the settings from the whole of cluster.json; relative paths are relative to `base` or else to
        here.

        Under "kserve": router_dir, router_admin_url, domain; optional: triton_dir, scale_down_grace_s,
        service_annotation_disallowed_list, enable_gateway_api, gateway_lag_s, ingress_lag_s (null: never),
        autoscaler_period_s, pod_start_s, mirror ({"http_port", "grpc_port"}), default_deployment_mode.
        Raises `SlipwayError` that names a missing key.
        """
        base = base or Path.cwd()
        try:
            kserve = config["kserve"]
            optional: dict[str, Any] = {}
            for seconds in ("scale_down_grace_s", "gateway_lag_s", "autoscaler_period_s", "pod_start_s"):
                if seconds in kserve:
                    optional[seconds] = float(kserve[seconds])
            if "ingress_lag_s" in kserve:
                lag_s = kserve["ingress_lag_s"]
                optional["ingress_lag_s"] = None if lag_s is None else float(lag_s)
            if "service_annotation_disallowed_list" in kserve:
                optional["unpropagated_annotations"] = tuple(kserve["service_annotation_disallowed_list"])
            if "enable_gateway_api" in kserve:
                optional["gateway_api"] = bool(kserve["enable_gateway_api"])
            if "default_deployment_mode" in kserve:
                optional["default_deployment_mode"] = str(kserve["default_deployment_mode"])
            if "mirror" in kserve:
                ports = kserve["mirror"]
                optional["mirror"] = Mirror(int(ports["http_port"]), int(ports["grpc_port"]))
            if "triton_dir" in kserve:
                optional["triton_root"] = base / kserve["triton_dir"]
            return cls(
                state_dir=base / config["state_dir"] / "kserve",
                router_dir=base / kserve["router_dir"],
                router_admin_url=str(kserve["router_admin_url"]),
                domain=str(kserve.get("domain", cls.domain)),
                triton_venv=base / config["images_dir"] / "triton",
                environment={key: str(value) for key, value in config.get("node_env", {}).items()},
                **optional,
            )
        except KeyError as error:
            raise SlipwayError(
                "The cluster's settings lack what the KServe controller needs", expected=f"the key {error}"
            ) from None

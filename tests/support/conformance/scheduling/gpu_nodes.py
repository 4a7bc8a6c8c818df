"""Two nodes for the real scheduler: one with devices and a taint, and one without either. No kubelet is behind them."""

from __future__ import annotations

from tests.support.conformance.api import MERGE_PATCH, Api, Object

GPU_NODE, PLAIN_NODE = "gpu-node", "plain-node"
GPU_LABELS = {"accelerator": "a100"}
GPU_TAINT: Object = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
DEVICES = {"nvidia.com/gpu": "1", "nvidia.com/mig-1g.10gb": "2", "nvidia.com/gpu.shared": "4"}
_SIZE = {"cpu": "64", "memory": "512Gi", "ephemeral-storage": "2Ti", "pods": "110"}


def add_nodes(api: Api) -> None:
    """Make both nodes, with a status as their kubelets and the device plugin would write it."""
    _add(api, PLAIN_NODE, {}, {}, [])
    _add(api, GPU_NODE, GPU_LABELS, DEVICES, [GPU_TAINT])


def remove_nodes(api: Api) -> None:
    """Take both away: then the scheduler binds nothing any more."""
    for name in (GPU_NODE, PLAIN_NODE):
        api.ask("DELETE", f"/api/v1/nodes/{name}")


def _add(api: Api, name: str, labels: dict[str, str], devices: dict[str, str], taints: list[Object]) -> None:
    api.must("POST", "/api/v1/nodes", {"metadata": {"name": name, "labels": labels}})
    offered = {**_SIZE, **devices}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    status = {"capacity": offered, "allocatable": offered, "conditions": [ready]}
    api.must("PATCH", f"/api/v1/nodes/{name}/status", {"status": status}, content=MERGE_PATCH)
    # The API taints each new node as not ready, until the controller of nodes sees it: none runs here.
    api.must("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": taints}}, content=MERGE_PATCH)

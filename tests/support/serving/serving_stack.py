"""An emulated cluster with KServe, real Tritons and a real Envoy, and our hook on one InferenceService."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from slipway.hooks.inference_service import KServeHook
from slipway.traffic.reconciler import observe_service, reconcile
from slipway_core.rollout.next_action import (
    Goal,
)
from slipway_core.rollout.reconciler import Reconciliation
from tests.support.cluster.emulator import Emulator
from tests.support.serving.clients import Load
from tests.support.serving.envoy import Envoy
from tests.support.waiting import until

NAMESPACE, NAME = "models", "table"


def manifest(uri: str, **predictor: Any) -> dict[str, Any]:
    """Return an InferenceService in Standard mode."""
    return {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {
            "name": NAME,
            "namespace": NAMESPACE,
            "annotations": {"serving.kserve.io/deploymentMode": "Standard"},
        },
        "spec": {
            "predictor": {
                "minReplicas": 1,
                "model": {"modelFormat": {"name": "triton"}, "storageUri": uri},
                **predictor,
            }
        },
    }


@dataclass
class ServingStack:
    """The emulated cluster, its router, and the hook on the InferenceService."""

    emulator: Emulator
    envoy: Envoy
    hook: KServeHook

    async def reach(self, goal: Goal) -> Reconciliation:
        """Drive the InferenceService to a goal."""
        return await asyncio.to_thread(reconcile, self.hook, goal, timeout_s=150)

    def patch(self, spec: dict[str, Any]) -> None:
        """Patch the spec as somebody would who does not look."""
        assert self.hook.patch({"metadata": {}, "spec": spec})

    def traffic(self) -> dict[str, int]:
        """The traffic that is seen, without what has none."""
        observed = observe_service(self.hook)
        assert observed is not None
        return {name: percent for name, percent in observed.traffic.items() if percent}

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for a condition."""
        await until(condition, what)

    def load(self) -> Load:
        """Clients that ask without a pause."""
        return Load(self.envoy.ingress_port)

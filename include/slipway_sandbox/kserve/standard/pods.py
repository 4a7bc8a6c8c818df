"""How many pods of each Deployment answer, as time passes: what autoscalers ask for, and what does not come up.

One Triton stands for all pods of a template, so the rest are only counted. A test or a demonstration makes pods fail
by a ConfigMap `emulated-missing-pods` in the service's namespace: `{DEPLOYMENT: NUMBER}`, so many of those wanted do
not answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from slipway_sandbox.kserve.settings import KServeSettings, Store
from slipway_sandbox.kserve.standard import machine

CONFIG_MAPS = "configmaps"
MISSING_PODS = "emulated-missing-pods"


class MissingPods:
    """The pods that shall not answer, by namespace and Deployment; `changed` is called when others are named."""

    def __init__(self, store: Store, changed: Callable[[str], None]) -> None:
        self._store = store
        self._changed = changed
        self._by_namespace: dict[str, dict[str, int]] = {}

    async def run(self) -> None:
        """Follow the ConfigMaps, until cancelled."""
        async for kind, found in self._store.watch(CONFIG_MAPS):
            metadata = found["metadata"]
            if metadata["name"] == MISSING_PODS:
                data = {} if kind == "DELETED" else found.get("data") or {}
                self._by_namespace[metadata["namespace"]] = {name: int(pods) for name, pods in data.items()}
                self._changed(metadata["namespace"])

    def of(self, namespace: str) -> Mapping[str, int]:
        """Return how many pods of each Deployment do not answer."""
        return self._by_namespace.get(namespace, {})


class PodCount:
    """The clock of one service's autoscalers and pods."""

    def __init__(self, settings: KServeSettings) -> None:
        self._settings = settings
        self._scaled_at_s = 0.0
        self._begun_at_s: dict[str, float] = {}

    def advance(
        self, before: machine.Predictor, missing: Mapping[str, int], now_s: float
    ) -> machine.Predictor:
        """Return what has become of the pods by now."""
        after = machine.with_missing(before, missing)
        if now_s - self._scaled_at_s >= self._settings.autoscaler_period_s:
            self._scaled_at_s = now_s
            after = machine.scaled(after)
        for workload in after.workloads:
            after = self._one_up(after, workload, now_s)
        return after

    def _one_up(
        self, predictor: machine.Predictor, workload: machine.Workload, now_s: float
    ) -> machine.Predictor:
        """Return the predictor with one more pod of a Deployment, if one has had the time to come up."""
        pods = workload.newest
        if pods.phase != "ready" or pods.available >= workload.replicas - workload.missing:
            self._begun_at_s.pop(workload.name, None)
            return predictor
        if now_s - self._begun_at_s.setdefault(workload.name, now_s) < self._settings.pod_start_s:
            return predictor
        self._begun_at_s[workload.name] = now_s
        return machine.with_one_more(predictor, workload.name)

    def next_look_s(self, predictor: machine.Predictor) -> float | None:
        """Return after how many seconds something may have changed; None: nothing will by itself."""
        if all(workload.is_complete for workload in predictor.workloads):
            return None
        return min(self._settings.autoscaler_period_s, self._settings.pod_start_s) or 0.05

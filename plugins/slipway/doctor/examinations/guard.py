"""The guard: it has looked a moment ago, as its Lease says."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import ClassVar

from slipway.doctor.examination import EXAMINATIONS, Examination
from slipway.doctor.installation import Installation
from slipway_core.doctor.line import Line
from slipway_core.rollout.guard_heartbeat import LATE_AFTER_S, NAME, heartbeat_of
from slipway_core.rollout.lease import API_VERSION, GROUP, PLURAL
from slipway_kubernetes import ObjectKind
from slipway_kubernetes.client import KubernetesObjects

_LEASES = ObjectKind(GROUP, API_VERSION, PLURAL, "Lease")


@EXAMINATIONS.register
class GuardExamination(Examination):
    """Compares the last renewal of the guard's Lease with the API server's clock."""

    name: ClassVar[str] = "guard"
    place: ClassVar[int] = 140
    why: ClassVar[str] = "without it a canary keeps its weight until Airflow is back"

    def lines(self, installation: Installation) -> Iterator[Line]:
        """Yield a line for each namespace in which models are served."""
        cluster = installation.cluster()
        namespaces = sorted({spec.rollout.namespace for spec in installation.specs.values()})
        for namespace in namespaces:
            yield self._seen(cluster, namespace)
        if not namespaces:
            yield self.skipped("guard", "no release file names a namespace in which it would be needed")

    def _seen(self, cluster: KubernetesObjects, namespace: str) -> Line:
        what = f"guard of {namespace}"
        remedy = (
            "kubectl apply -f include/manifests/guard/rbac.yaml -f include/manifests/guard/deployment.yaml; "
            f"kubectl -n {namespace} logs -l app.kubernetes.io/name=slipway-guard --tail=20"
        )
        lease = cluster.read(_LEASES, namespace, NAME)
        if lease is None:
            return self.failed(
                what,
                f"there is no Lease {NAME}: no guard has looked",
                expected="a guard that looks",
                remedy=remedy,
            )
        renewed_at, holder = heartbeat_of(lease)
        now = cluster.server()[1] or datetime.now(UTC)
        if renewed_at is None:
            return self.unknown(what, f"its Lease {NAME} cannot be read", remedy=remedy)
        age_s = (now - renewed_at).total_seconds()
        if age_s <= LATE_AFTER_S:
            return self.ok(what, f"{holder or 'it'} looked {max(0.0, age_s):.0f} s ago")
        return self.failed(
            what,
            f"{holder or 'it'} looked last {age_s:.0f} s ago",
            expected=f"at most {LATE_AFTER_S:.0f} s",
            remedy=remedy,
        )

"""The rights in Kubernetes: each that is needed is granted, and one that nobody needs is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from slipway.doctor.examination import EXAMINATIONS, Examination
from slipway.doctor.installation import Installation
from slipway_core.doctor.line import Line
from slipway_core.doctor.rights import NeededRight, needed_rights
from slipway_kubernetes.client import KubernetesObjects

_FORBIDDEN_IN = "kube-system"


@EXAMINATIONS.register
class RightsExamination(Examination):
    """Asks by SelfSubjectAccessReview, and tries one thing that must be refused: an answer alone may be wrong."""

    name: ClassVar[str] = "rights"
    place: ClassVar[int] = 20
    why: ClassVar[str] = "a right that is missing is found in the middle of a release, or of a rollback"
    limit_s: ClassVar[float] = 60.0

    def lines(self, installation: Installation) -> Iterator[Line]:
        """Yield a line for each resource in each namespace, and one for what must be refused."""
        cluster = installation.cluster()
        for right in needed_rights(installation.specs.values(), installation.pods_namespace):
            yield self._asked(cluster, right, installation.kubernetes_conn_id)
        yield self._refused(cluster, installation.kubernetes_conn_id)

    def _asked(self, cluster: KubernetesObjects, right: NeededRight, conn_id: str) -> Line:
        what = f"{right.resource} in {right.namespace}"
        lacking = [
            verb
            for verb in right.verbs
            if not cluster.may(
                verb, right.plural, right.namespace, group=right.group, subresource=right.subresource
            )
        ]
        if not lacking:
            return self.ok(what, ", ".join(right.verbs))
        role = f"slipway-{right.plural}"
        return self.failed(
            what,
            f"the account of {conn_id} may not {', '.join(lacking)}",
            expected=", ".join(right.verbs),
            why=right.why,
            remedy=f"kubectl -n {right.namespace} create role {role} --verb={','.join(right.verbs)} "
            f"--resource={right.resource} && kubectl -n {right.namespace} create rolebinding {role} --role={role} "
            "--serviceaccount=NAMESPACE:ACCOUNT",
        )

    def _refused(self, cluster: KubernetesObjects, conn_id: str) -> Line:
        what = f"secrets in {_FORBIDDEN_IN}"
        if not cluster.reads_secrets(_FORBIDDEN_IN):
            return self.ok(what, "listing them was refused, as it must be")
        return self.failed(
            what,
            f"the account of {conn_id} could list them",
            expected="HTTP 403",
            why="whoever takes over a worker has the whole cluster",
            remedy="bind the account to a Role with the rights of docs/cluster.md alone: "
            "kubectl get clusterrolebindings -o wide | grep ACCOUNT",
        )

"""What the account of `kubernetes_default` must be allowed, by namespace; docs/cluster.md has the same as a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from slipway_core.rollout.dialects.registry import dialect_named
from slipway_core.spec.release_file import ReleaseSpec

PODS_NAMESPACE = "that of the pods"

# Whatever the release files say, in the namespace of the pods.
OF_PODS: Mapping[str, str] = {
    "pods": "get list watch create patch delete",
    "pods/log": "get",
    "events": "list watch",
}
# Whatever the dialect, in `rollout.namespace`.
OF_SERVICES: Mapping[str, str] = {
    "inferenceservices.serving.kserve.io": "get create patch delete list",
    "leases.coordination.k8s.io": "get create patch delete",
    "pods": "list delete",
}
_WHY: Mapping[str, str] = {
    "pods": "pods convert, test and benchmark; a rollback ends those of a candidate that is not left",
    "pods/log": "a pod that failed is explained by its log",
    "events": "they say why a pod does not start",
    "inferenceservices.serving.kserve.io": "a rollout is a change of the InferenceService",
    "leases.coordination.k8s.io": "a canary without a lease is ended by the guard",
    "httproutes.gateway.networking.k8s.io": "the traffic is what the routes say, and a rollback may write them",
    "deployments.apps": "a weight waits until there are pods enough for it",
    "services.serving.knative.dev": "it shows what KServe has acted on; a rollback writes it where KServe hangs",
    "revisions.serving.knative.dev": "it shows what a revision serves",
}
# Only a preview makes and removes routes; only retention lists InferenceServices.
_FOR_PREVIEW = {("httproutes.gateway.networking.k8s.io", verb) for verb in ("create", "delete")}


@dataclass(frozen=True)
class NeededRight:
    """Some verbs on one resource in one namespace.

    :param resource: as in `kubectl auth can-i`: `pods`, `pods/log`, `inferenceservices.serving.kserve.io`.
    :param why: what does not work without it.
    """

    namespace: str
    resource: str
    verbs: tuple[str, ...]
    why: str

    @property
    def group(self) -> str:
        """The API group; "" for the core group."""
        return self.resource.partition(".")[2]

    @property
    def plural(self) -> str:
        """The resource without its group and its subresource."""
        return self.resource.partition(".")[0].partition("/")[0]

    @property
    def subresource(self) -> str:
        """The subresource; "" where there is none."""
        return self.resource.partition("/")[2]


def needed_rights(specs: Iterable[ReleaseSpec], pods_namespace: str) -> Iterator[NeededRight]:
    """Yield what the releases of these files need, each resource of a namespace once.

    :param pods_namespace: where the pods of releases run, as the connection says.
    """
    for resource, verbs in OF_PODS.items():
        yield NeededRight(pods_namespace, resource, tuple(verbs.split()), _WHY[resource])
    wanted: dict[tuple[str, str], dict[str, None]] = {}
    for spec in specs:
        namespace = spec.rollout.namespace
        for resource, verbs in OF_SERVICES.items():
            wanted.setdefault((namespace, resource), {}).update(dict.fromkeys(verbs.split()))
        for kind, allowed in dialect_named(spec.rollout.deployment_mode).rights.items():
            needed = [
                verb
                for verb in sorted(allowed)
                if spec.rollout.preview is not None or (kind.name, verb) not in _FOR_PREVIEW
            ]
            wanted.setdefault((namespace, kind.name), {}).update(dict.fromkeys(needed))
    for (namespace, resource), found in wanted.items():
        yield NeededRight(namespace, resource, tuple(found), _WHY.get(resource, "a rollout uses it"))

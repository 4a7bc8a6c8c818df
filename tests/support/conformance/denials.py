"""What somebody may do in a namespace, found out by trying: a request that is not permitted is answered with 403."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tests.support.conformance.api import MERGE_PATCH, Api, Object

_FORBIDDEN = 403
_ABSENT = "nothing-of-this-name"
VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
Right = tuple[str, str, str]


@dataclass(frozen=True)
class Resource:
    """A kind of objects in a namespace, as it is asked for."""

    group: str
    version: str
    plural: str

    def path(self, namespace: str) -> str:
        """Return where its objects lie."""
        base = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        return f"{base}/namespaces/{namespace}/{self.plural}"


# What releases and guards deal with, and what somebody who took over their account would want.
RESOURCES = (
    Resource("serving.kserve.io", "v1beta1", "inferenceservices"),
    Resource("coordination.k8s.io", "v1", "leases"),
    Resource("gateway.networking.k8s.io", "v1", "httproutes"),
    Resource("", "v1", "events"),
    Resource("", "v1", "pods"),
    Resource("", "v1", "secrets"),
    Resource("", "v1", "configmaps"),
    Resource("", "v1", "serviceaccounts"),
    Resource("", "v1", "services"),
    Resource("apps", "v1", "deployments"),
    Resource("rbac.authorization.k8s.io", "v1", "roles"),
    Resource("rbac.authorization.k8s.io", "v1", "rolebindings"),
    Resource("serving.knative.dev", "v1", "services"),
    Resource("serving.knative.dev", "v1", "revisions"),
    Resource("networking.k8s.io", "v1", "networkpolicies"),
    Resource("discovery.k8s.io", "v1", "endpointslices"),
)


def granted(rules: Iterable[Object]) -> set[Right]:
    """Return (group, resource, verb) of every rule of a Role."""
    return {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def permitted(api: Api, namespace: str) -> set[Right]:
    """Return what is not refused with 403, of all verbs on all `RESOURCES`. Nothing is changed by it."""
    return {
        (resource.group, resource.plural, verb)
        for resource in RESOURCES
        for verb, code in _tried(api, resource, namespace)
        if code != _FORBIDDEN
    }


def reviewed(api: Api, namespace: str) -> set[Right]:
    """Return the whole list of what the API says that may be done in a namespace, also to what is not tried."""
    review = api.must(
        "POST",
        "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
        {"spec": {"namespace": namespace}},
    )
    return granted(review["status"]["resourceRules"])


def _tried(api: Api, resource: Resource, namespace: str) -> Iterator[tuple[str, int]]:
    path = resource.path(namespace)
    requests: dict[str, tuple[str, str, Object | None, str]] = {
        "get": ("GET", f"{path}/{_ABSENT}", None, "application/json"),
        "list": ("GET", f"{path}?limit=1", None, "application/json"),
        "watch": ("GET", f"{path}?watch=1&timeoutSeconds=1", None, "application/json"),
        "create": ("POST", f"{path}?dryRun=All", {}, "application/json"),
        "update": ("PUT", f"{path}/{_ABSENT}?dryRun=All", {}, "application/json"),
        "patch": ("PATCH", f"{path}/{_ABSENT}?dryRun=All", {}, MERGE_PATCH),
        "delete": ("DELETE", f"{path}/{_ABSENT}?dryRun=All", None, "application/json"),
        "deletecollection": ("DELETE", f"{path}?dryRun=All", None, "application/json"),
    }
    for verb in VERBS:
        method, where, body, content = requests[verb]
        yield verb, api.ask(method, where, body, content=content).code

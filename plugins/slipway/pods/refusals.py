"""What the Kubernetes API's answer, or silence, means for a pod that was to run: who must act, and how."""

from __future__ import annotations

import json

from kubernetes.client import ApiException
from urllib3.exceptions import HTTPError

from slipway_core.errors import ClusterUnavailableError, PodStartError, SlipwayError, UserError

_REFUSED = frozenset({400, 403, 413, 422})
# A quota is free again when another pod has ended.
_QUOTA = "exceeded quota"
_SAID_LIMIT = 1000
_BY_WORDS = (
    ("failed quota", "set what the quota requires: `resources` in the release file, or a LimitRange's default"),
    ("serviceaccount", "create the service account in the pod's namespace, or correct `service_account`"),
    ("service account", "create the service account in the pod's namespace, or correct `service_account`"),
    ("per container", "correct `resources` in the release file, or the namespace's LimitRange"),
    ("per pod", "correct `resources` in the release file, or the namespace's LimitRange"),
    ("priorityclass", "create the PriorityClass, or correct its name in the release file"),
    ("runtimeclass", "create the RuntimeClass, or correct its name in the release file"),
    ("podsecurity", "correct what the namespace admits (its Pod Security labels), or `pod_options`"),
    ("admission webhook", "correct what that webhook asks for, or let it pass the pods of releases"),
    ("namespaces", "create the namespace, or correct that of the connection or of the operator"),
    ("cannot create resource", "give the connection's account the right to create pods"),
)  # fmt: skip
_OTHERWISE = "correct the release file, or what the namespace admits (Pod Security, quotas, RBAC, webhooks)"


def refused_or_away(name: str, error: ApiException | HTTPError, conn_id: str) -> SlipwayError:
    """Return the error that says so, in the API server's own words.

    :param name: the pod's.
    :param conn_id: the connection to the cluster.
    """
    said = _said(error) if isinstance(error, ApiException) else ""
    status = error.status if isinstance(error, ApiException) else None
    if status in _REFUSED and _QUOTA in said:
        return PodStartError(
            f"the quota of its namespace leaves no room for the pod {name!r}",
            expected="room for one more pod of its size",
            found=said,
            remedy="it is tried again, because other pods end; if that does not succeed often enough, raise the "
            "ResourceQuota",
        )
    if status == 404 and "namespaces" not in said:
        return PodStartError(
            f"the pod {name!r} is gone",
            expected="a pod that exists until its task has seen its end",
            found=said,
            remedy="it is tried again; find out what deletes pods in its namespace (kubectl get events)",
        )
    if status in _REFUSED or status == 404:
        return UserError(
            f"the cluster refuses the pod {name!r}",
            expected="a pod that its namespace admits, and the permission to create it",
            found=said,
            remedy=next((remedy for words, remedy in _BY_WORDS if words in said.lower()), _OTHERWISE),
        )
    if status == 409:
        return PodStartError(
            f"another pod has the name {name!r}",
            expected="none, or one that is working for this task",
            found=said,
            remedy="it is tried again; if this persists, check that pod (kubectl describe pod)",
        )
    return ClusterUnavailableError(
        f"the cluster did not run the pod {name!r}",
        expected="an answer from the Kubernetes API",
        found=f"{type(error).__name__}: {_first_line(error)}" if status is None else f"HTTP {status}: {said}",
        remedy=_remedy_of(status, said, conn_id),
    )


def _remedy_of(status: int | None, said: str, conn_id: str) -> str:
    if status == 401:
        return f"check the credentials of the connection {conn_id!r}: they are refused, or have expired"
    if "failed calling webhook" in said:
        return "check the webhook's own service and pods: the API server calls it before it accepts a pod"
    return f"check the API server and the connection {conn_id!r}"


def _said(error: ApiException) -> str:
    """Return the API server's own sentence, where its answer holds one."""
    try:
        message = json.loads(error.body)["message"]
    except (KeyError, TypeError, ValueError):
        message = None
    words = " ".join(str(message or error.reason or "without a message").split())
    return words if len(words) <= _SAID_LIMIT else f"{words[:_SAID_LIMIT]}…"


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0]

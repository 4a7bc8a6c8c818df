"""The rights that docs/cluster.md gives Airflow, as a Role: the lane's releases have these and no others."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.conformance.api import Object
from tests.support.conformance.real_cluster import Cluster

PAGE = Path(__file__).resolve().parents[3] / "docs" / "cluster.md"
AIRFLOW = "slipway-airflow"
_ROW = re.compile(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
_ROLES = "rbac.authorization.k8s.io"
_VERBS = ("get", "list", "watch", "create", "patch", "update", "delete", "deletecollection")


def documented_rules(where: str, of: str = "") -> list[Object]:
    """Return the rules of the page's table for one namespace, as a Role has them.

    :param where: words of the table's first column.
    :param of: words of its second column.
    """
    section = PAGE.read_text(encoding="utf-8").partition("Rights in the cluster\n")[2].partition("\n## ")[0]
    rules: list[Object] = []
    for namespace, resources, verbs in _ROW.findall(section):
        if where not in namespace or of not in resources:
            continue
        named = re.findall(r"`([^`]+)`", resources)
        resource, _, group = named[0].partition(".")
        rule = {"apiGroups": [group], "resources": [resource], "verbs": _words(verbs)}
        rules.append(rule | ({"resourceNames": named[1:]} if named[1:] else {}))
    assert rules, f"no rights for {where} in {PAGE}"
    return rules


def _words(text: str) -> list[str]:
    return [word for word in re.findall(r"[a-z]+", text) if word in _VERBS]


def grant(
    cluster: Cluster, namespace: str, service_account: str, rules: list[Object], *, of: str = ""
) -> None:
    """Give a service account rights in a namespace.

    :param of: the service account's namespace, where it is another one.
    """
    metadata = {"name": f"{service_account}-{of or namespace}", "namespace": namespace}
    cluster.api.apply({"apiVersion": f"{_ROLES}/v1", "kind": "Role", "metadata": metadata, "rules": rules})
    cluster.api.apply(
        {
            "apiVersion": f"{_ROLES}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": _ROLES, "kind": "Role", "name": metadata["name"]},
            "subjects": [{"kind": "ServiceAccount", "name": service_account, "namespace": of or namespace}],
        }
    )

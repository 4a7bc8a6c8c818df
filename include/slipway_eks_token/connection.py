"""The Airflow connection that leads to an EKS cluster: its address and authority in it, and no secret."""

from __future__ import annotations

from typing import Any

from slipway_eks_token.token import API_VERSION


def connection_of(
    cluster: str, region: str, *, endpoint: str, authority: str, namespace: str, python: str
) -> dict[str, Any]:
    """Return the connection, ready for JSON: a kubeconfig in it whose clients ask this package for their tokens.

    :param endpoint: the address of the cluster's API.
    :param authority: its certificate authority, PEM in base64.
    :param namespace: where pods run.
    :param python: the program that workers and triggerers run Python by.
    """
    program = {
        "apiVersion": API_VERSION,
        "command": python,
        "args": ["-m", "slipway_eks_token", "--cluster-name", cluster, "--region", region],
        "interactiveMode": "Never",
    }
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": cluster, "cluster": {"server": endpoint, "certificate-authority-data": authority}}
        ],
        "users": [{"name": "aws", "user": {"exec": program}}],
        "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": "aws"}}],
        "current-context": cluster,
    }
    return {"conn_type": "kubernetes", "extra": {"kube_config": kubeconfig, "namespace": namespace}}

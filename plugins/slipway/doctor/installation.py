"""What the examinations look at: the connections, the bucket, the queue, the release files, and what is permitted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from airflow.sdk import BaseHook

from slipway.hooks.s3_store import ModelStoreHook
from slipway_core.errors import SlipwayError, UserError
from slipway_core.identifiers import list_models
from slipway_core.rollout.fields import FIELD_MANAGER
from slipway_core.spec.release_file import ReleaseSpec, load_model_spec

if TYPE_CHECKING:
    from slipway_kubernetes.client import KubernetesObjects

ANSWER_LIMIT_S = 5.0
"""How long one request to the object store may wait for its answer."""
DEFAULT_NAMESPACE = "default"


class Permission(StrEnum):
    """What an examination does only where it is asked for."""

    WRITE = "write"
    """Objects below `operations/store-probe/`, removed again."""
    EVENT = "event"
    """An upload below `incoming/` that starts nothing, and its notification in the queue."""
    PLANT = "plant"
    """An InferenceService of doctor's own, requests to it that fail and hang, and its removal."""


@dataclass
class Installation:
    """One installation, seen from this process.

    :param bucket: the bucket's name; "": none is configured.
    :param releases_dir: the folder of the release files.
    :param queue_url: the intake queue; "": none is configured.
    :param permitted: what may be done besides reading.
    """

    bucket: str
    releases_dir: Path
    queue_url: str = ""
    permitted: frozenset[Permission] = frozenset()
    aws_conn_id: str = "aws_default"
    kubernetes_conn_id: str = "kubernetes_default"
    triton_conn_id: str = "triton_staging"
    metrics_conn_id: str = "slipway_metrics"
    unreadable: dict[str, SlipwayError] = field(default_factory=dict)
    """Why a release file cannot be read, by model; known once `specs` was asked for."""

    @cached_property
    def specs(self) -> Mapping[str, ReleaseSpec]:
        """The release files that can be read, by model."""
        found: dict[str, ReleaseSpec] = {}
        for model in list_models(self.releases_dir):
            try:
                found[model] = load_model_spec(self.releases_dir, model)
            except SlipwayError as error:
                self.unreadable[model] = error
        return found

    def store(self) -> ModelStoreHook:
        """Return a hook on the bucket that does not wait for long."""
        return ModelStoreHook(self.bucket, self.aws_conn_id, answer_limit_s=ANSWER_LIMIT_S)

    def cluster(self) -> KubernetesObjects:
        """Return the cluster of the connection.

        :raises UserError: there is no such connection, or it leads to no cluster.
        """
        # Two Kubernetes clients: whoever examines the bucket needs neither.
        from airflow.providers.cncf.kubernetes.hooks.kubernetes import KubernetesHook

        from slipway_kubernetes.asking import asking_again
        from slipway_kubernetes.client import KubernetesObjects

        try:
            api = asking_again(KubernetesHook(conn_id=self.kubernetes_conn_id).get_conn)
        except Exception as error:  # what the client raises of a kubeconfig has no common base
            raise UserError(
                f"the connection {self.kubernetes_conn_id!r} leads to no cluster",
                expected="in_cluster, or a kubeconfig that can be read: docs/cluster.md",
                found=type(error).__name__,
                remedy=f"airflow connections get {self.kubernetes_conn_id}",
            ) from error
        return KubernetesObjects(
            api,
            refused_remedy=f"check the rights and the address of the connection {self.kubernetes_conn_id!r}",
            away_remedy=f"check the API server and the connection {self.kubernetes_conn_id!r}",
            field_manager=FIELD_MANAGER,
        )

    @property
    def pods_namespace(self) -> str:
        """Where the pods of releases run, as the connection's extra says."""
        extra = BaseHook.get_connection(self.kubernetes_conn_id).extra
        try:
            value = json.loads(extra or "{}").get("namespace")
        except (ValueError, AttributeError):
            return DEFAULT_NAMESPACE
        return str(value or DEFAULT_NAMESPACE)

"""From connections to the parts that a step of a release works with: the one place where its hooks are made.

Operators and triggers are given parts, and make none themselves. Each part is made when it is first asked for: a step
that takes traffic back asks for nothing but the cluster.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from slipway.hooks.inference_service import KServeHook
from slipway.hooks.lease import LeaseHook
from slipway.hooks.s3_store import ModelStoreHook
from slipway.metrics.connection import DEFAULT_METRICS_CONN_ID
from slipway.metrics.source import MetricsSource, metrics_source
from slipway.registry.registry import ModelRegistry
from slipway.registry.signing import SigningKey, signing_key_of
from slipway.release_record.outbox import ANSWER_LIMIT_S, Outbox, rules_of
from slipway.release_record.record import ReleaseRecord
from slipway.release_run import ReleaseRun
from slipway.rollback_address import RollbackAddress
from slipway_core.spec.release_file import ReleaseSpec

log = logging.getLogger(__name__)


class ServiceAddress(Protocol):
    """Which InferenceService is meant: the section `rollout` of a release file says it, among others."""

    @property
    def namespace(self) -> str:
        """Its namespace."""

    @property
    def inference_service(self) -> str:
        """Its name."""


@dataclass(frozen=True)
class Connections:
    """The Airflow connections of a step."""

    aws: str = "aws_default"
    kubernetes: str = "kubernetes_default"
    metrics: str = DEFAULT_METRICS_CONN_ID


class ReleaseContext:
    """The parts of one release, for one of its steps.

    :param release: the release run, as the task was given it.
    """

    def __init__(self, release: str | Mapping[str, Any], connections: Connections) -> None:
        self._release = release
        self._connections = connections

    @cached_property
    def release_run(self) -> ReleaseRun:
        """The release run, as the task was given it.

        :raises UserError: it cannot be read.
        """
        release = self._release
        return ReleaseRun.parse(release if isinstance(release, str) else dict(release))

    def require_admitted(self) -> None:
        """Return where what the task was given is what was admitted, as the record has it now.

        :raises UserError: it cannot be read.
        :raises HandedOtherwiseError: it is not; or it is about another bucket than this deployment's.
        """
        self.release_run.require_configured_bucket()
        if self.record.started():
            self.release_run.require_admitted(self.record.state())

    @cached_property
    def address(self) -> RollbackAddress:
        """Which InferenceService this is about: all that a step back needs of the release run."""
        return RollbackAddress.parse(self._release)

    @cached_property
    def store(self) -> ModelStoreHook:
        """The release's bucket."""
        return self.make_store()

    def make_store(self, answer_limit_s: float | None = None) -> ModelStoreHook:
        """Return a hook of its own on the release's bucket.

        :param answer_limit_s: of one request; None: the hook's own.
        """
        release_run = self.release_run
        return make_store(
            release_run.bucket, release_run.spec, self._connections.aws, answer_limit_s=answer_limit_s
        )

    @cached_property
    def record(self) -> ReleaseRecord:
        """The release's record."""
        return record_of(self.store, self.release_run)

    def record_of_address(self) -> ReleaseRecord:
        """Return the record; where the release file cannot be read, encrypted as the connection says."""
        try:
            return self.record
        except Exception as error:  # whatever is wrong with it is not needed here
            log.warning("continuing without the release file: %s", error)
        address = self.address
        store = ModelStoreHook(address.bucket, self._connections.aws)
        return ReleaseRecord(store, address.model, address.version, address.release_id)

    @cached_property
    def outbox(self) -> Outbox:
        """Where notices of the release go; whoever tells one waits for no receiver, and meets no error."""
        try:
            return make_outbox(self.release_run.bucket, self.release_run.spec, self._connections.aws)
        except Exception as error:  # the way back asks for nothing but the cluster
            log.warning("no notice is sent: the release file cannot be read: %s", error)
            return Outbox(lambda: self.store, ())

    @cached_property
    def registry(self) -> ModelRegistry:
        """The published versions."""
        return ModelRegistry(self.store)

    @cached_property
    def signing_key(self) -> SigningKey | None:
        """The key that the release file demands; None: it demands no signature.

        :raises UserError: it is not there, or is no elliptic-curve key.
        """
        return signing_key_of(self.release_run.spec)

    @cached_property
    def service(self) -> KServeHook:
        """The release's InferenceService."""
        return self.make_service()

    def make_service(self) -> KServeHook:
        """Return a hook of its own on the release's InferenceService."""
        address = self.address
        return KServeHook(address.inference_service, address.namespace, self._connections.kubernetes)

    @cached_property
    def lease(self) -> LeaseHook:
        """The lease of the canary on it."""
        address = self.address
        return LeaseHook(address.inference_service, address.namespace, self._connections.kubernetes)

    def make_metrics(self) -> MetricsSource:
        """Return the source of the judge's numbers."""
        return metrics_source(self.release_run.spec, self._connections.metrics)


def record_of(store: ModelStoreHook, release_run: ReleaseRun) -> ReleaseRecord:
    """Return the record in which a release run writes."""
    version = release_run.recorded_under or release_run.version
    return ReleaseRecord(store, release_run.model, version, release_run.release_id)


# --- for what is not a release's step ---


def make_store(
    bucket: str, spec: ReleaseSpec, aws_conn_id: str, *, answer_limit_s: float | None = None
) -> ModelStoreHook:
    """Return the bucket, encrypted as the release file says."""
    return ModelStoreHook(
        bucket, aws_conn_id, encryption=spec.publish.encryption, answer_limit_s=answer_limit_s
    )


def make_outbox(bucket: str, spec: ReleaseSpec, aws_conn_id: str) -> Outbox:
    """Return where notices about the release file's model go."""
    return Outbox(
        lambda: make_store(bucket, spec, aws_conn_id, answer_limit_s=ANSWER_LIMIT_S), rules_of(spec)
    )


def make_service(address: ServiceAddress, kubernetes_conn_id: str) -> KServeHook:
    """Return the InferenceService that a release file names, or whoever else knows where it is."""
    return KServeHook(address.inference_service, address.namespace, kubernetes_conn_id)


def make_lease(address: ServiceAddress, kubernetes_conn_id: str) -> LeaseHook:
    """Return the lease of the canary on it."""
    return LeaseHook(address.inference_service, address.namespace, kubernetes_conn_id)

"""The whole demo while it runs: the cluster, Airflow on this machine, and the ways between them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipway_sandbox.demo.airflow_client import AirflowClient
from slipway_sandbox.demo.traffic import TrafficClient
from slipway_sandbox.host.ports import LOOPBACK
from slipway_sandbox.host.progress import Steps
from slipway_sandbox.host.settings import SandboxSettings, object_store_environment
from tests.support.cluster_demo.cluster import GATEWAY_PORT, ServingCluster, serving_cluster
from tests.support.cluster_demo.counting import start_prometheus
from tests.support.cluster_demo.guarding import install_guard
from tests.support.cluster_demo.tenancy import PODS, lead_to_s3, make_namespaces, release_parts
from tests.support.conformance.knative import DOMAIN
from tests.support.conformance.release.airflow import MODEL, running_airflow
from tests.support.conformance.release.airflow import NAMESPACE as MODELS
from tests.support.conformance.rollouts import ServiceRollouts
from tests.support.containers.node.enclosure import GATEWAY
from tests.support.containers.node.runtime_programs import RuntimePrograms

# Parts of the sandbox that are real here.
LEFT_OUT = ("cluster", "guard", "router")
# In Knative mode a pod has one port, and it is HTTP's.
PROTOCOLS = ("http",)
ROLLOUT: Mapping[str, Any] = {
    "steps": [{"weight": 20, "bake_s": 8}, {"weight": 50, "bake_s": 8}, {"weight": 99, "bake_s": 4}],
    "window_s": 3,
    "max_bake_s": 120,
    "ready_timeout_s": 300,
    "lease_s": 60,
    # One sample a second: whoever asks must not take the last one for old at once.
    "metrics": {"source": "prometheus", "queries": "knative_otel", "staleness_s": 10, "lookback_s": 60},
}


@dataclass(frozen=True)
class RunningDemo:
    """A cluster on which releases can be made, and what clients need."""

    cluster: ServingCluster
    settings: SandboxSettings
    rolled_out: ServiceRollouts

    @property
    def host(self) -> str:
        """The name by which users ask for the model."""
        return f"{MODEL}-predictor.{MODELS}.{DOMAIN}"

    def airflow(self) -> AirflowClient:
        """Return Airflow's REST API."""
        settings = self.settings
        return AirflowClient(settings.airflow_url, settings.airflow_user, settings.airflow_password)

    def clients(self, rate_rps: float, output: Path) -> TrafficClient:
        """Return clients that ask through the gateway all the time; a context manager."""
        return TrafficClient(
            port=self.settings.ports.ingress,
            authority=self.host,
            model=MODEL,
            rate_rps=rate_rps,
            output=output,
            sandbox_root=self.settings.root,
            protocols=PROTOCOLS,
        )


@contextmanager
def running_demo(folder: Path, programs: RuntimePrograms, steps: Steps) -> Iterator[RunningDemo]:
    """Start all of it, and end it with the context.

    :param folder: gets what the cluster keeps, and logs.
    :param programs: what runs containers.
    """
    with ExitStack() as stack:
        cluster = stack.enter_context(serving_cluster(folder / "node", programs, steps))
        rolled_out = make_namespaces(cluster.administered)
        stack.callback(rolled_out.close)
        with steps.step("Prometheus counts what the queue proxies count"):
            metrics_port = start_prometheus(cluster.node, cluster.administered)

        def ways(settings: SandboxSettings) -> dict[str, str]:
            """Lead clients to the gateway, and pods to S3 and staging; return Airflow's connections."""
            cluster.node.relay(GATEWAY_PORT, cluster.gateway(), (LOOPBACK, settings.ports.ingress))
            ports = settings.ports
            s3, http, grpc = map(
                cluster.node.relay, (ports.object_store, ports.staging_http, ports.staging_grpc)
            )
            variables = object_store_environment(settings)
            lead_to_s3(cluster.administered, rolled_out, s3.address, variables)
            return _connections(settings, metrics_port, http.port, grpc.port)

        logs = folder / "logs"
        shutil.rmtree(logs, ignore_errors=True)
        with steps.step("Airflow, S3 and the staging server are ready"):
            settings = stack.enter_context(
                running_airflow(
                    rolled_out.kubeconfig, logs, release_parts(ROLLOUT), left_out=LEFT_OUT, environment=ways
                )
            )
        install_guard(cluster)
        yield RunningDemo(cluster, settings, rolled_out)


def _connections(settings: SandboxSettings, metrics: int, http: int, grpc: int) -> dict[str, str]:
    staging = {"conn_type": "generic", "host": GATEWAY, "port": http, "extra": {"grpc_port": grpc}}
    kubernetes = {"kube_config_path": str(settings.kubeconfig), "namespace": PODS}
    connections = {
        "KUBERNETES_DEFAULT": {"conn_type": "kubernetes", "extra": kubernetes},
        "TRITON_STAGING": staging,
        "SLIPWAY_METRICS": {"conn_type": "http", "host": LOOPBACK, "port": metrics, "schema": "http"},
    }
    return {f"AIRFLOW_CONN_{name}": json.dumps(value) for name, value in connections.items()}

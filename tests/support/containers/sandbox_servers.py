"""The sandbox without its Airflow, reached from containers: S3, SQS, cluster, router and staging Triton.

Its servers listen on loopback only. Containers meet the machine at their network's gateway, whose ports are led to
loopback by rules of the packet filter, which end with the test.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from slipway_sandbox import lifecycle
from slipway_sandbox.host.ports import FREE_PORT_RANGE, LOOPBACK
from slipway_sandbox.host.settings import SandboxSettings, connection_environment
from slipway_sandbox.host.supervise import Supervisor, start_supervisor
from slipway_sandbox.services import airflow

START_LIMIT_S = 180.0
KUBECONFIG = "/opt/airflow/kubeconfig"


@contextmanager
def servers_without_airflow(root: Path) -> Iterator[SandboxSettings]:
    """Start what a release talks to; end it with the context."""
    settings = SandboxSettings.prepare(root)
    lifecycle.lay_out(settings)
    programs = [one for one in lifecycle.programs(settings) if not one.name.startswith("airflow-")]
    start_supervisor(settings, programs, airflow.airflow_environment(settings))
    supervisor, checks = Supervisor(settings), lifecycle.program_checks(settings)
    limit = time.monotonic() + START_LIMIT_S

    def wait(*names: str) -> None:
        for name in names:
            while not checks[name]():
                assert time.monotonic() < limit, f"{name} is not ready; logs: {settings.log_dir}"
                time.sleep(0.5)

    try:
        wait("object store", "router")
        supervisor.start("cluster")
        supervisor.start("staging-triton")
        wait("cluster")
        supervisor.start("guard")
        wait("guard", "staging Triton")
        yield settings
    finally:
        lifecycle.down(root)


def container_environment(settings: SandboxSettings, gateway: str) -> dict[str, str]:
    """Return Airflow's connections and variables as containers reach the sandbox."""
    environment = {
        name: value if name == "AIRFLOW_CONN_SLIPWAY_MIRROR" else value.replace(LOOPBACK, gateway)
        for name, value in connection_environment(settings).items()
    }
    kubernetes = {"conn_type": "kubernetes", "extra": {"kube_config_path": KUBECONFIG}}
    return environment | {"AIRFLOW_CONN_KUBERNETES_DEFAULT": json.dumps(kubernetes)}


def container_kubeconfig(settings: SandboxSettings, gateway: str) -> str:
    """Return the kubeconfig as containers reach the cluster."""
    return settings.kubeconfig.read_text(encoding="utf-8").replace(LOOPBACK, gateway)


def rules(bridge: str, gateway: str) -> list[list[str]]:
    """Return the rules that lead the sandbox's ports at the gateway to loopback, for containers and for pods here."""
    ports = f"{FREE_PORT_RANGE.start}:{FREE_PORT_RANGE.stop}"
    led = ["-d", gateway, "-p", "tcp", "--dport", ports, "-j", "DNAT", "--to-destination", LOOPBACK]
    return [["PREROUTING", "-i", bridge, *led], ["OUTPUT", *led]]


@contextmanager
def led_to_loopback(bridge: str, gateway: str) -> Iterator[None]:
    """Let containers of a bridge reach the servers on loopback by the gateway's address, while the context lasts."""
    subprocess.run(["sysctl", "-qw", f"net.ipv4.conf.{bridge}.route_localnet=1"], check=True, timeout=20)
    made = []
    try:
        for rule in rules(bridge, gateway):
            _iptables("-A", rule)
            made.append(rule)
        yield
    finally:
        for rule in made:
            _iptables("-D", rule)


def _iptables(action: str, rule: list[str]) -> None:
    subprocess.run(["iptables", "-t", "nat", action, *rule], check=True, capture_output=True, timeout=20)


def env_file(values: Mapping[str, str]) -> str:
    """Return the text of a `.env`; quoted, so that Compose takes every character as it is."""
    return "".join(f"{name}='{value}'\n" for name, value in values.items())

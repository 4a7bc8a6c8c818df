"""The real scheduler, for tests that say on which node a pod must be: by default pods are bound by hand."""

from __future__ import annotations

from pathlib import Path

from slipway_sandbox.host.ports import LOOPBACK, free_port
from tests.support.conformance.api import Api
from tests.support.conformance.control_plane import ADMIN, ControlPlane
from tests.support.conformance.processes import Processes


def start_scheduler(program: Path, processes: Processes, plane: ControlPlane) -> None:
    """Start the scheduler, which binds pods to nodes."""
    port, kubeconfig, files = free_port(), plane.kubeconfig(ADMIN), plane.certificates
    there = Api(f"https://{LOOPBACK}:{port}", plane.tokens[ADMIN], files.authority)
    processes.start(
        "kube-scheduler",
        program,
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--leader-elect=false",
        f"--secure-port={port}",
        f"--bind-address={LOOPBACK}",
        f"--tls-cert-file={files.certificate}",
        f"--tls-private-key-file={files.key}",
        ready=lambda: there.ask("GET", "/healthz").code == 200,
    )

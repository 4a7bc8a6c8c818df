"""An Airflow of the lane's own, with the real scheduler, over the sandbox's object store, staging server and Envoy.

Its cluster is the real API: there is no emulator among the programs. Its connection to the cluster has the rights of
docs/cluster.md and no others.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console

from slipway_sandbox import lifecycle
from slipway_sandbox.cluster.settings import NodeSettings
from slipway_sandbox.host.progress import Steps
from slipway_sandbox.host.settings import (
    PROJECT_ROOT,
    SandboxSettings,
    object_store_environment,
)
from slipway_sandbox.host.supervise import Supervisor, start_supervisor
from slipway_sandbox.services import airflow

MODEL, NAMESPACE = "digits", "models"
_LIMIT_S = 900.0
_NEVER = "0 0 29 2 *"
# Parts of the sandbox that the lane has in truth.
_NOT_HERE = ("cluster", "guard")


def release_file(folder: Path, parts: Mapping[str, Mapping[str, Any]]) -> None:
    """Write the project's own release file of the demo's model, for KServe's Knative mode.

    :param parts: what differs in parts of it, by their names.
    """
    found: dict[str, Any] = yaml.safe_load((PROJECT_ROOT / "include/releases/digits.yaml").read_text())
    # Everything shares one machine here, which says nothing about the model's speed.
    found["benchmark"] |= {"slo": {"p99_ms": 10_000}, "max_regression_percent": 1000, "requests": 60}
    found["rollout"] |= {"namespace": NAMESPACE, "deployment_mode": "Knative"}
    for name, changed in parts.items():
        found.setdefault(name, {}).update(changed)
    folder.mkdir(parents=True)
    (folder / f"{MODEL}.yaml").write_text(yaml.safe_dump(found), encoding="utf-8")


def node_settings(settings: SandboxSettings) -> NodeSettings:
    """Return what the node that runs this Airflow's pods is made of."""
    return NodeSettings(
        state_dir=settings.run_dir / "node",
        images_dir=settings.images_dir,
        pod_scripts_dir=PROJECT_ROOT / "include" / "pod_scripts",
        environment=object_store_environment(settings),
        name="by-processes",
    )


@contextmanager
def running_airflow(
    kubeconfig: Path,
    logs: Path,
    parts: Mapping[str, Mapping[str, Any]],
    *,
    left_out: Collection[str] = _NOT_HERE,
    environment: Callable[[SandboxSettings], Mapping[str, str]] = lambda settings: {},
) -> Iterator[SandboxSettings]:
    """Have Airflow and what it needs beside the cluster while the block runs.

    :param kubeconfig: of the account that releases have.
    :param logs: gets the logs of a block that failed.
    :param parts: what differs in parts of the release file.
    :param left_out: programs of the sandbox that are not started.
    :param environment: returns what differs in Airflow's variables, once ports are chosen and nothing has started.
    """
    # The path of a Unix socket is short.
    root = Path(tempfile.mkdtemp(prefix="slipway-"))
    settings = SandboxSettings.prepare(root)
    quiet = Steps(Console(quiet=True))
    try:
        release_file(root / "releases", parts)
        lifecycle.lay_out(settings)
        airflow.write_home(settings, PROJECT_ROOT / "dags")
        shutil.copyfile(kubeconfig, settings.kubeconfig)
        settings.kubeconfig.chmod(0o600)
        own = {"SLIPWAY_RELEASES_DIR": str(root / "releases"), "SLIPWAY_SWEEP_CRON": _NEVER}
        _start(settings, left_out, own | dict(environment(settings)))
        yield settings
    except BaseException:
        lifecycle.down(root, quiet)
        shutil.copytree(settings.run_dir / "logs", logs, dirs_exist_ok=True)
        raise
    finally:
        lifecycle.down(root, quiet)
        shutil.rmtree(root, ignore_errors=True)


def _start(settings: SandboxSettings, left_out: Collection[str], own: dict[str, str]) -> None:
    programs = [one for one in lifecycle.programs(settings) if one.name not in left_out]
    start_supervisor(settings, programs, airflow.airflow_environment(settings) | own)
    checks = lifecycle.program_checks(settings)
    _wait(settings, checks["object store"], "the object store")
    if "router" not in left_out:
        _wait(settings, checks["router"], "Envoy")
    Supervisor(settings).start("staging-triton")
    _wait(settings, checks["staging Triton"], "the staging server")
    _wait(settings, checks["Airflow"], "Airflow")


def _wait(settings: SandboxSettings, is_ready: Any, what: str) -> None:
    deadline = time.monotonic() + _LIMIT_S
    while not is_ready():
        if time.monotonic() > deadline:
            states = ", ".join(f"{one.name} {one.state}" for one in Supervisor(settings).states())
            raise TimeoutError(f"{what} is not ready after {_LIMIT_S:.0f} s: {states}")
        time.sleep(0.5)

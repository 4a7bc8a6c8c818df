"""A model that two more servers serve beside the cluster: each of its versions comes to both, or to none."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

from slipway_core.fleet.document import fleet_key
from slipway_core.fleet.parity import Parity
from slipway_core.fleet.watch import NotifiedFindings, watch_key
from slipway_sandbox.demo.airflow_client import DagRun
from slipway_sandbox.host.child_process import program_path
from slipway_sandbox.host.ports import LOOPBACK
from slipway_sandbox.host.settings import ROOT_VARIABLE
from slipway_sandbox.services.triton import TritonServer
from tests.support.e2e.fleet_servers import Answer, FleetUsers, fleet_servers, hanging, loaded, point
from tests.support.e2e.release_files import FLEET, ON_CALL
from tests.support.e2e.running_sandbox import RunningSandbox, finished

FLEET_DAG, WATCH_DAG = "fleet_release", "fleet_watch"
LEFT, RIGHT = "e2e_fleet_left", "e2e_fleet_right"
# `e2e_fleet_right` hangs for less than this, while the run is stopped.
UNREACHABLE_S = 120.0
_STATUS_LIMIT_S = 120.0
# Of another story's release, and of what that story does before it.
_LIMIT_S = 600.0
# The exit codes with which the command tells what the servers serve: they agree, or they differ.
_TOLD = (0, 1)
_FAILED = ("up_for_retry", "failed")


@dataclass(frozen=True)
class FleetRun:
    """A run that has ended, and what the servers have then.

    :param tasks: the state of each task.
    :param parity: what `slipway fleet status` tells, and its exit code.
    :param loaded: the names that are ready, by server.
    """

    run: DagRun
    note: str
    tasks: Mapping[str, str | None]
    parity: Parity
    code: int
    loaded: Mapping[str, set[str]]


@dataclass(frozen=True)
class FleetStory:
    """Version 1 comes to both servers; 2, which was taken back in its canary, to none; then 3, while users ask.

    `stopped` is a run that shall bring 1 again. A person marks it as failed when one server has loaded it and the other
    one hangs.

    :param notified: findings of `fleet_watch`, when one server serves 1 without a release.
    :param led_back: the run of `fleet_watch` that finds the same, and the stopped release still open in the bucket.
    """

    first: FleetRun
    refused: FleetRun
    third: FleetRun
    stopped: FleetRun
    answers: list[Answer]
    notified: NotifiedFindings
    led_back: FleetRun


def fleet_story(sandbox: RunningSandbox) -> FleetStory:
    """The model into whose canary a person reaches, on two servers of its own."""
    prefix = f"fleets/{FLEET}/repository"
    # To Triton an empty prefix is no repository.
    sandbox.s3.put_object(Bucket=sandbox.settings.bucket, Key=f"{prefix}/.keep", Body=b"")
    sandbox.await_event(ON_CALL, 1, "release_finished", limit_s=_LIMIT_S)
    with fleet_servers(sandbox.settings, (LEFT, RIGHT), prefix) as servers:
        for name, server in servers.items():
            sandbox.airflow.make_connection(
                name,
                conn_type="triton",
                host=LOOPBACK,
                port=server.ports.http,
                extra=json.dumps({"grpc_port": server.ports.grpc}),
            )
        first = _released(sandbox, servers, 1)
        sandbox.await_event(ON_CALL, 2, "release_finished", limit_s=_LIMIT_S)
        refused = _released(sandbox, servers, 2)
        sandbox.await_event(ON_CALL, 3, "release_finished", limit_s=_LIMIT_S)
        ports = {name: server.ports.http for name, server in servers.items()}
        with FleetUsers(ON_CALL, ports) as users:
            third = _released(sandbox, servers, 3)
            stopped, left_open = _stopped(sandbox, servers, 1)
        point(servers[LEFT], ON_CALL, 1)
        notified = _notified(sandbox)
        sandbox.s3.put_object(Bucket=sandbox.settings.bucket, Key=fleet_key(FLEET), Body=left_open)
        run_id = sandbox.airflow.start_run(WATCH_DAG, {}).run_id
        led_back = _ended(sandbox, servers, run_id, WATCH_DAG)
        return FleetStory(first, refused, third, stopped, users.answers, notified, led_back)


def _released(sandbox: RunningSandbox, servers: Mapping[str, TritonServer], version: int) -> FleetRun:
    run_id = sandbox.airflow.start_run(FLEET_DAG, {"fleet": FLEET, "version": version}).run_id
    return _ended(sandbox, servers, run_id)


def _stopped(
    sandbox: RunningSandbox, servers: Mapping[str, TritonServer], version: int
) -> tuple[FleetRun, bytes]:
    """Mark a run as failed when one server has loaded the version and waits for the other one.

    :returns: also the fleet's document of that moment.
    """
    name = f"{ON_CALL}_v{version}"
    with hanging(servers[RIGHT]):
        run_id = sandbox.airflow.start_run(FLEET_DAG, {"fleet": FLEET, "version": version}).run_id
        sandbox.wait(lambda: name in loaded(servers[LEFT]) or None, f"{run_id} has begun to load")
        left_open = sandbox.read(fleet_key(FLEET))
        sandbox.airflow.mark_failed(FLEET_DAG, run_id)
    return _ended(sandbox, servers, run_id), left_open


def _notified(sandbox: RunningSandbox) -> NotifiedFindings:
    """Have the fleet watched; return the findings after the first try has failed; nothing waits for the second."""
    run_id = sandbox.airflow.start_run(WATCH_DAG, {}).run_id

    def failed() -> bool | None:
        tasks = sandbox.airflow.task_runs(WATCH_DAG, run_id)
        return any(one.task_id == "watch" and one.state in _FAILED for one in tasks) or None

    sandbox.wait(failed, f"{run_id} finds a server that differs")
    sandbox.airflow.mark_failed(WATCH_DAG, run_id)
    return NotifiedFindings.from_bytes(sandbox.read(watch_key(FLEET)))


def _ended(
    sandbox: RunningSandbox, servers: Mapping[str, TritonServer], run_id: str, dag_id: str = FLEET_DAG
) -> FleetRun:
    run = sandbox.wait(lambda: finished(sandbox.airflow.run(dag_id, run_id)), f"{run_id} ends")
    sandbox.wait(lambda: sandbox.is_quiet(run_id, dag_id), f"every task of {run_id} ends")
    code, parity = sandbox.wait(lambda: _status(sandbox), "the servers are asked")
    return FleetRun(
        run=run,
        note=sandbox.airflow.note(dag_id, run_id),
        tasks={one.task_id: one.state for one in sandbox.airflow.task_runs(dag_id, run_id)},
        parity=parity,
        code=code,
        loaded={name: loaded(server) for name, server in servers.items()},
    )


def _status(sandbox: RunningSandbox) -> tuple[int, Parity] | None:
    """Ask as a person does; return the command's exit code, and what it printed. None: nobody could tell now."""
    command = [program_path("slipway"), "fleet", "status", FLEET, "-o", "json"]
    answer = subprocess.run(
        command,
        env={**os.environ, ROOT_VARIABLE: str(sandbox.settings.root)},
        capture_output=True,
        text=True,
        timeout=_STATUS_LIMIT_S,
        check=False,
    )
    if answer.returncode not in _TOLD:
        return None
    document = json.loads(answer.stdout)
    document.pop("agree")
    return answer.returncode, Parity.model_validate(document)

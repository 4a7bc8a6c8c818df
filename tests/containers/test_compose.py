"""docker-compose.yaml on a real Docker Engine: Celery with two workers, PostgreSQL, Redis, the sandbox's servers.

Two versions are released by the events of the bucket. While the first is converted, the worker that does it is killed.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass

import httpx
import pytest

from slipway_sandbox.host.settings import SandboxSettings
from tests.support.containers.compose_project import BRIDGE, GATEWAY, USER, ComposeProject
from tests.support.containers.docker_engine import DockerEngine, docker_engine
from tests.support.containers.engine import Engine, NoEngineError, containers_dir
from tests.support.containers.ledger import Ledger
from tests.support.containers.sandbox_servers import led_to_loopback, servers_without_airflow
from tests.support.containers.stand_in_services import provide_compose_images
from tests.support.e2e.airflow import Airflow
from tests.support.e2e.running_sandbox import RELEASE_DAG, RunningSandbox
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(3600)

COMMIT = "0123456789abcdef0123456789abcdef01234567"
MODEL, CONVERT = "digits", "prepare.convert"
RELEASE_LIMIT_S = 1200.0
# Airflow gives a killed worker's task up after 60 s without a heartbeat, and looks every 10 s.
NOTICE_LIMIT_S = 180.0
WORKERS = 2
PAGES = (
    "/",
    f"/models/{MODEL}",
    f"/models/{MODEL}/versions/1",
    f"/evidence/{MODEL}/1/",
    "/approvals",
    "/calendar",
    "/audit",
    "/metrics",
    f"/api/models/{MODEL}",
    f"/api/landed/{MODEL}",
)
PAGE_LIMIT_S = 60.0


@dataclass(frozen=True)
class Running:
    """Everything that is up."""

    project: ComposeProject
    sandbox: RunningSandbox


@pytest.fixture(scope="module")
def docker(ledger: Ledger) -> Iterator[DockerEngine]:
    """A Docker Engine with Compose."""
    try:
        with docker_engine(containers_dir()) as found:
            ledger.notes.append(found.version())
            yield found
    except NoEngineError as error:
        pytest.exit(str(error), returncode=3)


@pytest.fixture(scope="module")
def servers() -> Iterator[SandboxSettings]:
    """What a release talks to, in a sandbox of its own."""
    root = containers_dir() / "sandbox"
    shutil.rmtree(root, ignore_errors=True)
    with servers_without_airflow(root) as settings:
        yield settings


@pytest.fixture(scope="module")
def running(
    docker: DockerEngine, engine: Engine, servers: SandboxSettings, ledger: Ledger
) -> Iterator[Running]:
    """The compose file, up with two workers."""
    images = provide_compose_images(docker, engine, containers_dir())
    folder = containers_dir() / "project"
    shutil.rmtree(folder, ignore_errors=True)
    project = ComposeProject.prepare(docker, folder, servers, images=images, commit=COMMIT)
    try:
        ledger.notes.append("images: stand-ins, made from Debian's and this project's packages")
        ledger.notes.append(f"postgres and redis healthy after {project.up('postgres', 'redis'):.0f} s")
        with led_to_loopback(BRIDGE, GATEWAY):
            seconds = project.up("--scale", f"worker={WORKERS}")
            ledger.notes.append(f"all services healthy, {WORKERS} workers, after {seconds:.0f} s")
            sandbox = RunningSandbox(servers)
            sandbox.airflow = Airflow(servers.airflow_url, USER, project.password)
            yield Running(project, sandbox)
    finally:
        _keep_logs(project)
        project.down()


def _keep_logs(project: ComposeProject) -> None:
    """Write what the services have said beside the project, for whoever looks after a failure."""
    (project.folder / "services.log").write_text(project.logs())


def release(running: Running, version: int) -> str:
    """Land a version that starts by itself; return the id of the run that the event has started."""
    running.sandbox.land(MODEL, version, start="automatic")
    run_id = running.sandbox.run_id(MODEL, version)
    running.sandbox.wait(lambda: running.sandbox.run(run_id), f"the event starts {run_id}", RELEASE_LIMIT_S)
    return run_id


@dataclass(frozen=True)
class AtWork:
    """A task: the host that runs it now, or nothing, and how often it was tried."""

    host: str | None
    tries: int


def at_work(running: Running, run_id: str, task_id: str) -> AtWork:
    """Return where a task runs now."""
    airflow = running.sandbox.airflow
    found = airflow.ask(airflow.tasks.get_task_instances, RELEASE_DAG, run_id, limit=100)
    one = next((one for one in found.task_instances if one.task_id == task_id), None)
    if one is None:
        return AtWork(None, 0)
    is_running = one.state is not None and one.state.value == "running"
    return AtWork(one.hostname or None if is_running else None, one.try_number)


def test_compose_reads_the_file_as_it_is_meant(running: Running) -> None:
    """Anchors, defaults and doubled dollar signs become what the services are to get."""
    services = running.project.configuration()["services"]
    assert {name for name, service in services.items() if "build" in service} == {"init"}
    assert services["worker"]["environment"]["AIRFLOW__CELERY__WORKER_CONCURRENCY"] == "4"
    assert services["worker"]["environment"]["SLIPWAY_COMMIT"] == COMMIT
    assert services["worker"]["stop_grace_period"] == "2m0s"
    assert services["redis"]["user"] == "redis"


def test_a_database_is_healthy_only_when_it_can_be_used(running: Running) -> None:
    """Whoever comes after PostgreSQL's health check finds the database by its name and password."""
    asked = running.project.compose(
        "exec", "-T", "postgres", "psql", "-U", "airflow", "-d", "airflow", "-Atc", "select count(*) from dag"
    )
    assert int(asked) >= 0


def test_nothing_runs_as_root_but_what_its_image_starts_so(running: Running) -> None:
    """Airflow's processes and Redis belong to users of their own."""
    for service in ("redis", "worker", "scheduler", "triggerer"):
        listed = running.project.compose("exec", "-T", service, "sh", "-c", "stat -c %u /proc/1")
        assert int(listed) != 0, service


def test_a_killed_worker_costs_a_release_nothing_but_time(running: Running, ledger: Ledger) -> None:
    """Version 1 is released by an event. The worker that converts it is killed: it is done again, and goes live.

    Its manifest says which commit of the project published it.
    """
    began, sandbox = time.monotonic(), running.sandbox
    run_id = release(running, 1)
    host = sandbox.wait(lambda: at_work(running, run_id, CONVERT).host, "version 1 is converted", 600)
    killed = next(one for one in running.project.containers("worker") if one.startswith(host))
    running.project.kill(killed)
    killed_at = time.monotonic()
    wait_until(
        lambda: at_work(running, run_id, CONVERT).host is None,
        "the loss is noticed",
        NOTICE_LIMIT_S,
        poll_s=1,
    )
    noticed_s = time.monotonic() - killed_at
    ended = sandbox.ended(MODEL, 1, run_id, RELEASE_LIMIT_S)
    assert ended.state.outcome == "promoted", ended.report
    assert at_work(running, run_id, CONVERT).tries == 2
    assert COMMIT in sandbox.read(f"models/{MODEL}/1/manifest.json").decode()
    ledger.notes.append(
        f"version 1 by an event, the worker that converted it killed by SIGKILL: noticed after {noticed_s:.0f} s, "
        f"promoted in {time.monotonic() - began:.0f} s"
    )


def test_the_pages_are_for_those_whom_airflow_lets_in(running: Running, ledger: Ledger) -> None:
    """The pages are served to FAB's users: a viewer reads all but the audit, a user without a role nothing."""
    pages = f"{running.sandbox.settings.airflow_url}/slipway"
    for name, role in (("reader", "Viewer"), ("nobody", "Public")):
        running.project.make_user(name, role)
    stranger = httpx.get(f"{pages}/", timeout=PAGE_LIMIT_S)
    assert stranger.status_code == 303
    assert "/login" in stranger.headers["location"]
    refused = httpx.get(f"{pages}/", headers=running.project.credentials("nobody"), timeout=PAGE_LIMIT_S)
    assert (refused.status_code, "You may not read" in refused.text) == (403, True)
    for person in (USER, "reader"):
        for page in PAGES:
            answer = httpx.get(
                f"{pages}{page}", headers=running.project.credentials(person), timeout=PAGE_LIMIT_S
            )
            # FAB's own role Viewer has no right to the audit log.
            expected = 403 if (person, page) == ("reader", "/audit") else 200
            assert answer.status_code == expected, (person, page, answer.text[-2000:])
    overview = httpx.get(f"{pages}/", headers=running.project.credentials(USER), timeout=PAGE_LIMIT_S)
    assert MODEL in overview.text
    ledger.notes.append(
        f"{len(PAGES)} pages served to an admin and a viewer of FAB; a user without rights refused"
    )


def test_a_version_is_released_under_traffic(running: Running, ledger: Ledger) -> None:
    """Version 2 is released by an event, through its canary, while clients ask; no request fails."""
    began, sandbox = time.monotonic(), running.sandbox
    with sandbox.traffic(MODEL, 20) as clients:
        sandbox.await_answers(clients)
        run_id = release(running, 2)
        ended = sandbox.ended(MODEL, 2, run_id, RELEASE_LIMIT_S)
        counted = clients.traffic()
    assert ended.state.outcome == "promoted", ended.report
    assert not counted.failures
    ledger.notes.append(
        f"version 2 by an event, under traffic: promoted in {time.monotonic() - began:.0f} s, none of "
        f"{counted.last.requests} requests failed"
    )

from __future__ import annotations

import configparser
import os
import shlex
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from slipway_sandbox import lifecycle
from slipway_sandbox.host.processes import SessionRecord, end_processes, find_sandbox_processes
from slipway_sandbox.host.settings import MARKER, SandboxSettings
from slipway_sandbox.host.supervise import (
    GROUP,
    Program,
    Supervisor,
    SupervisorError,
    configuration,
    socket_path,
)
from slipway_sandbox.services.airflow import configuration as airflow_configuration
from tests.support.waiting import wait_until

SLEEP = "import time; time.sleep(300)"


@pytest.fixture
def settings(tmp_path: Path) -> SandboxSettings:
    return SandboxSettings.prepare(tmp_path, {})


def parsed(text: str) -> configparser.RawConfigParser:
    parser = configparser.RawConfigParser(inline_comment_prefixes=(";",))
    parser.read_string(text)
    return parser


def test_arguments_reach_a_program_as_they_are(settings: SandboxSettings) -> None:
    """Blanks, quotes, percent signs and backslashes in an argument survive the supervisor's configuration."""
    argv = ("/bin/program", "two words", 'a "quote"', "50%", "back\\slash", "s3://http://127.0.0.1:1/b")
    found = parsed(configuration(settings, [Program("one", argv)])).get("program:one", "command")
    assert tuple(shlex.split(found.replace("%%", "%"))) == argv


def test_all_programs_are_of_one_group_and_end_with_their_children(settings: SandboxSettings) -> None:
    """Programs stop together, each with its whole process group."""
    programs = lifecycle.programs(settings)
    config = parsed(configuration(settings, programs))
    assert config.get(f"group:{GROUP}", "programs").split(",") == [one.name for one in programs]
    for one in programs:
        assert config.get(f"program:{one.name}", "stopasgroup") == "true"
        assert config.get(f"program:{one.name}", "killasgroup") == "true"


def test_no_secret_is_in_a_command_line_or_in_the_configuration(settings: SandboxSettings) -> None:
    """What everybody can see by `ps` holds no secret, and neither does the supervisor's file."""
    text = configuration(settings, lifecycle.programs(settings))
    for secret in vars(settings.secrets).values():
        assert secret not in text


def test_every_server_is_told_to_listen_on_loopback(settings: SandboxSettings) -> None:
    """Airflow's configuration and the cluster's name 127.0.0.1 and nothing else."""
    options = airflow_configuration(settings, Path("/dags"))
    assert options["api"]["host"] == "127.0.0.1"
    assert options["core"]["execution_api_server_url"] == f"{settings.airflow_url}/execution/"
    assert lifecycle.cluster_configuration(settings)["host"] == "127.0.0.1"


def test_a_busy_machine_does_not_lose_a_dag(settings: SandboxSettings) -> None:
    """Importing the DAGs may take minutes before Airflow calls it an error, and the process is given longer still."""
    options = airflow_configuration(settings, Path("/dags"))
    limit_s = int(options["core"]["dagbag_import_timeout"])
    assert 120 <= limit_s < int(options["dag_processor"]["dag_file_processor_timeout"])


def test_the_socket_fits_however_deep_the_project_lies(tmp_path: Path) -> None:
    """A Unix socket's path is limited: a deep folder gets a short one elsewhere, its own for each sandbox."""
    deep = [SandboxSettings.prepare(tmp_path / ("d" * 100) / name, {}) for name in ("a", "b")]
    paths = [socket_path(one) for one in deep]
    assert all(len(str(path)) <= 90 for path in paths)
    assert paths[0] != paths[1]


def test_a_supervisor_that_is_not_there_is_an_error_with_a_remedy(settings: SandboxSettings) -> None:
    """Asking a sandbox that is down says how to start it."""
    assert not Supervisor(settings).is_alive()
    with pytest.raises(SupervisorError, match="make up"):
        Supervisor(settings).states()


def test_processes_are_found_by_their_marker_and_ended_with_their_children(tmp_path: Path) -> None:
    """A process whose environment names the sandbox is found with its children.

    One of another sandbox is not.
    """
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {SLEEP!r}], env={{}})"
    ours = subprocess.Popen([sys.executable, "-c", parent], env={**os.environ, MARKER: str(tmp_path)})
    other = subprocess.Popen([sys.executable, "-c", SLEEP], env={**os.environ, MARKER: f"{tmp_path}-2"})
    try:
        wait_until(lambda: len(psutil.Process(ours.pid).children()) == 1)
        found = find_sandbox_processes(tmp_path, None)
        assert {one.pid for one in found} == {ours.pid, *(c.pid for c in psutil.Process(ours.pid).children())}
        assert end_processes(found) == []
        assert find_sandbox_processes(tmp_path, None) == []
        assert other.poll() is None
    finally:
        for process in (ours, other):
            process.kill()
            process.wait()


def test_a_process_that_ignores_being_asked_is_killed(tmp_path: Path) -> None:
    """What does not end when asked is killed after the grace time."""
    stubborn = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); {SLEEP}"
    with subprocess.Popen(
        [sys.executable, "-c", stubborn], stdout=subprocess.PIPE, env={**os.environ, MARKER: str(tmp_path)}
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert end_processes(find_sandbox_processes(tmp_path, None), grace_s=0.3) == []
        assert find_sandbox_processes(tmp_path, None) == []


def test_members_of_the_recorded_session_are_found_after_their_leader_is_gone(tmp_path: Path) -> None:
    """A process without the marker is found by its session, also when the session's leader was killed."""
    leader_code = (
        f"import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', {SLEEP!r}], env={{}});"
        " print(p.pid, flush=True); p.wait()"
    )
    leader = subprocess.Popen(
        [sys.executable, "-c", leader_code], stdout=subprocess.PIPE, start_new_session=True, env={}
    )
    assert leader.stdout is not None
    member = int(leader.stdout.readline())
    try:
        SessionRecord.of(leader.pid).save(tmp_path / "session.json")
        leader.kill()
        leader.wait()
        record = SessionRecord.load(tmp_path / "session.json")
        found = find_sandbox_processes(tmp_path, record)
        assert [one.pid for one in found] == [member]
        assert end_processes(found) == []
    finally:
        leader.stdout.close()
        if psutil.pid_exists(member):
            os.kill(member, 9)


def test_a_session_of_another_boot_or_another_leader_is_not_ours(tmp_path: Path) -> None:
    """A record whose pid belongs to somebody else by now leads to nobody."""
    mine = SessionRecord.of(os.getpid())
    path = tmp_path / "session.json"
    SessionRecord(mine.session_id, mine.started_at, "another-boot").save(path)
    assert SessionRecord.load(path) is None
    stranger = SessionRecord(mine.session_id, mine.started_at - 100, mine.boot_id)
    assert not stranger.is_current()
    assert find_sandbox_processes(tmp_path, stranger) == []
    path.write_text("damaged")
    assert SessionRecord.load(path) is None

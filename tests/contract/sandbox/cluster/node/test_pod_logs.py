"""The logs of pods: followed, in parts, byte for byte."""

from __future__ import annotations

import re
from pathlib import Path

import psutil
import pytest
from kubernetes import client
from kubernetes.client.rest import ApiException

from tests.support.cluster.emulator import NAMESPACE, pod
from tests.support.cluster.pods import Ended, log_of
from tests.support.waiting import wait_until


def test_a_followed_log_comes_as_it_is_written_with_times(core: client.CoreV1Api, name: str) -> None:
    """Follow delivers lines while the pod still runs, each with an RFC 3339 time in nanoseconds, and ends
    with it.
    """
    command = "echo one; echo; while [ ! -e go ]; do sleep 0.05; done; printf 'last without newline'"
    core.create_namespaced_pod(NAMESPACE, pod(name, "sh", "-c", command))
    wait_until(lambda: "one" in log_of(core, name), "the first line is there")
    response = core.read_namespaced_pod_log(
        name, NAMESPACE, follow=True, timestamps=True, _preload_content=False
    )
    chunks = response.stream(amt=None)
    received = next(chunks)
    assert core.read_namespaced_pod(name, NAMESPACE).status.phase == "Running"
    (working_folder(name) / "go").touch()
    received += b"".join(chunks)
    lines = received.decode().splitlines()
    stamped = [re.fullmatch(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z) (.*)", line) for line in lines]
    assert [found[2] for found in stamped if found] == ["one", "", "last without newline"]
    times = [found[1] for found in stamped if found]
    assert times == sorted(times)


def working_folder(name: str) -> Path:
    """Where the only container of a running pod works, as its first process sees it."""
    for process in psutil.process_iter(["environ", "cwd", "cmdline"]):
        environment = process.info["environ"] or {}
        if environment.get("HOSTNAME") == name and "SLIPWAY_POD_CONTAINER" in environment:
            return Path(process.info["cwd"])
    raise AssertionError(f"no process of pod {name}")


def test_parts_of_a_log_can_be_asked_for(core: client.CoreV1Api, ended: Ended, name: str) -> None:
    """Tail, limit and since narrow a log; a container of another name is refused."""
    core.create_namespaced_pod(NAMESPACE, pod(name, "seq", "1", "5"))
    ended(name)
    assert log_of(core, name) == "1\n2\n3\n4\n5\n"
    assert log_of(core, name, tail_lines=2) == "4\n5\n"
    assert log_of(core, name, limit_bytes=3) == "1\n2"
    assert log_of(core, name, since_seconds=600) == "1\n2\n3\n4\n5\n"
    with pytest.raises(ApiException) as other:
        core.read_namespaced_pod_log(name, NAMESPACE, container="other")
    assert other.value.status == 400


def test_a_long_line_and_raw_bytes_survive_the_log(core: client.CoreV1Api, ended: Ended, name: str) -> None:
    """What a container prints comes back byte for byte, however long its lines."""
    code = r"import sys; sys.stdout.buffer.write(b'x' * 100_000 + b'\xff\r\n' + b'y' * 16384 + b'\nend')"
    core.create_namespaced_pod(NAMESPACE, pod(name, "python", "-c", code))
    ended(name)
    raw = core.read_namespaced_pod_log(name, NAMESPACE, _preload_content=False).data
    assert raw == b"x" * 100_000 + b"\xff\r\n" + b"y" * 16384 + b"\nend\n"

"""How pods end: by deadline, deletion or a killed emulator, and that nothing of them stays."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from kubernetes import client
from kubernetes.client.rest import ApiException
from kubernetes.stream import stream

from tests.support.cluster.emulator import NAMESPACE, Emulator, all_gone, pod
from tests.support.cluster.pods import FAMILY, Ended, family_of, is_gone, log_of, terminated
from tests.support.waiting import wait_until


def test_a_deadline_ends_the_pod_with_all_its_children(
    core: client.CoreV1Api, ended: Ended, name: str
) -> None:
    """After activeDeadlineSeconds and the grace nothing of the pod runs, daemonized processes included."""
    spec = {"activeDeadlineSeconds": 3, "terminationGracePeriodSeconds": 1}
    core.create_namespaced_pod(NAMESPACE, pod(name, "python", "-c", FAMILY, **spec))
    pids = family_of(core, name)
    result = ended(name)
    assert (result.status.phase, result.status.reason) == ("Failed", "DeadlineExceeded")
    assert terminated(result).exit_code == 137
    assert all_gone(pids)()


def test_deleting_a_pod_ends_it_with_all_its_children(core: client.CoreV1Api, name: str) -> None:
    """A deleted pod is marked, ends within its grace, and then is no more."""
    core.create_namespaced_pod(NAMESPACE, pod(name, "python", "-c", FAMILY))
    pids = family_of(core, name)
    marked = core.delete_namespaced_pod(name, NAMESPACE, grace_period_seconds=1)
    assert marked.metadata.deletion_timestamp is not None
    assert core.read_namespaced_pod(name, NAMESPACE).metadata.deletion_grace_period_seconds == 1
    wait_until(is_gone(core, name), "the pod is gone")
    assert all_gone(pids)()


def test_deleting_without_grace_is_immediate(core: client.CoreV1Api, name: str) -> None:
    """With a grace of 0 the object goes at once and the processes right after it."""
    core.create_namespaced_pod(NAMESPACE, pod(name, "python", "-c", FAMILY))
    pids = family_of(core, name)
    core.delete_namespaced_pod(name, NAMESPACE, grace_period_seconds=0)
    assert is_gone(core, name)()
    wait_until(all_gone(pids), "its processes are gone")


def test_a_shorter_grace_overtakes_a_longer_one(core: client.CoreV1Api, name: str) -> None:
    """A second DELETE with less patience ends a pod that is still being waited for."""
    core.create_namespaced_pod(NAMESPACE, pod(name, "python", "-c", FAMILY))
    pids = family_of(core, name)
    core.delete_namespaced_pod(name, NAMESPACE, grace_period_seconds=300)
    core.delete_namespaced_pod(name, NAMESPACE, grace_period_seconds=1)
    wait_until(is_gone(core, name), "the pod is gone")
    assert all_gone(pids)()


def test_a_pod_that_listens_to_sigterm_ends_at_once(core: client.CoreV1Api, name: str) -> None:
    """SIGTERM reaches the whole process group, so that a shell's child is ended too, long before the grace is
    over.
    """
    core.create_namespaced_pod(NAMESPACE, pod(name, "sh", "-c", "echo up; sleep 600; true"))
    wait_until(lambda: "up" in log_of(core, name), "the pod runs")
    began = time.monotonic()
    core.delete_namespaced_pod(name, NAMESPACE, grace_period_seconds=300)
    wait_until(is_gone(core, name), "the pod is gone")
    assert time.monotonic() - began < 120


def test_children_end_when_the_command_does(core: client.CoreV1Api, ended: Ended, name: str) -> None:
    """What a finished command leaves behind in the background ends with it, as in a container."""
    code = FAMILY.replace("time.sleep(600)", "sys.exit(0)")
    core.create_namespaced_pod(NAMESPACE, pod(name, "python", "-c", code))
    assert ended(name).status.phase == "Succeeded"
    pids = [int(pid) for pid in log_of(core, name).split()[1:]]
    assert len(pids) == 3
    assert all_gone(pids)()


def test_the_name_is_free_again_after_deletion(core: client.CoreV1Api, ended: Ended, name: str) -> None:
    """A pod of the same name can follow, with a log of its own."""
    for word in ("first", "second"):
        core.create_namespaced_pod(NAMESPACE, pod(name, "echo", word))
        ended(name)
        assert log_of(core, name) == f"{word}\n"
        core.delete_namespaced_pod(name, NAMESPACE)
        wait_until(is_gone(core, name), "the pod is gone")


@pytest.mark.parametrize("subresource", ["exec", "attach"])
def test_exec_is_refused_and_never_run(
    core: client.CoreV1Api, name: str, tmp_path: Path, subresource: str
) -> None:
    """A command that comes by exec or attach is 403 Forbidden and leaves no trace."""
    trace = tmp_path / "trace"
    core.create_namespaced_pod(NAMESPACE, pod(name, "sleep", "600", terminationGracePeriodSeconds=1))
    wait_until(lambda: core.read_namespaced_pod(name, NAMESPACE).status.phase == "Running", "the pod runs")
    connect = getattr(core, f"connect_get_namespaced_pod_{subresource}")
    command = {"command": ["/bin/sh", "-c", f"touch {trace}"]} if subresource == "exec" else {}
    # The client stumbles over a refused handshake, which has no body; what it stumbled over is the context.
    with pytest.raises((ApiException, AttributeError)) as refused:
        stream(connect, name, NAMESPACE, stdout=True, stderr=True, stdin=False, tty=False, **command)
    assert "403 Forbidden" in f"{refused.value} {refused.value.__context__}"
    with pytest.raises(ApiException) as plain:
        getattr(core, f"connect_post_namespaced_pod_{subresource}")(name, NAMESPACE, **command)
    assert json.loads(plain.value.body)["reason"] == "Forbidden"
    assert core.read_namespaced_pod(name, NAMESPACE).status.phase == "Running"
    core.delete_namespaced_pod(name, NAMESPACE)
    wait_until(is_gone(core, name), "the pod is gone")
    assert not trace.exists()


def test_a_killed_emulator_leaves_no_pod_process(make_emulator: Callable[..., Emulator]) -> None:
    """SIGKILL to the emulator ends every process of every pod; the next start reports the pod as lost."""
    cluster = make_emulator()
    cluster.start()
    core = client.CoreV1Api(cluster.api_client())
    core.create_namespaced_pod(NAMESPACE, pod("a", "python", "-c", FAMILY))
    pids = family_of(core, "a")
    cluster.kill()
    wait_until(all_gone(pids), "no process of the pod is left")
    cluster.start()

    def lost() -> client.V1Pod | None:
        read = core.read_namespaced_pod("a", NAMESPACE)
        return read if read.status.phase == "Failed" else None

    state = terminated(wait_until(lost, "the pod is reported as lost"))
    assert (state.exit_code, state.reason) == (137, "ContainerStatusUnknown")
    assert "family" in log_of(core, "a")


def test_a_stopped_emulator_leaves_no_pod_process(make_emulator: Callable[..., Emulator]) -> None:
    """SIGTERM ends emulator and pods with exit code 0, without waiting out the pods' own grace."""
    cluster = make_emulator()
    cluster.start()
    core = client.CoreV1Api(cluster.api_client())
    core.create_namespaced_pod(NAMESPACE, pod("a", "python", "-c", FAMILY, terminationGracePeriodSeconds=600))
    pids = family_of(core, "a")
    assert cluster.stop() == 0
    assert all_gone(pids)()


def test_a_containers_first_process_being_killed_ends_the_pod(
    core: client.CoreV1Api, ended: Ended, name: str
) -> None:
    """Even when the process that watches over a container is killed, nothing of the container goes on."""
    core.create_namespaced_pod(NAMESPACE, pod(name, "python", "-c", FAMILY))
    pids = family_of(core, name)
    first = psutil.Process(pids[0]).ppid()
    assert "container_init.py" in " ".join(psutil.Process(first).cmdline())
    os.kill(first, signal.SIGKILL)
    result = ended(name)
    assert (result.status.phase, terminated(result).exit_code) == ("Failed", 137)
    assert all_gone(pids)()


def test_two_emulators_do_not_share_their_state(make_emulator: Callable[..., Emulator]) -> None:
    """A second emulator on the same state refuses to start and says why."""
    cluster = make_emulator()
    cluster.start()
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[5] / "include")}
    second = subprocess.run(cluster.command(), env=environment, capture_output=True, text=True, timeout=120)
    assert second.returncode == 2
    assert "is in use by another emulated cluster" in second.stderr

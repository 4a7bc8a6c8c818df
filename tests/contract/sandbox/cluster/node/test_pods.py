"""Pods as local processes: what they are given, how they end, and that nothing of them stays."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from kubernetes import client, watch
from kubernetes.client.rest import ApiException
from kubernetes.stream import stream

from tests.support.cluster.emulator import (
    NAMESPACE,
    Emulator,
    all_gone,
    is_alive,
    pod,
    wait_until,
)

Ended = Callable[[str], client.V1Pod]

# A main process that ignores SIGTERM, a child, and a grandchild that has daemonized itself: sessions of their
# own all three. It prints their process ids once all of them run.
FAMILY = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen(["sleep", "600"], start_new_session=True)
reader, writer = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.write(writer, str(os.getpid()).encode())
        os.execvp("sleep", ["sleep", "600"])
    os._exit(0)
print("family", os.getpid(), child.pid, os.read(reader, 20).decode(), flush=True)
time.sleep(600)
"""


def log_of(core: client.CoreV1Api, name: str, **query: object) -> str:
    """The log of a pod as text; empty as long as its container waits to start."""
    try:
        raw = core.read_namespaced_pod_log(name, NAMESPACE, _preload_content=False, **query)
    except ApiException as error:
        if "is waiting to start" in error.body or "does not have a host" in error.body:
            return ""
        raise
    return str(raw.data.decode())


def family_of(core: client.CoreV1Api, name: str) -> list[int]:
    """The process ids that a pod running FAMILY printed."""

    def printed() -> list[int]:
        found = re.search(r"family (\d+) (\d+) (\d+)", log_of(core, name))
        return [int(pid) for pid in found.groups()] if found else []

    pids: list[int] = wait_until(printed, "the pod has started its children")
    assert all(is_alive(pid) for pid in pids)
    return pids


def terminated(ended: client.V1Pod) -> client.V1ContainerStateTerminated:
    """How the pod's first container ended."""
    return ended.status.container_statuses[0].state.terminated


def is_gone(core: client.CoreV1Api, name: str) -> Callable[[], bool]:
    """A condition: there is no such pod any more."""

    def gone() -> bool:
        try:
            core.read_namespaced_pod(name, NAMESPACE)
        except ApiException as error:
            return bool(error.status == 404)
        return False

    return gone


@pytest.mark.parametrize(
    ("code", "phase", "reason"), [(0, "Succeeded", "Completed"), (75, "Failed", "Error")]
)
def test_a_pod_ends_with_its_commands_exit_code(
    core: client.CoreV1Api, ended: Ended, name: str, code: int, phase: str, reason: str
) -> None:
    """Exit code 0 is Succeeded, any other Failed, and the container's status carries the code."""
    core.create_namespaced_pod(NAMESPACE, pod(name, "sh", "-c", f"exit {code}"))
    result = ended(name)
    assert result.status.phase == phase
    assert (terminated(result).exit_code, terminated(result).reason) == (code, reason)
    assert terminated(result).finished_at >= terminated(result).started_at


def test_a_pod_that_kills_itself_reports_the_signal(core: client.CoreV1Api, ended: Ended, name: str) -> None:
    """A command ended by signal N has exit code 128 + N."""
    # In a pod's command two dollar signs stand for one.
    core.create_namespaced_pod(NAMESPACE, pod(name, "sh", "-c", "kill -9 $$$$"))
    assert terminated(ended(name)).exit_code == 137


def test_a_watcher_sees_pending_running_and_the_end(core: client.CoreV1Api, name: str) -> None:
    """The phases come in order, each with container statuses that the official client can read."""
    core.create_namespaced_pod(NAMESPACE, pod(name, "sh", "-c", "sleep 0.2"))
    phases = []
    by_name = f"metadata.name={name}"
    for event in watch.Watch().stream(
        core.list_namespaced_pod, NAMESPACE, field_selector=by_name, timeout_seconds=20
    ):
        phase = event["object"].status.phase
        if phase not in phases:
            phases.append(phase)
        if phase == "Succeeded":
            break
    assert phases == ["Pending", "Running", "Succeeded"]
    ready = {each.type: each.status for each in core.read_namespaced_pod(name, NAMESPACE).status.conditions}
    assert ready == {
        "PodScheduled": "True",
        "Initialized": "True",
        "ContainersReady": "False",
        "Ready": "False",
    }


def test_events_tell_the_pods_story(core: client.CoreV1Api, ended: Ended, name: str) -> None:
    """Scheduling and start are told as events about the pod."""
    core.create_namespaced_pod(NAMESPACE, pod(name, "true"))
    uid = ended(name).metadata.uid
    selector = f"involvedObject.name={name},involvedObject.uid={uid}"
    events = core.list_namespaced_event(NAMESPACE, field_selector=selector).items
    assert {event.reason for event in events} == {"Scheduled", "Started"}
    assert {event.type for event in events} == {"Normal"}


def test_a_pod_has_a_clean_environment_and_a_folder_of_its_own(
    emulator: Emulator, core: client.CoreV1Api, ended: Ended, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container sees the node's credentials, its own variables and the image's programs, and nothing of the
    host's.
    """
    code = (
        "import json, os, sys; print(json.dumps([dict(os.environ), os.getcwd(), sys.argv[1:], sys.prefix]))"
    )
    body = pod(name, "python", "-c", code)
    body["spec"]["containers"][0] |= {
        "args": ["$(OWN)", "$$(OWN)", "$(UNKNOWN)", "a b"],
        "env": [
            {"name": "OWN", "value": "mine"},
            {"name": "BOTH", "value": "$(OWN)-$(AWS_REGION)"},
            {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "LABEL", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['test']"}}},
        ],
    }
    core.create_namespaced_pod(NAMESPACE, body)
    assert ended(name).status.phase == "Succeeded"
    environment, folder, arguments, prefix = json.loads(log_of(core, name))
    assert arguments == ["mine", "$(OWN)", "$(UNKNOWN)", "a b"]
    assert environment["BOTH"] == "mine-us-east-1"
    assert (environment["POD"], environment["LABEL"], environment["HOSTNAME"]) == (name, name, name)
    assert environment["PATH"].startswith(f"{emulator.folder}/scripts:{emulator.folder}/images/tool/bin:")
    assert environment["HOME"] == environment["TMPDIR"] == folder
    assert Path(folder).is_relative_to(emulator.folder / "state")
    assert "PYTHONPATH" not in environment
    assert prefix == str(emulator.folder / "images" / "tool")


def test_a_pods_program_is_found_on_its_path(
    emulator: Emulator, core: client.CoreV1Api, ended: Ended, name: str
) -> None:
    """A program from the folder of pod scripts runs by its bare name, with the image's interpreter."""
    script = emulator.folder / "scripts" / "greet.py"
    script.write_text("#!/usr/bin/env python3\nimport sys\nprint('hello', sys.prefix)\n", encoding="utf-8")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    core.create_namespaced_pod(NAMESPACE, pod(name, "greet.py"))
    assert ended(name).status.phase == "Succeeded"
    assert log_of(core, name) == f"hello {emulator.folder}/images/tool\n"


def test_a_command_that_is_not_there_is_a_start_error(
    core: client.CoreV1Api, ended: Ended, name: str
) -> None:
    """A program that cannot be found fails the pod with code 128 and says so."""
    core.create_namespaced_pod(NAMESPACE, pod(name, "no-such-program"))
    state = terminated(ended(name))
    assert (state.exit_code, state.reason) == (128, "StartError")
    assert 'exec: "no-such-program": executable file not found in $PATH' in state.message


def test_the_log_is_the_message_of_a_failed_container_that_asks_for_it(
    core: client.CoreV1Api, ended: Ended, name: str
) -> None:
    """With FallbackToLogsOnError the end of the log is the termination message."""
    body = pod(name, "sh", "-c", "echo why; exit 3")
    body["spec"]["containers"][0]["terminationMessagePolicy"] = "FallbackToLogsOnError"
    core.create_namespaced_pod(NAMESPACE, body)
    assert terminated(ended(name)).message == "why\n"


def test_an_image_that_cannot_be_built_keeps_the_pod_waiting_and_says_why(
    emulator: Emulator, core: client.CoreV1Api, ended: Ended, name: str
) -> None:
    """Without its image a pod waits in ErrImagePull and ImagePullBackOff, and goes on once the image is
    there.
    """
    body = pod(name, "true")
    body["spec"]["containers"][0]["image"] = "slipway/later:0.1.0"
    core.create_namespaced_pod(NAMESPACE, body)

    def waiting() -> client.V1ContainerStateWaiting | None:
        statuses = core.read_namespaced_pod(name, NAMESPACE).status.container_statuses
        return statuses[0].state.waiting if statuses else None

    def waits_with(reason: str) -> Callable[[], client.V1ContainerStateWaiting | None]:
        return lambda: state if (state := waiting()) and state.reason == reason else None

    state = wait_until(waits_with("ErrImagePull"), "the image is missed")
    assert "There is no image 'later'" in state.message
    wait_until(waits_with("ImagePullBackOff"), "the node backs off")
    (emulator.folder / "images" / "later").symlink_to(sys.prefix)
    assert ended(name).status.phase == "Succeeded"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"image": "Not A Reference"}, "InvalidImageName"),
        ({"envFrom": [{"secretRef": {"name": "x"}}]}, "CreateContainerConfigError"),
        (
            {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "x", "key": "y"}}}]},
            "CreateContainerConfigError",
        ),
    ],
)
def test_what_the_node_has_not_got_keeps_the_pod_waiting(
    core: client.CoreV1Api, name: str, change: dict[str, object], reason: str
) -> None:
    """A container that cannot be configured waits with the reason that a kubelet would give, and can be
    deleted.
    """
    body = pod(name, "true")
    body["spec"]["containers"][0] |= change
    core.create_namespaced_pod(NAMESPACE, body)

    def waits() -> bool:
        statuses = core.read_namespaced_pod(name, NAMESPACE).status.container_statuses
        state = statuses[0].state.waiting if statuses else None
        return state is not None and state.reason == reason

    wait_until(waits, f"the container waits with {reason}")
    core.delete_namespaced_pod(name, NAMESPACE)
    wait_until(is_gone(core, name), "the pod is gone")


def test_a_gpu_that_is_not_there_leaves_the_pod_unscheduled(core: client.CoreV1Api, name: str) -> None:
    """A pod that asks for more GPUs than the node has stays Pending, and the condition says why."""
    body = pod(name, "true")
    body["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "1", "cpu": "64"}}
    core.create_namespaced_pod(NAMESPACE, body)

    def condition() -> client.V1PodCondition | None:
        conditions = core.read_namespaced_pod(name, NAMESPACE).status.conditions
        return conditions[0] if conditions else None

    found = wait_until(condition, "the scheduler has spoken")
    assert (found.type, found.status, found.reason) == ("PodScheduled", "False", "Unschedulable")
    assert "Insufficient nvidia.com/gpu" in found.message
    core.delete_namespaced_pod(name, NAMESPACE)
    wait_until(is_gone(core, name), "the pod is gone")


def test_several_containers_run_side_by_side(core: client.CoreV1Api, ended: Ended, name: str) -> None:
    """A pod ends with its last container, fails if one of them failed, and its logs are asked for by name."""
    body = pod(name)
    (base,) = body["spec"]["containers"]
    body["spec"]["containers"] = [
        {**base, "name": "one", "command": ["sh", "-c", "echo first"]},
        {**base, "name": "two", "command": ["sh", "-c", "sleep 0.3; echo second; exit 4"]},
    ]
    core.create_namespaced_pod(NAMESPACE, body)
    result = ended(name)
    codes = {each.name: each.state.terminated.exit_code for each in result.status.container_statuses}
    assert (result.status.phase, codes) == ("Failed", {"one": 0, "two": 4})
    assert log_of(core, name, container="two") == "second\n"
    with pytest.raises(ApiException) as unnamed:
        core.read_namespaced_pod_log(name, NAMESPACE)
    assert "choose one of: [one two]" in unnamed.value.body


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
    core.delete_namespaced_pod(name, NAMESPACE, grace_period_seconds=60)
    wait_until(is_gone(core, name), "the pod is gone")
    assert time.monotonic() - began < 15


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
    wait_until(all_gone(pids), "no process of the pod is left", limit_s=5)
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
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[5])}
    second = subprocess.run(cluster.command(), env=environment, capture_output=True, text=True, timeout=30)
    assert second.returncode == 2
    assert "is in use by another emulated cluster" in second.stderr

"""Pods as local processes: what they are given, how they end, and that nothing of them stays."""

from __future__ import annotations

import json
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from kubernetes import client, watch
from kubernetes.client.rest import ApiException

from tests.support.cluster.emulator import NAMESPACE, Emulator, pod
from tests.support.cluster.pods import Ended, is_gone, log_of, terminated
from tests.support.waiting import wait_until


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
    # On a busy machine the pod may run before a watch begins: this one starts at the version before the pod.
    before = core.list_namespaced_pod(NAMESPACE).metadata.resource_version
    core.create_namespaced_pod(NAMESPACE, pod(name, "sh", "-c", "sleep 0.2"))
    phases = []
    by_name = f"metadata.name={name}"
    for event in watch.Watch().stream(
        core.list_namespaced_pod,
        NAMESPACE,
        field_selector=by_name,
        resource_version=before,
        timeout_seconds=20,
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
    assert "The image 'later' does not exist" in state.message
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

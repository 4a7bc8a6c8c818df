"""What a pod may do: admission over the wire, and a root file system that is read-only for its processes."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable
from typing import Any

import pytest
from kubernetes import client
from kubernetes.client.rest import ApiException

from tests.support.cluster.emulator import CONTAINER_SECURITY, NAMESPACE, Emulator, pod

Ended = Callable[[str], client.V1Pod]
HAS_LANDLOCK = ctypes.CDLL(None).syscall(444, None, ctypes.c_size_t(0), ctypes.c_uint32(1)) > 0


def test_a_pod_that_lapses_is_forbidden_in_the_api_servers_words(core: client.CoreV1Api, name: str) -> None:
    """403 Forbidden, every violation of the restricted standard in one message, and no pod."""
    body = pod(name, "true")
    body["spec"]["securityContext"] = {}
    with pytest.raises(ApiException) as refused:
        core.create_namespaced_pod(NAMESPACE, body)
    told = json.loads(refused.value.body)
    assert (refused.value.status, told["reason"]) == (403, "Forbidden")
    assert told["message"] == (
        f'pods "{name}" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true (pod or '
        'container "base" must set securityContext.runAsNonRoot=true), seccompProfile (pod or container "base" '
        'must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")'
    )
    assert name not in {one.metadata.name for one in core.list_namespaced_pod(NAMESPACE).items}


def read_only(name: str, command: str, **container: Any) -> dict[str, Any]:
    """A pod with a read-only root and one volume at /tmp."""
    body = pod(name, "sh", "-c", command, volumes=[{"name": "scratch", "emptyDir": {}}])
    body["spec"]["containers"][0] |= {
        "securityContext": {**CONTAINER_SECURITY, "readOnlyRootFilesystem": True},
        "volumeMounts": [{"name": "scratch", "mountPath": "/tmp"}],
        "env": [{"name": "TMPDIR", "value": "/tmp"}],
        **container,
    }
    return body


def test_a_program_writes_to_its_volume(
    emulator: Emulator, core: client.CoreV1Api, ended: Ended, name: str
) -> None:
    """A variable that names the mount path leads to a folder of the pod's own, which goes with the pod."""
    core.create_namespaced_pod(NAMESPACE, read_only(name, "echo kept > $TMPDIR/file && cat $TMPDIR/file"))
    assert ended(name).status.phase == "Succeeded"
    uid = core.read_namespaced_pod(name, NAMESPACE).metadata.uid
    written = emulator.folder / "state" / "pods" / uid / "volumes" / "scratch" / "file"
    assert written.read_text() == "kept\n"


@pytest.mark.skipif(not HAS_LANDLOCK, reason="this kernel has no Landlock")
@pytest.mark.parametrize("place", [".", "$IMAGE"])
def test_a_program_writes_nowhere_else(
    emulator: Emulator, core: client.CoreV1Api, ended: Ended, name: str, place: str
) -> None:
    """With a read-only root neither the working directory nor the image can be written to, by children neither."""
    variable = {"name": "IMAGE", "value": str(emulator.folder / "images")}
    command = f"sh -c 'touch {place}/lapse' || exit 30"
    core.create_namespaced_pod(NAMESPACE, read_only(name, command, env=[variable]))
    (status,) = ended(name).status.container_statuses
    assert status.state.terminated.exit_code == 30
    assert not (emulator.folder / "images" / "lapse").exists()


def test_without_a_read_only_root_the_working_directory_is_writable(
    core: client.CoreV1Api, ended: Ended, name: str
) -> None:
    """The limit is the container's own wish: one that has none writes where it is."""
    core.create_namespaced_pod(NAMESPACE, pod(name, "sh", "-c", "touch here && test -e here"))
    assert ended(name).status.phase == "Succeeded"

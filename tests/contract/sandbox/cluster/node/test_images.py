"""Images that the node has not got: built on demand, as a kubelet pulls them, or refused with the reason."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from kubernetes import client

from tests.support.cluster.emulator import NAMESPACE, Emulator, pod
from tests.support.waiting import wait_until

MakeEmulator = Callable[..., Emulator]


@pytest.fixture
def cluster(make_emulator: MakeEmulator, tmp_path: Path) -> Emulator:
    """A cluster whose registry holds `empty`, an environment with nothing in it, and `broken`, which none can build."""
    for name, pins in (("empty", ""), ("broken", "no-such-package==1.0 --hash=sha256:0\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "requirements.txt").write_text(pins)
    emulator = make_emulator(image_sources_dir=str(tmp_path))
    emulator.start()
    return emulator


def run(cluster: Emulator, image: str) -> client.CoreV1Api:
    core = client.CoreV1Api(cluster.api_client())
    body = pod("asking", "python", "-c", "print('runs')")
    body["spec"]["containers"][0]["image"] = f"slipway/{image}:0.1.0"
    core.create_namespaced_pod(NAMESPACE, body)
    return core


def events(core: client.CoreV1Api) -> dict[str, str]:
    """What was told of the pod: message by reason."""
    return {one.reason: one.message for one in core.list_namespaced_event(NAMESPACE).items}


def test_a_missing_image_is_built_on_demand_and_told_of(cluster: Emulator) -> None:
    """The pod runs in the environment that the node has built meanwhile; events say that it pulls and has pulled."""
    core = run(cluster, "empty")
    wait_until(
        lambda: core.read_namespaced_pod("asking", NAMESPACE).status.phase == "Succeeded", "it ran", 60
    )
    assert (cluster.folder / "images" / "empty" / "bin" / "python").exists()
    told = events(core)
    assert told["Pulling"] == 'Pulling image "slipway/empty:0.1.0"'
    assert told["Pulled"].startswith('Successfully pulled image "slipway/empty:0.1.0" in ')


def test_an_image_that_cannot_be_built_says_why_and_how_to_look(cluster: Emulator) -> None:
    """The pod waits in ErrImagePull or ImagePullBackOff with the builder's words and the command to try by hand."""
    core = run(cluster, "broken")

    def waiting() -> client.V1ContainerStateWaiting | None:
        (status,) = core.read_namespaced_pod("asking", NAMESPACE).status.container_statuses or [None]
        state = status and status.state.waiting
        return state if state and state.reason in ("ErrImagePull", "ImagePullBackOff") else None

    state = wait_until(waiting, "the image is missed")
    assert "The image 'broken' could not be built" in state.message
    assert state.message.endswith("python -m slipway_sandbox.host.images broken")
    assert events(core)["Failed"].startswith("ErrImagePull: ")

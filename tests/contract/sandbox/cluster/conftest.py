"""An emulated cluster for each test file, and more of them for tests that end one."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kubernetes import client

from tests.support.cluster.any_cluster import NamedCluster, any_cluster
from tests.support.cluster.emulator import NAMESPACE, Emulator
from tests.support.waiting import wait_until

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator | NamedCluster]:
    """A cluster that the tests of one file share."""
    with any_cluster(tmp_path_factory.mktemp("cluster"), node_env={"AWS_REGION": "us-east-1"}) as shared:
        yield shared


@pytest.fixture
def make_emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Emulator]]:
    """Makes clusters, not started yet, that end with the test."""
    made: list[Emulator] = []

    def make(**settings: Any) -> Emulator:
        made.append(Emulator(tmp_path_factory.mktemp("cluster"), **settings))
        return made[-1]

    yield make
    for each in made:
        if each.is_started:
            each.kill()


@pytest.fixture
def core(emulator: Emulator) -> client.CoreV1Api:
    """The official client for pods and events."""
    return client.CoreV1Api(emulator.api_client())


@pytest.fixture
def custom(emulator: Emulator) -> client.CustomObjectsApi:
    """The official client for InferenceServices."""
    return client.CustomObjectsApi(emulator.api_client())


@pytest.fixture
def name() -> str:
    """A name for an object that no other test uses, nor one of another process: tests look for a pod's processes."""
    return f"thing-{os.getpid()}-{next(_numbers)}"


@pytest.fixture
def ended(core: client.CoreV1Api) -> Callable[[str], client.V1Pod]:
    """Waits for the end of the named pod and returns it."""

    def wait(pod_name: str) -> client.V1Pod:
        def finished() -> client.V1Pod | None:
            read = core.read_namespaced_pod(pod_name, NAMESPACE)
            return read if read.status.phase in ("Succeeded", "Failed") else None

        read: client.V1Pod = wait_until(finished, f"pod {pod_name} ends")
        return read

    return wait

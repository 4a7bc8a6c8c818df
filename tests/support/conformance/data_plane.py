"""Real Tritons as what pods run, and a real Envoy that does what a KIngress asks for.

There is no queue proxy and no Service between them: Envoy leads to a pod's Triton directly.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from slipway_sandbox.services.router import Router
from slipway_sandbox.services.routing import Backend, Ingress, Routing
from slipway_sandbox.services.triton import TritonPorts, TritonServer
from tests.support.conformance.api import Object
from tests.support.conformance.kubelet import Fate, Runtime, storage_uri
from tests.support.serving.clients import HOST
from tests.support.serving.envoy import Envoy, running_envoy
from tests.support.serving.triton_install import triton_install

_REVISION = "serving.knative.dev/revision"
_APPLY_LIMIT_S = 40.0
_EXIT_TIMEOUT_S = 3

Outcome = TypeVar("Outcome")


class TritonPods:
    """A tritonserver for each pod of some versions: the pod is ready when its server is, and crashes as it does.

    :param repository_of: returns the Triton repository of a storageUri; None: a version that nobody runs in truth.
    :param folder: gets the servers' logs.
    """

    def __init__(self, repository_of: Callable[[str], Path | None], folder: Path) -> None:
        self._repository_of = repository_of
        self._folder = folder
        self._install = triton_install()
        self._servers: dict[str, TritonServer] = {}
        self._revisions: dict[str, str] = {}
        self._ending = ThreadPoolExecutor(max_workers=4)
        self._is_closed = False

    def fate(self, pod: Object) -> Fate | None:
        """Return how the pod's server is, and start it at the first time; None: the pod is of another version."""
        repository = self._repository_of(storage_uri(pod))
        if repository is None or self._is_closed:
            return None
        metadata = pod["metadata"]
        server = self._servers.get(metadata["uid"])
        if server is None:
            server = TritonServer(
                self._install,
                repository,
                TritonPorts.free(),
                log_path=self._folder / f"{metadata['name']}.log",
                exit_timeout_s=_EXIT_TIMEOUT_S,
            )
            server.start()
            self._servers[metadata["uid"]] = server
            self._revisions[metadata["uid"]] = metadata["labels"].get(_REVISION, "")
        if server.exit_code() is not None:
            return Fate.CRASHES
        return Fate.READY if server.is_ready() else Fate.WAITS

    def end(self, uid: str) -> None:
        """End the server of a pod that is gone; its last answers are given first."""
        server = self._servers.pop(uid, None)
        self._revisions.pop(uid, None)
        if server is not None:
            # In another thread: the kubelet has other pods to look at.
            self._ending.submit(server.stop)

    def backend(self, revision: str) -> Backend:
        """Return where a revision's server listens.

        :raises LookupError: it has none that lives.
        """
        for uid, name in self._revisions.items():
            server = self._servers[uid]
            if name == revision and server.exit_code() is None:
                return Backend(revision, server.ports.http, server.ports.grpc)
        raise LookupError(f"no server of {revision}")

    def close(self) -> None:
        """End every server."""
        # The kubelet may still ask, and nothing may begin any more.
        self._is_closed = True
        for uid in list(self._servers):
            self.end(uid)
        self._ending.shutdown()


class EnvoyIngress:
    """Tells an Envoy where to lead users, from a thread of its own.

    :param tritons: the servers that it may lead to.
    :param router: steers the Envoy.
    :param host: the name by which users ask.
    """

    def __init__(self, tritons: TritonPods, router: Router, host: str) -> None:
        self._tritons, self._router, self._host = tritons, router, host
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="envoy", daemon=True)
        self._thread.start()

    def lead(self, shares: Mapping[str, int]) -> None:
        """Lead users by these percents by revision, and return once Envoy does."""
        percents = tuple((revision, percent) for revision, percent in shares.items() if percent)
        backends = tuple(self._tritons.backend(revision) for revision, _ in percents)
        self.call(self._router.apply(Routing(backends, (Ingress("users", (self._host,), percents),))))

    def call(self, coroutine: Coroutine[Any, Any, Outcome]) -> Outcome:
        """Run something in the thread, and return what it returns."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(_APPLY_LIMIT_S)

    def close(self) -> None:
        """End the thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@dataclass(frozen=True)
class DataPlane:
    """Where users ask, and what leads them from there."""

    port: int
    ingress: EnvoyIngress


@contextmanager
def triton_pods(
    repository_of: Callable[[str], Path | None], folder: Path, runtimes: list[Runtime]
) -> Iterator[TritonPods]:
    """Have Tritons as what pods run while the block runs.

    :param runtimes: what the kubelet asks for a pod's fate.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tritons = TritonPods(repository_of, folder)
    runtimes.append(tritons)
    try:
        yield tritons
    finally:
        runtimes.remove(tritons)
        tritons.close()


@contextmanager
def data_plane(
    repositories: Mapping[str, Path], folder: Path, runtimes: list[Runtime]
) -> Iterator[DataPlane]:
    """Have Tritons and an Envoy of their own while the block runs.

    :param repositories: the Triton repository of each version, by its storageUri.
    :param runtimes: what the kubelet asks for a pod's fate.
    """
    with triton_pods(repositories.get, folder, runtimes) as tritons, envoy(folder) as running:
        ingress = EnvoyIngress(tritons, running.router, HOST)
        try:
            yield DataPlane(running.ingress_port, ingress)
        finally:
            ingress.close()


@contextmanager
def envoy(folder: Path) -> Iterator[Envoy]:
    """Have an Envoy that routes nothing yet while the block runs."""
    stack = AsyncExitStack()
    with asyncio.Runner() as loop:
        try:
            yield loop.run(stack.enter_async_context(running_envoy(folder)))
        finally:
            loop.run(stack.aclose())

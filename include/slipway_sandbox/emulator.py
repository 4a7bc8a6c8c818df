"""Run the emulated cluster: API server, node, and the KServe controller if there are settings for it.

python -m slipway_sandbox.emulator --config cluster.json
"""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import functools
import logging
import signal
import socket
import sys
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from aiohttp import web

from slipway_sandbox.cluster.admission.validation import admit
from slipway_sandbox.cluster.api.server import build_app
from slipway_sandbox.cluster.kubeconfig import write_kubeconfig
from slipway_sandbox.cluster.node.pod_logs import PodLogs
from slipway_sandbox.cluster.node.pods import PodRunner
from slipway_sandbox.cluster.settings import ClusterConfigError, ClusterSettings, load_settings
from slipway_sandbox.cluster.storage.archive import Archive
from slipway_sandbox.cluster.storage.store import ObjectStore

log = logging.getLogger("slipway.cluster")


async def serve(settings: ClusterSettings) -> None:
    """Serve until SIGTERM or SIGINT, then end all pods and return; raises what ended a part of it early."""
    state_dir = settings.node.state_dir
    store = ObjectStore(
        archive=Archive(state_dir / "objects"),
        history_limit=settings.watch_history,
        namespaces=settings.namespaces,
        admission=functools.partial(admit, default_deployment_mode=settings.default_deployment_mode),
    )
    logs = PodLogs(state_dir / "logs")
    parts: list[Coroutine[None, None, None]] = [PodRunner(store, settings.node, logs).run()]
    if "kserve" in settings.raw:
        parts.append(_kserve_controller(store, settings))
    # A client that goes away takes its watch with it.
    server = web.AppRunner(
        build_app(store, logs, settings.token),
        handler_cancellation=True,
        access_log=None,
        shutdown_timeout=1.0,
    )
    await server.setup()
    try:
        await _listen(server, settings)
        await _until_signalled(parts)
    finally:
        await server.cleanup()


async def _listen(server: web.AppRunner, settings: ClusterSettings) -> None:
    """Open the port; whoever can connect finds the kubeconfig written.

    :raises OSError: the port is not free.
    """
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((settings.host, settings.port))
    if settings.kubeconfig:
        write_kubeconfig(settings.kubeconfig, settings.url, settings.token)
    await web.SockSite(server, listener).start()
    log.info("The emulated cluster listens on %s.", settings.url)


def _kserve_controller(store: ObjectStore, settings: ClusterSettings) -> Coroutine[None, None, None]:
    """Return the controller's main coroutine; it is given all settings of the cluster, its own under `kserve`."""
    # Imported only here, so that a cluster without KServe needs nothing that the controller needs.
    from slipway_sandbox.kserve.controller import KServeController

    paths = {"state_dir": str(settings.node.state_dir), "images_dir": str(settings.node.images_dir)}
    controller = KServeController(store, {**settings.raw, **paths})
    controller.publish_config()
    return controller.run()


async def _until_signalled(parts: list[Coroutine[None, None, None]]) -> None:
    """Run all parts until a signal; if one ends by itself, the others are ended and its error is raised."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    tasks = [asyncio.create_task(part) for part in parts]
    signalled = asyncio.create_task(stop.wait())
    done, _ = await asyncio.wait([*tasks, signalled], return_when=asyncio.FIRST_COMPLETED)
    for task in (*tasks, signalled):
        task.cancel()
    await asyncio.gather(*tasks, signalled, return_exceptions=True)
    for task in done - {signalled}:
        task.result()


@contextmanager
def _sole_owner(state_dir: Path) -> Iterator[None]:
    """Hold the state for one process at a time.

    :raises ClusterConfigError: another one has it.
    """
    state_dir.mkdir(parents=True, exist_ok=True)
    with (state_dir / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ClusterConfigError(
                f"{state_dir} is in use by another emulated cluster. Expected none; found its lock held. "
                "End that one, or set another state_dir."
            ) from error
        yield


def main(argv: list[str] | None = None) -> int:
    """Run the program; return 0 after a clean stop, 2 for settings that cannot be used."""
    parser = argparse.ArgumentParser(prog="python -m slipway_sandbox.emulator", description=__doc__)
    parser.add_argument("--config", type=Path, required=True, help="the cluster's settings, a JSON file")
    arguments = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        settings = load_settings(arguments.config)
        with _sole_owner(settings.node.state_dir), suppress(KeyboardInterrupt):
            asyncio.run(serve(settings))
    except ClusterConfigError as error:
        print(error, file=sys.stderr)
        return 2
    except OSError as error:
        print(
            f"The emulated cluster cannot listen. Expected {arguments.config}'s host and port to be free; "
            f"found: {error.strerror}. End what holds the port, or choose another.",
            file=sys.stderr,
        )
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

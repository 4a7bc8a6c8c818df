"""Clients that never stop asking: real requests over HTTP and gRPC, every answer counted.

`python -m include.sandbox.demo.traffic --port PORT --output FILE` runs until SIGTERM or until the process
that started it is gone. Until the service has answered once over each protocol nothing counts: there is
nothing yet that could fail. `TrafficClient` is the handle of whoever starts it.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from include.sandbox.demo.counts import (
    Failure,
    Snapshot,
    Traffic,
    failure_line,
    read_traffic,
    snapshot_line,
)
from include.sandbox.demo.images import LiveImages, live_images
from include.sandbox.demo.protocols import Answer, DigitsClient, GrpcDigitsClient, HttpDigitsClient
from include.sandbox.host.settings import MARKER

WORKERS_PER_PROTOCOL = 2
"""Two, so that one slow answer does not silence a protocol."""

_SNAPSHOT_S = 1.0
_REQUEST_TIMEOUT_S = 10.0
_KNOCK_S = 0.5
_STOP_TIMEOUT_S = 15.0
_PR_SET_PDEATHSIG = 1


class Ledger:
    """Counts answers, from several threads at once, and writes them down as they come."""

    def __init__(self, output: TextIO) -> None:
        self._output = output
        self._lock = threading.Lock()
        self._requests: Counter[str] = Counter()
        self._answered_by: Counter[str] = Counter()
        self._versions: dict[str, str] = {}
        self._failed = 0
        self._wrong = 0

    def add(self, protocol: str, answer: Answer, drawn: int) -> None:
        """Count one answer to an image on which the digit `drawn` is to be seen."""
        with self._lock:
            self._requests[protocol] += 1
            if answer.error is not None:
                self._failed += 1
                self._write(failure_line(Failure(time.time(), protocol, answer.revision, answer.error)))
                return
            version = answer.version or "unknown"
            self._answered_by[version] += 1
            self._wrong += answer.digit != drawn
            if answer.revision is not None:
                self._versions[answer.revision] = version

    def write_snapshot(self) -> None:
        """Write all counts down."""
        with self._lock:
            snapshot = Snapshot(
                at=time.time(),
                requests=self._requests.total(),
                failed=self._failed,
                wrong=self._wrong,
                by_protocol=dict(self._requests),
                answered_by=dict(self._answered_by),
                versions=dict(self._versions),
            )
            self._write(snapshot_line(snapshot))

    def _write(self, line: str) -> None:
        self._output.write(line + "\n")
        self._output.flush()


def keep_asking(
    client: DigitsClient,
    images: LiveImages,
    ledger: Ledger,
    *,
    position: int,
    clients: int,
    rate_rps: float,
    stop: threading.Event,
) -> None:
    """Send this client's part of the `rate_rps` requests a second that `clients` send together, until `stop`.

    Client number `position` sends every `clients`-th image, in step with the others. A beat that a slow
    answer made us miss is left out, so that trouble is never followed by a burst.
    """
    period_s = clients / rate_rps
    beat = time.monotonic() + position / rate_rps
    number = position
    while not stop.wait(max(0.0, beat - time.monotonic())):
        row = number % len(images.images)
        ledger.add(client.protocol, client.ask(images.images.pixels[row]), int(images.images.label[row]))
        number += clients
        beat = max(beat + period_s, time.monotonic())


def wait_for_answers(clients: Sequence[DigitsClient], images: LiveImages, stop: threading.Event) -> bool:
    """Knock until every client got a good answer; False when `stop` came first."""
    for client in clients:
        while client.ask(images.images.pixels[0]).error is not None:
            if stop.wait(_KNOCK_S):
                return False
    return not stop.is_set()


def run(
    clients: Sequence[DigitsClient], images: LiveImages, rate_rps: float, output: Path, stop: threading.Event
) -> None:
    """Knock, then send `rate_rps` requests a second over all clients until `stop`; count into `output`.

    RuntimeError: a client ended on its own, so that what follows would go uncounted.
    """
    with contextlib.ExitStack() as resources:
        file = resources.enter_context(output.open("a", encoding="utf-8"))
        for client in clients:
            resources.callback(client.close)
        if not wait_for_answers(clients, images, stop):
            return
        ledger = Ledger(file)
        ledger.write_snapshot()
        workers = [
            threading.Thread(
                target=keep_asking,
                args=(client, images, ledger),
                kwargs={"position": position, "clients": len(clients), "rate_rps": rate_rps, "stop": stop},
                daemon=True,
            )
            for position, client in enumerate(clients)
        ]
        for worker in workers:
            worker.start()
        while not stop.wait(_SNAPSHOT_S):
            ledger.write_snapshot()
            if not all(worker.is_alive() for worker in workers):
                raise RuntimeError("a traffic client ended on its own; its error is above")
        for worker in workers:
            worker.join(timeout=2 * _REQUEST_TIMEOUT_S)
        ledger.write_snapshot()


class TrafficClient:
    """The client process, in a process group of its own, that appends its counts to `output`.

    A context manager: it runs inside the `with`, and ends at its exit whatever happened. It is marked as
    part of the sandbox at `sandbox_root`, so that ending the sandbox ends it too.
    """

    def __init__(
        self, *, port: int, authority: str, model: str, rate_rps: float, output: Path, sandbox_root: Path
    ) -> None:
        self.output = output
        self._environment = {**os.environ, MARKER: str(sandbox_root)}
        self._command = [
            *(sys.executable, "-m", "include.sandbox.demo.traffic"),
            *("--port", str(port), "--authority", authority, "--model", model),
            *("--rate-rps", str(rate_rps), "--output", str(output), "--parent", str(os.getpid())),
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> TrafficClient:
        self.output.parent.mkdir(parents=True, exist_ok=True)
        self.output.unlink(missing_ok=True)
        with self.output.with_suffix(".log").open("wb") as log:
            self._process = subprocess.Popen(
                self._command,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pid(self) -> int | None:
        """The process id while it runs."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def traffic(self) -> Traffic:
        """What was counted so far."""
        return read_traffic(self.output)

    def stop(self) -> Traffic:
        """End the process and return its counts. May be called twice."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(timeout=_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
        return self.traffic()


def _end_with_parent(parent: int) -> None:
    """Have the kernel send us SIGTERM when `parent` ends; raises SystemExit where it is gone already."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        raise SystemExit(0)


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m include.sandbox.demo.traffic", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True, help="the router's port, for HTTP and gRPC")
    parser.add_argument(
        "--authority", default="digits.models.sandbox.slipway", help="the service's host name"
    )
    parser.add_argument("--model", default="digits")
    parser.add_argument("--rate-rps", type=float, default=40.0, help="requests a second, over both protocols")
    parser.add_argument("--output", type=Path, required=True, help="JSON lines are appended here")
    parser.add_argument("--parent", type=int, help="end when this process, our parent, ends")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Run until SIGTERM or SIGINT."""
    arguments = _arguments(argv)
    if not 0 < arguments.rate_rps <= 1000:
        raise SystemExit(f"--rate-rps: expected more than 0 and at most 1000, found {arguments.rate_rps:g}")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    if arguments.parent is not None:
        _end_with_parent(arguments.parent)

    place = (arguments.host, arguments.port, arguments.authority, arguments.model, _REQUEST_TIMEOUT_S)
    kinds = (HttpDigitsClient, GrpcDigitsClient)
    clients = [kind(*place) for _ in range(WORKERS_PER_PROTOCOL) for kind in kinds]
    run(clients, live_images(), arguments.rate_rps, arguments.output, stop)
    return 0


if __name__ == "__main__":
    sys.exit(main())

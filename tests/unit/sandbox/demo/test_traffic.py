"""The traffic client: paces itself, counts everything, ends when told and when its parent is gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import psutil
import pytest

from include.sandbox.demo.counts import read_traffic
from include.sandbox.demo.images import live_images
from include.sandbox.demo.protocols import Answer
from include.sandbox.demo.traffic import TrafficClient, main, run


class ScriptedClient:
    """Answers as `reply` says, given the number of the request."""

    def __init__(self, protocol: str, reply: Callable[[int], Answer]) -> None:
        self.protocol = protocol
        self.asked = 0
        self.closed = False
        self._reply = reply

    def ask(self, pixels: npt.NDArray[np.float32]) -> Answer:
        self.asked += 1
        return self._reply(self.asked)

    def close(self) -> None:
        self.closed = True


def until(condition: Callable[[], bool], limit_s: float = 20.0) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        time.sleep(0.02)


def running(
    clients: list[ScriptedClient], output: Path, stop: threading.Event, rate_rps: float
) -> threading.Thread:
    thread = threading.Thread(target=run, args=(clients, live_images(), rate_rps, output, stop))
    thread.start()
    return thread


def test_every_answer_is_counted_once(tmp_path: Path) -> None:
    """Good, wrong and failed answers all show up in the counts, each with its version and revision."""

    def reply(number: int) -> Answer:
        if number % 4 == 0:
            return Answer("rev-2", error="HTTP 500: no")
        return Answer("rev-1", version="1", digit=-1)

    clients = [ScriptedClient("http", reply), ScriptedClient("grpc", reply)]
    output, stop = tmp_path / "traffic.jsonl", threading.Event()
    thread = running(clients, output, stop, 400)
    until(lambda: min(client.asked for client in clients) >= 9)
    stop.set()
    thread.join(20)
    counted = read_traffic(output)
    asked = sum(client.asked for client in clients) - len(clients)  # the first of each only knocked
    assert counted.last.requests == asked
    assert counted.last.failed == len(counted.failures) == sum(client.asked // 4 for client in clients)
    assert counted.last.answered_by == {"1": asked - counted.last.failed}
    assert counted.last.wrong == counted.last.answered_by["1"]
    assert counted.last.versions == {"rev-1": "1"}
    assert {failure.revision for failure in counted.failures} == {"rev-2"}
    assert all(client.closed for client in clients)


def test_nothing_counts_before_the_service_answers(tmp_path: Path) -> None:
    """Requests to a service that is not there yet are knocking, not failures."""

    def reply(number: int) -> Answer:
        return Answer(None, error="HTTP 404") if number < 3 else Answer("rev", version="1", digit=0)

    client = ScriptedClient("http", reply)
    output, stop = tmp_path / "traffic.jsonl", threading.Event()
    thread = running([client], output, stop, 100)
    until(lambda: client.asked >= 6)
    stop.set()
    thread.join(20)
    assert read_traffic(output).failures == []
    assert read_traffic(output).last.requests == client.asked - 3


def test_a_slow_service_is_not_met_with_a_burst(tmp_path: Path) -> None:
    """Beats missed while an answer was slow are left out."""
    sent: list[float] = []

    def reply(number: int) -> Answer:
        sent.append(time.monotonic())
        if number == 3:
            time.sleep(0.5)
        return Answer("rev", version="1", digit=0)

    client = ScriptedClient("http", reply)
    stop = threading.Event()
    thread = running([client], tmp_path / "traffic.jsonl", stop, 20)
    until(lambda: client.asked >= 10)
    stop.set()
    thread.join(20)
    gaps = [after - before for before, after in pairwise(sent[3:])]
    assert min(gaps) > 0.02


@pytest.mark.parametrize("rate", ["0", "-1", "100000"])
def test_a_rate_beyond_reason_is_refused(rate: str, tmp_path: Path) -> None:
    """The rate is bounded; the message says how."""
    with pytest.raises(SystemExit, match="--rate-rps: expected more than 0"):
        main(["--port", "1", "--output", str(tmp_path / "out"), "--rate-rps", rate])


def test_the_process_has_a_group_of_its_own_and_ends_when_told(tmp_path: Path) -> None:
    """Leaving the context ends the client process, even one that never got an answer."""
    with TrafficClient(
        port=1,
        authority="a",
        model="digits",
        rate_rps=10,
        output=tmp_path / "t.jsonl",
        sandbox_root=tmp_path,
    ) as client:
        pid = client.pid
        assert pid is not None
        assert os.getpgid(pid) == pid
        assert psutil.Process(pid).environ()["SLIPWAY_SANDBOX"] == str(tmp_path)
    assert client.pid is None
    assert not psutil.pid_exists(pid)


def test_the_process_ends_with_its_parent(tmp_path: Path) -> None:
    """A demo that is killed leaves no client behind."""
    program = f"""
import time
from pathlib import Path
from include.sandbox.demo.traffic import TrafficClient
folder = Path({str(tmp_path)!r})
client = TrafficClient(
    port=1, authority="a", model="digits", rate_rps=10, output=folder / "t.jsonl", sandbox_root=folder
)
client.__enter__()
print(client.pid, flush=True)
time.sleep(600)
"""
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    client = psutil.Process(int(parent.stdout.readline()))
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    until(lambda: not client.is_running() or client.status() == psutil.STATUS_ZOMBIE)

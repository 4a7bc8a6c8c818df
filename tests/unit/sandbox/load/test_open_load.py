"""The load as a process: what it refuses, and that it ends when told and when its parent is gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import psutil
import pytest

from slipway_core.errors import SlipwayError
from slipway_sandbox.load.__main__ import main
from slipway_sandbox.load.open_load import OpenLoad
from slipway_sandbox.load.request_set import RequestSet
from tests.support.waiting import wait_until

REQUESTS = RequestSet("x", np.ones((1, 1), dtype=np.float32), "y")


def load_of(folder: Path, start_limit_s: float | None) -> OpenLoad:
    return OpenLoad(
        REQUESTS,
        port=1,
        authority="a",
        model="m",
        rate_rps=10,
        output=folder / "answers.jsonl",
        sandbox_root=folder,
        start_limit_s=start_limit_s,
    )


@pytest.mark.parametrize("expected", [None, np.array([4, 2])])
def test_requests_are_read_back_as_they_were_written(
    expected: np.ndarray[tuple[int], np.dtype[np.int64]] | None, tmp_path: Path
) -> None:
    """Names, tensors and right answers survive the file."""
    rows = np.arange(6, dtype=np.float32).reshape(2, 1, 3)
    RequestSet("pixels", rows, "label", expected).save(tmp_path / "requests.npz")
    found = RequestSet.load(tmp_path / "requests.npz")
    assert (found.input_name, found.output_name, len(found)) == ("pixels", "label", 2)
    assert np.array_equal(found.rows, rows)
    assert found.rows.dtype == np.float32
    assert found.is_right(0, 4.0) is (None if expected is None else True)
    assert found.is_right(1, 4.0) is (None if expected is None else False)


@pytest.mark.parametrize("rate", ["0", "-1", "100000"])
def test_a_rate_beyond_reason_is_refused(rate: str, tmp_path: Path) -> None:
    """The rate is bounded; the message says how."""
    place = ["--port", "1", "--authority", "a", "--model", "m", "--requests", "r"]
    with pytest.raises(SystemExit, match="--rate-rps: expected more than 0"):
        main([*place, "--output", str(tmp_path / "out"), "--rate-rps", rate])


def test_the_process_has_a_group_of_its_own_and_ends_when_told(tmp_path: Path) -> None:
    """Leaving the context ends the client process, even one that never got an answer."""
    with load_of(tmp_path, None) as load:
        [process] = [one for one in psutil.Process().children() if str(load.output) in one.cmdline()]
        assert os.getpgid(process.pid) == process.pid
        assert process.environ()["SLIPWAY_SANDBOX"] == str(tmp_path)
    assert not psutil.pid_exists(process.pid)
    assert load.answers() == []


def test_a_model_that_does_not_answer_in_time_is_an_error(tmp_path: Path) -> None:
    """Who needs answers from the start is told that there are none, and no process is left."""
    load = load_of(tmp_path, 0.5)
    with pytest.raises(SlipwayError, match="the clients got no answer"):
        load.__enter__()
    assert [one for one in psutil.Process().children() if str(load.output) in one.cmdline()] == []


def test_the_process_ends_with_its_parent(tmp_path: Path) -> None:
    """A demo that is killed leaves no client behind."""
    program = f"""
import time
from pathlib import Path
import numpy as np
import psutil
from slipway_sandbox.load.open_load import OpenLoad
from slipway_sandbox.load.request_set import RequestSet
folder = Path({str(tmp_path)!r})
load = OpenLoad(
    RequestSet("x", np.ones((1, 1), dtype=np.float32), "y"), port=1, authority="a", model="m", rate_rps=10,
    output=folder / "answers.jsonl", sandbox_root=folder, start_limit_s=None,
)
load.__enter__()
print(psutil.Process().children()[0].pid, flush=True)
time.sleep(600)
"""
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    client = psutil.Process(int(parent.stdout.readline()))
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    wait_until(lambda: not client.is_running() or client.status() == psutil.STATUS_ZOMBIE)

"""The storage initializer that verifies, interrupted: it ends in time, leaves nothing to load, and can be run again."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from slipway_sandbox.host.images import build_image
from tests.support.examples import nightly
from tests.support.pods.verified_download import Initializer, own_s3, put_version
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="session")
def image() -> Path:
    """The environment that stands for the image `slipway/verify`."""
    return build_image("verify")


MANY = {f"digits/1/part-{number:03}": bytes([number % 256]) * 1000 for number in range(300)}


def test_stopped_s3_ends_the_download_in_time(image: Path, tmp_path: Path) -> None:
    """An S3 that stops in the middle, without closing a connection, ends the program within its limit, empty-handed."""
    settings = {"SLIPWAY_VERIFY_STALL_S": "3", "SLIPWAY_VERIFY_WORKERS": "2"}
    with own_s3(tmp_path) as (endpoint, s3, client):
        source = put_version(client, MANY)
        initializer = Initializer(image, endpoint, tmp_path / "models", settings)
        process = initializer.start(source)
        wait_until(lambda: initializer.staged() >= 5, "some files are there")
        s3.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        _, told = process.communicate(timeout=120)
        assert (process.returncode, "a byte within 3 s" in told) == (75, True)
        assert time.monotonic() - began < 60
        assert list(initializer.destination.iterdir()) == []
        s3.send_signal(signal.SIGCONT)
        initializer.settings["SLIPWAY_VERIFY_STALL_S"] = "60"
        assert initializer.run(source) == (0, "")
        assert len(initializer.files()) == len(MANY) + 1


def test_s3_that_does_not_answer_at_all_ends_in_time(image: Path, tmp_path: Path) -> None:
    """An S3 that was stopped before ends the program within its limit, too."""
    with own_s3(tmp_path) as (endpoint, s3, client):
        source = put_version(client, {"digits/1/model.onnx": b"x"})
        s3.send_signal(signal.SIGSTOP)
        initializer = Initializer(image, endpoint, tmp_path / "models", {"SLIPWAY_VERIFY_TIMEOUT_S": "2"})
        began = time.monotonic()
        ended, told = initializer.run(source)
        assert (ended, "an end within 2 s" in told) == (75, True)
        assert time.monotonic() - began < 60


@pytest.mark.parametrize("how", [signal.SIGKILL, nightly(signal.SIGTERM)])
def test_killed_in_the_middle_and_run_again(image: Path, tmp_path: Path, how: signal.Signals) -> None:
    """Killed at any moment it leaves nothing that a server loads; run again, it ends with the whole version."""
    with own_s3(tmp_path) as (endpoint, _, client):
        source = put_version(client, MANY)
        initializer = Initializer(image, endpoint, tmp_path / "models", {"SLIPWAY_VERIFY_WORKERS": "2"})
        process = initializer.start(source)
        wait_until(lambda: initializer.staged() >= 20, "some files are there")
        process.send_signal(how)
        process.communicate(timeout=120)
        assert process.returncode == (-9 if how == signal.SIGKILL else 143)
        assert initializer.files() == {}
        assert how == signal.SIGKILL or list(initializer.destination.iterdir()) == []
        assert initializer.run(source) == (0, "")
        assert initializer.files() == {"digits/config.pbtxt": b'name: "digits"', **MANY}


def test_memory_does_not_grow_with_the_model(image: Path, tmp_path: Path) -> None:
    """A file of 256 MiB is checked in as much memory as a small one, give or take its pieces."""
    with own_s3(tmp_path) as (endpoint, _, client):
        peaks = []
        for size_mib in (1, 256):
            source = put_version(client, {"digits/1/model.onnx": bytes(size_mib * 2**20)})
            process = Initializer(image, endpoint, tmp_path / "models").start(source)
            assert process.stdout is not None
            process.stdout.read()
            _, status, usage = os.wait4(process.pid, 0)
            assert os.waitstatus_to_exitcode(status) == 0
            peaks.append(usage.ru_maxrss)
        assert peaks[1] - peaks[0] < 48 * 1024, peaks

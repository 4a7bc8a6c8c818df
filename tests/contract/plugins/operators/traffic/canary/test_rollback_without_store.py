"""A rollback while a freeze is in force and the object store, which has it, is stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.restore import RestoreStableOperator
from slipway.release_run import ReleaseRun
from slipway_sandbox.host.ports import LOOPBACK
from tests.support.canary.doubles import ServiceDouble
from tests.support.canary.operators import Operate, lead_users, stable_uri
from tests.support.release.freezing import frozen
from tests.support.store.connections import aws_connection, make_bucket
from tests.support.waiting import wait_until

_PROGRAM = (
    "import sys; from moto.server import ThreadedMotoServer;"
    f"server = ThreadedMotoServer('{LOOPBACK}', 0, verbose=False); server.start();"
    "print(server.get_host_and_port()[1], flush=True); sys.stdin.read()"
)


@pytest.fixture
def server() -> Iterator[subprocess.Popen[bytes]]:
    """An object store of its own process, which a test can stop."""
    process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def store(server: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch) -> ModelStoreHook:
    """The hook on a bucket of that store."""
    assert server.stdout is not None
    endpoint = f"http://{LOOPBACK}:{int(server.stdout.readline())}"
    monkeypatch.setenv("AIRFLOW_CONN_AWS_DEFAULT", aws_connection(endpoint))
    return ModelStoreHook(make_bucket(endpoint, "stopped"))


def test_no_freeze_and_no_stopped_store_hold_a_rollback_back(
    release_run: ReleaseRun,
    service: ServiceDouble,
    store: ModelStoreHook,
    operate: Operate,
    server: subprocess.Popen[bytes],
) -> None:
    """Users are off the candidate while the store still answers nothing: the way back does not ask for freezes."""
    lead_users(service, release_run, store, 50)
    frozen(store)
    frozen(store, "digits")
    os.kill(server.pid, signal.SIGSTOP)
    failures: list[BaseException] = []

    def run() -> None:
        try:
            operate(RestoreStableOperator)
        except BaseException as error:
            failures.append(error)

    task = threading.Thread(target=run, daemon=True)
    task.start()
    wait_until(lambda: service.model.users() == {stable_uri(release_run): 100}, "the way back")
    assert task.is_alive(), "the record comes later"
    os.kill(server.pid, signal.SIGCONT)
    task.join(60)
    assert failures == []

"""repository_gc and an object store that stands still in the middle of a deletion."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator

import pytest

from slipway.operators.operations import gc
from slipway.release_context import make_store
from slipway_core.errors import StoreUnavailableError
from tests.support.release.retention_run import GcRun, approved_before
from tests.support.store.store_process import StoreProcess

ANSWER_LIMIT_S = 1.0
# Some requests, each asked twice, on a busy machine.
ENDS_WITHIN_S = 60.0


@pytest.fixture(scope="module")
def store_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreProcess]:
    """The object store of this file's tests."""
    one = StoreProcess(tmp_path_factory.mktemp("store"))
    yield one
    one.signal(signal.SIGCONT)
    one.process.kill()
    one.process.wait(60)


@pytest.fixture(scope="module")
def s3_endpoint(store_process: StoreProcess) -> str:
    """In place of the server that the tests share."""
    return store_process.url


@pytest.mark.parametrize("operation", ["DeleteObject", "GetObject", "ListObjectsV2", "PutObject"])
def test_a_store_that_stands_still_ends_the_task(
    operation: str, gc_run: GcRun, store_process: StoreProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In time and with an error that names the store; when it is back, the next try finishes."""
    approved_before(gc_run.store)
    gc_run.answer_limit_s = ANSWER_LIMIT_S
    assert [one.version for one in gc_run.plan().with_action("delete")] == [1, 2]
    watched = make_store(
        gc_run.store.bucket,
        gc.load_model_spec(gc_run.releases_dir, "digits"),
        "aws_default",
        answer_limit_s=ANSWER_LIMIT_S,
    )
    watched.client.meta.events.register(
        f"before-send.s3.{operation}", lambda **_: store_process.signal(signal.SIGSTOP)
    )
    task = gc_run.deletion()
    task.__dict__["store"] = watched
    begun = time.monotonic()
    try:
        with monkeypatch.context() as patch:
            patch.setattr(gc, "make_store", lambda *_, **__: watched)
            with pytest.raises(StoreUnavailableError, match=gc_run.store.bucket):
                task.execute(gc_run.context)
        assert time.monotonic() - begun < ENDS_WITHIN_S
    finally:
        store_process.signal(signal.SIGCONT)
    assert {outcome for outcome, _ in gc_run.delete().values()} == {"deleted"}

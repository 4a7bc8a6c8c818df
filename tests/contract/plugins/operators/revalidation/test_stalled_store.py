"""model_revalidation and an object store that stands still in the middle of it."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator

import pytest
from airflow.sdk.exceptions import AirflowFailException

from slipway.operators.revalidation import base
from slipway.release_context import make_store
from slipway_core.errors import StoreUnavailableError
from slipway_core.spec.release_file import parse_release_spec
from slipway_sandbox.services.triton import TritonServer
from tests.support.release.revalidation_run import RELEASE_FILE, RevalidationRun
from tests.support.store.store_process import StoreProcess

pytestmark = pytest.mark.timeout(300)

ANSWER_LIMIT_S = 1.0
# A few requests a check, each asked twice, on a busy machine.
ENDS_WITHIN_S = 120.0


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


def test_a_store_that_stands_still_is_could_not_check(
    run: RevalidationRun,
    server: TritonServer,
    store_process: StoreProcess,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The task ends in time with an error that names the store, and the run's page says that nobody knows."""
    run.answer_limit_s = ANSWER_LIMIT_S
    spec = parse_release_spec(RELEASE_FILE, "rent.yaml")
    watched = make_store(run.store.bucket, spec, "aws_default", answer_limit_s=ANSWER_LIMIT_S)
    watched.client.meta.events.register(
        "before-send.s3.GetObject", lambda **_: store_process.signal(signal.SIGSTOP)
    )
    begun = time.monotonic()
    try:
        with monkeypatch.context() as patch:
            patch.setattr(base, "make_store", lambda *_, **__: watched)
            with pytest.raises(StoreUnavailableError, match=run.store.bucket):
                run.look()
        assert time.monotonic() - begun < ENDS_WITHIN_S
    finally:
        store_process.signal(signal.SIGCONT)
    with pytest.raises(AirflowFailException, match="rent: could not check, its task has failed"):
        run.show()
    assert "so their state is unknown" in run.page("page.html")
    assert run.look().standing == "checked"

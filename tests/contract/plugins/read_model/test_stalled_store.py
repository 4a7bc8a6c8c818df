"""A store that hangs or fails: pages show what is known with its age, tasks go on, nobody waits beyond the limit."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from slipway.hooks.s3_store import ModelStoreHook
from slipway.read_model import reader as reader_module
from slipway.read_model.keeper import keep_current
from slipway.read_model.reader import SLOTS, ReadModel
from slipway.read_model.writer import ViewWriter
from slipway_core.errors import SlipwayError, StoreUnavailableError, TimedOutError
from tests.support.read_model.asking import asked
from tests.support.read_model.histories import begun, promoted, record_of
from tests.support.store.connections import aws_connection, make_bucket
from tests.support.store.store_process import StoreProcess
from tests.support.waiting import wait_until

SLACK_S = 25.0  # a busy machine
LONGEST_S = 5.0  # of the limits that `ReadModel` has


@pytest.fixture
def server(tmp_path: Path) -> Iterator[StoreProcess]:
    """An object store in a process of its own."""
    one = StoreProcess(tmp_path)
    yield one
    one.signal(signal.SIGCONT)
    one.process.kill()
    one.process.wait()


@pytest.fixture
def seeded(server: StoreProcess, monkeypatch: pytest.MonkeyPatch) -> ModelStoreHook:
    """A bucket in it with a live version and a release under way; the hook has the limits of a reader."""
    monkeypatch.setenv("AIRFLOW_CONN_AWS_DEFAULT", aws_connection(server.url))
    store = ModelStoreHook(make_bucket(server.url, "slipway"), answer_limit_s=0.5)
    for version, said in ((1, promoted("digits", 1, None)), (2, begun("digits", 2, 1))):
        for event in record_of("digits", version, said):
            store.write_once(event.key, event.to_bytes())
    ViewWriter(store).bring_up_to_date("digits")
    return store


def threads() -> int:
    """Return how many threads ask for pages."""
    return sum(one.name == "slipway read model" for one in threading.enumerate())


def test_pages_show_what_is_known_while_the_store_hangs(seeded: ModelStoreHook, server: StoreProcess) -> None:
    """With its age and what is wrong, within the limit; and news when the store is back."""
    one = ReadModel(seeded)
    assert asked(lambda: one.model("digits")).live_version == 1
    asked(one.models)
    asked(lambda: one.release("digits", 2))
    asked(lambda: one.live("digits"))
    server.signal(signal.SIGSTOP)

    def is_told() -> bool:
        began = time.monotonic()
        found = (
            one.known_models(),
            one.known_model("digits"),
            one.known_release("digits", 2),
            one.known_live("digits"),
        )
        assert time.monotonic() - began < 4 * (LONGEST_S + SLACK_S)
        assert "digits" in found[0].value.models
        return all(known.problem for known in found)

    wait_until(is_told, "every answer says what is wrong")
    assert one.known_model("digits").age_s > 0
    with pytest.raises(SlipwayError):
        one.release("digits", 1)  # it was never read
    server.signal(signal.SIGCONT)
    wait_until(lambda: not one.known_model("digits").problem, "the store is back")


def test_many_who_ask_at_once_wait_no_longer_and_take_no_more_threads(
    seeded: ModelStoreHook, server: StoreProcess
) -> None:
    """Pages of models that were never read, while the store hangs: errors of our own, after the limit."""
    one = ReadModel(seeded)
    asked(one.models)
    server.signal(signal.SIGSTOP)
    most = 0

    def ask(number: int) -> float:
        nonlocal most
        began = time.monotonic()
        with pytest.raises((TimedOutError, StoreUnavailableError)):
            one.release("digits", 100 + number)
        most = max(most, threads())
        return time.monotonic() - began

    with ThreadPoolExecutor(40) as pool:
        seconds = list(pool.map(ask, range(40)))
    assert max(seconds) < LONGEST_S + SLACK_S
    assert most <= SLOTS + 2  # one that has just ended may still be there
    assert "digits" in one.models()


def test_a_store_that_is_away_is_no_empty_store(cut_off_store: ModelStoreHook) -> None:
    """Nothing known and nothing read is an error, not a page without models."""
    one = ReadModel(cut_off_store)
    for ask in (
        one.models,
        lambda: one.model("digits"),
        lambda: one.release("digits", 1),
        lambda: one.live("digits"),
    ):
        with pytest.raises(SlipwayError):
            ask()


def test_an_error_that_nobody_thought_of_is_one_of_ours(
    store: ModelStoreHook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page is told that something could not be read, never by a trace."""

    def fails(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(reader_module, "read_live", fails)
    with pytest.raises(StoreUnavailableError, match="could not be read"):
        ReadModel(store).live("digits")


def test_a_task_waits_for_its_document_no_longer_than_the_limit(
    seeded: ModelStoreHook, server: StoreProcess
) -> None:
    """A store that hangs costs the end of a task its limit, and no error."""
    server.signal(signal.SIGSTOP)
    began = time.monotonic()
    keep_current(seeded.with_answer_limit, "digits", [2], limit_s=0.5)
    assert time.monotonic() - began < 0.5 + SLACK_S


def test_a_document_that_cannot_be_written_fails_no_task(cut_off_store: ModelStoreHook) -> None:
    """It is best effort: what it does not come to, a reader does."""
    keep_current(cut_off_store.with_answer_limit, "digits", [2])


def test_a_store_that_hangs_is_waited_for_once(seeded: ModelStoreHook, server: StoreProcess) -> None:
    """Pages share the threads of the API server: the next ones are shown what is known at once."""
    one = ReadModel(seeded)
    asked(one.models)
    server.signal(signal.SIGSTOP)
    wait_until(lambda: bool(one.known_models().problem), "it is told that the store hangs")
    began = time.monotonic()
    for _ in range(50):
        one.known_models()
    assert time.monotonic() - began < SLACK_S

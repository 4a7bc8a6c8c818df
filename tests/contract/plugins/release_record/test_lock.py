"""ReleaseLock: one release of a model at a time, and no lock outlives the run that took it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from slipway.hooks.s3_store import ModelStoreHook
from slipway.release_record import lock as lock_module
from slipway.release_record.lock import LockOwner, LockUnreadableError, ReleaseLock, lock_key
from slipway.triggers import lock as lock_trigger
from slipway.triggers.lock import LockFreedTrigger
from slipway_core.errors import StoreUnavailableError, UserError
from tests.support.stalled.deaf import deaf_server
from tests.support.store.connections import own_connection

FIRST = LockOwner("digits-1", 1)
SECOND = LockOwner("digits-2", 2)


def lock(store: ModelStoreHook, *running: str, model: str = "digits") -> ReleaseLock:
    """Return the lock of a model while the releases with these ids are under way."""
    return ReleaseLock(store, model, lambda owner: owner.release_id in running)


def test_free_lock_is_taken(store: ModelStoreHook) -> None:
    """The first to ask holds the lock, and the bucket says who it is."""
    assert lock(store).acquire(FIRST) == FIRST
    held = json.loads(store.read("records/digits/active.json") or b"")
    assert held == {"release_id": "digits-1", "version": 1, "dag_id": "model_release"}


def test_lock_of_a_running_release_stands(store: ModelStoreHook) -> None:
    """Whoever asks while the owner is under way is told who it is, and takes nothing."""
    lock(store).acquire(FIRST)
    assert lock(store, "digits-1").acquire(SECOND) == FIRST
    assert lock(store, "digits-1").acquire(FIRST) == FIRST, "the owner may ask again: its task was run again"


def test_models_have_locks_of_their_own(store: ModelStoreHook) -> None:
    """Releases of two models do not wait for each other."""
    lock(store).acquire(FIRST)
    assert lock(store, "digits-1", model="magika").acquire(SECOND) == SECOND


def test_lock_of_an_ended_release_is_taken_over(store: ModelStoreHook) -> None:
    """An owner that has ended without giving its lock back cannot keep it."""
    lock(store).acquire(FIRST)
    assert lock(store).acquire(SECOND) == SECOND
    assert lock(store, "digits-2").acquire(FIRST) == SECOND


def test_release_gives_the_lock_back(store: ModelStoreHook) -> None:
    """After the owner has released it, the next one takes it without asking who runs."""
    lock(store).acquire(FIRST)
    lock(store).release(FIRST)
    assert lock(store, "digits-1").acquire(SECOND) == SECOND


def test_release_leaves_anothers_lock(store: ModelStoreHook) -> None:
    """A release that lost its lock does not take away the one of who has it now; a second release is no error."""
    lock(store).acquire(FIRST)
    lock(store).acquire(SECOND)
    lock(store).release(FIRST)
    assert lock(store, "digits-2").acquire(FIRST) == SECOND
    lock(store).release(SECOND)
    lock(store).release(SECOND)
    assert store.read("records/digits/active.json") is None


def test_race_for_a_free_lock_has_one_winner(store: ModelStoreHook) -> None:
    """Of releases that ask at the same moment all are told the same owner."""
    assert race(store, lambda _: True) == 1


def test_race_for_a_dead_owners_lock_has_one_winner(store: ModelStoreHook) -> None:
    """Of releases that find a dead owner at the same moment one takes over, and the others see it."""
    lock(store).acquire(LockOwner("dead", 9))
    assert race(store, lambda owner: owner.release_id != "dead") == 1


def race(store: ModelStoreHook, is_running: Callable[[LockOwner], bool]) -> int:
    """Let eight releases ask at once; return how many different owners they were told, each of them a contender."""
    contenders = [LockOwner(f"run-{number}", number) for number in range(1, 9)]
    start = Barrier(len(contenders))
    assert store.client  # one client for all threads

    def ask(owner: LockOwner) -> LockOwner:
        start.wait(60)
        return ReleaseLock(store, "digits", is_running).acquire(owner)

    with ThreadPoolExecutor(len(contenders)) as pool:
        owners = set(pool.map(ask, contenders))
    assert owners <= set(contenders)
    return len(owners)


def test_owner_ends_and_releases_between_read_and_take_over(store: ModelStoreHook) -> None:
    """A lock that is given back just before it would be taken over is simply taken."""
    lock(store).acquire(FIRST)

    def ends_while_asked(owner: LockOwner) -> bool:
        store.delete("records/digits/active.json")
        return False

    assert ReleaseLock(store, "digits", ends_while_asked).acquire(SECOND) == SECOND


def test_owner_changes_between_read_and_take_over(store: ModelStoreHook) -> None:
    """A lock that another release takes over first is that release's."""
    lock(store).acquire(LockOwner("dead", 9))

    def another_is_faster(owner: LockOwner) -> bool:
        if owner.release_id == "dead":
            lock(store).acquire(FIRST)
        return owner == FIRST

    assert ReleaseLock(store, "digits", another_is_faster).acquire(SECOND) == FIRST


def test_unreachable_store_is_no_lock(cut_off_store: ModelStoreHook) -> None:
    """Nobody holds a lock that could not be asked for."""
    with pytest.raises(StoreUnavailableError):
        lock(cut_off_store).acquire(FIRST)


# --- what others may have put there ---

_KEY = "records/digits/active.json"
_OWNER: dict[str, object] = {"release_id": "digits-1", "version": 1, "dag_id": "model_release"}
_UNREADABLE = {
    "empty": b"",
    "no JSON": b"digits-1",
    "no text": b"\xff\xfe",
    "deep": b"[" * 10_000,
    "a list": b"[1]",
    "null": b"null",
    "an empty object": b"{}",
    "other fields": b'{"holder": "me"}',
    "no version": b'{"release_id": "digits-1"}',
    "a version of text": json.dumps({**_OWNER, "version": "1"}).encode(),
    "a version that is true": json.dumps({**_OWNER, "version": True}).encode(),
    "version 0": json.dumps({**_OWNER, "version": 0}).encode(),
    "a release id that is none": json.dumps({**_OWNER, "release_id": None}).encode(),
    "no release id": json.dumps({**_OWNER, "release_id": ""}).encode(),
    "a DAG that is none": json.dumps({**_OWNER, "dag_id": ["model_release"]}).encode(),
    "huge": json.dumps({**_OWNER, "more": "x" * 20_000}).encode(),
}


@pytest.mark.parametrize("content", _UNREADABLE.values(), ids=_UNREADABLE)
def test_lock_that_names_no_run_is_told_of_and_left(store: ModelStoreHook, content: bytes) -> None:
    """Nobody can be asked whether its owner has ended: the error names the object and how to remove it."""
    store.write(_KEY, content)

    def asked(owner: LockOwner) -> bool:
        raise AssertionError(f"{owner} was asked for")

    with pytest.raises(LockUnreadableError, match=f"aws s3 rm s3://{store.bucket}/{_KEY}") as told:
        ReleaseLock(store, "digits", asked).acquire(FIRST)
    assert isinstance(told.value, UserError)
    assert told.value.found
    assert len(str(told.value)) < 700
    assert store.read(_KEY) == content


def test_release_leaves_a_lock_that_names_no_run(
    store: ModelStoreHook, caplog: pytest.LogCaptureFixture
) -> None:
    """How a release ends does not depend on what lies at the lock's key; the log tells the remedy."""
    store.write(_KEY, b"")
    lock(store).release(FIRST)
    assert store.read(_KEY) == b""
    assert any(f"aws s3 rm s3://{store.bucket}/{_KEY}" in line.getMessage() for line in caplog.records)


def test_lock_with_more_fields_is_its_owners(store: ModelStoreHook) -> None:
    """What names a run is that run's lock, whatever else it says: it stands while the run does, and no longer."""
    store.write(_KEY, json.dumps({**_OWNER, "since": "2026-01-02"}).encode())
    assert lock(store, "digits-1").acquire(SECOND) == FIRST
    assert lock(store).acquire(SECOND) == SECOND


def test_lock_written_before_it_named_the_dag_is_a_releases(store: ModelStoreHook) -> None:
    """An owner without a DAG is a release."""
    store.write(_KEY, b'{"release_id": "digits-1", "version": 1}')
    assert lock(store, "digits-1").acquire(SECOND) == FIRST


def test_release_does_not_delete_a_successors_lock(
    store: ModelStoreHook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lock that is taken over between read and delete stays: what is deleted is what was read."""
    lock(store).acquire(FIRST)
    read = store.read_with_etag

    def taken_over_after_the_read(key: str, **limits: int) -> object:
        found = read(key, **limits)
        store.write(_KEY, json.dumps({**_OWNER, "release_id": "digits-2", "version": 2}).encode())
        return found

    monkeypatch.setattr(store, "read_with_etag", taken_over_after_the_read)
    lock(store).release(FIRST)
    monkeypatch.undo()
    assert lock(store, "digits-2").acquire(FIRST) == SECOND


def test_lock_that_changes_all_the_time_is_given_up(
    store: ModelStoreHook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store in which the lock is there to a write and gone to a read does not keep a task for ever."""
    asked: list[str] = []
    monkeypatch.setattr(store, "write_once", lambda key, body, **_: asked.append(key))
    monkeypatch.setattr(lock_module, "_FIRST_PAUSE_S", 0.001)
    with pytest.raises(StoreUnavailableError, match="could not be taken"):
        lock(store).acquire(FIRST)
    assert asked == [_KEY] * 8


# --- waiting for it ---


async def test_who_waits_is_woken_when_the_lock_is_given_back(
    store: ModelStoreHook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wait is the triggerer's; it ends with the lock, and also where another release has it by now."""
    monkeypatch.setattr(lock_trigger, "POLL_INTERVAL_S", 0.01)
    key = lock_key("digits")
    freed: Callable[[], object]
    for freed in (lambda: store.delete(key), lambda: store.write(key, SECOND.to_bytes())):
        store.write(key, FIRST.to_bytes())
        trigger = LockFreedTrigger(
            bucket=store.bucket, model="digits", holder="digits-1", aws_conn_id="aws_default"
        )
        path, arguments = trigger.serialize()
        assert path == "slipway.triggers.lock.LockFreedTrigger"
        waiting = asyncio.ensure_future(anext(LockFreedTrigger(**arguments).run()))
        done, _ = await asyncio.wait({waiting}, timeout=0.2)
        assert not done
        freed()
        assert (await asyncio.wait_for(waiting, 60)).payload is None


async def test_who_waits_looks_for_a_dead_owner_now_and_then(
    store: ModelStoreHook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody gives back the lock of a run that has died: after a while the wait ends all the same."""
    monkeypatch.setattr(lock_trigger, "POLL_INTERVAL_S", 0.01)
    monkeypatch.setattr(lock_trigger, "LIMIT_S", 0.1)
    store.write(lock_key("digits"), FIRST.to_bytes())
    trigger = LockFreedTrigger(
        bucket=store.bucket, model="digits", holder="digits-1", aws_conn_id="aws_default"
    )
    await asyncio.wait_for(anext(trigger.run()), 60)


async def test_who_waits_does_not_hang_with_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that takes a connection and answers nothing ends one look, and so frees the triggerer's thread."""
    monkeypatch.setattr(lock_trigger, "POLL_INTERVAL_S", 0.01)
    monkeypatch.setattr(lock_trigger, "LIMIT_S", 0.1)
    monkeypatch.setattr(lock_trigger, "_ANSWER_LIMIT_S", 0.5)
    with deaf_server() as address, own_connection(f"http://{address}") as conn_id:
        trigger = LockFreedTrigger(bucket="slipway", model="digits", holder="digits-1", aws_conn_id=conn_id)
        await asyncio.wait_for(anext(trigger.run()), 60)

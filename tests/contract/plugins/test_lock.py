"""ReleaseLock: one release of a model at a time, and no lock outlives the run that took it."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from slipway.hooks.lock import LockOwner, ReleaseLock
from slipway.hooks.store import ModelStoreHook

from include.model_release.errors import StoreUnavailableError

FIRST = LockOwner("digits-1", 1)
SECOND = LockOwner("digits-2", 2)


def lock(store: ModelStoreHook, *running: str, model: str = "digits") -> ReleaseLock:
    """Return the lock of a model in a world where the releases with these ids are under way."""
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
        start.wait(10)
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

"""A process that goes on late, after another one has taken its release over: it changes no server any more."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from slipway.fleet import FleetStore
from slipway.fleet.release import settle_fleet
from slipway.fleet.server import FleetServer
from slipway.hooks.s3_store import ModelStoreHook
from slipway_core.errors import ReleaseInProgressError, ServerUnavailableError, SlipwayError
from slipway_core.fleet.alias import version_name
from slipway_core.fleet.document import FleetDocument
from tests.support.fleet.servers import MODEL, TritonFleet
from tests.support.fleet.steps import before, document, on_all

pytestmark = pytest.mark.timeout(600)

TAKEN_OVER = "written by another process"
# On the last server its files are another model.
DIFFERS_ON_ONE = 4


class Late:
    """At its first call for s1 a server's method lets others act, fails, and so is tried again.

    :param others: what other processes do meanwhile.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, step: str, others: Callable[[], object]) -> None:
        self._real = getattr(FleetServer, step)
        self._others = others
        self.has_begun = False
        late = self

        async def method(server: FleetServer, *arguments: Any) -> None:
            await late.call(server, *arguments)

        monkeypatch.setattr(FleetServer, step, method)

    async def call(self, server: FleetServer, *arguments: Any) -> None:
        """Do what the method does; the first time for s1, fail after the others have acted."""
        if server.name == "s1" and not self.has_begun:
            self.has_begun = True
            await asyncio.to_thread(self._others)
            raise ServerUnavailableError("s1 has hung")
        await self._real(server, *arguments)


class Killed(BaseException):
    """Ends a process of the test's."""


class StoreThatKills(FleetStore):
    """Ends the process that has written down that it commits."""

    async def write(self, document: FleetDocument) -> None:
        """Write, and end."""
        await super().write(document)
        if document.run is not None and document.run.phase == "commit":
            raise Killed


class StoreThatHangs(FleetStore):
    """Is read no more after the way back was written down, until `answers` is set."""

    hangs_since: float | None = None
    answers = threading.Event()

    async def write(self, document: FleetDocument) -> None:
        """Write, and hang from then on."""
        await super().write(document)
        if document.run is not None and document.run.phase == "back":
            self.hangs_since = time.monotonic()

    def _now(self) -> tuple[bytes, str] | None:
        if self.hangs_since is not None:
            self.answers.wait(60)
        return super()._now()


def settle(fleet: TritonFleet, store: ModelStoreHook, version: int) -> None:
    """Lead the release `two` back, as another process does."""
    asyncio.run(settle_fleet(fleet.release(store, version, "two")))


def test_commit_is_not_repeated(
    fleet: TritonFleet, store: ModelStoreHook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run is stopped and settled while its process tries a server once more: all servers stay with what they had."""
    fleet.bring(store, 1, "one")
    late = Late(monkeypatch, "commit", lambda: settle(fleet, store, 2))
    with pytest.raises(ReleaseInProgressError, match=TAKEN_OVER):
        fleet.bring(store, 2, "two")
    assert late.has_begun
    assert fleet.served() == on_all(1)
    assert document(store).run is None


def test_way_back_is_not_repeated(
    fleet: TritonFleet, store: ModelStoreHook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run is settled while its process leads back, and a later release ends: its version stays on all servers."""
    fleet.bring(store, 1, "one")

    def others() -> None:
        settle(fleet, store, DIFFERS_ON_ONE)
        assert fleet.bring(store, 2, "three").outcome == "committed"

    late = Late(monkeypatch, "clean", others)
    with pytest.raises(ReleaseInProgressError, match=TAKEN_OVER):
        fleet.bring(store, DIFFERS_ON_ONE, "two")
    assert late.has_begun
    assert fleet.served() == on_all(2)


def test_nothing_is_unloaded_that_another_release_has_loaded(
    fleet: TritonFleet, store: ModelStoreHook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a process drains, its run is ended, and the version before is about to come back: that stays loaded."""
    fleet.bring(store, 1, "one")

    def others() -> None:
        assert fleet.bring(store, 2, "two").outcome == "committed"
        with pytest.raises(Killed):
            fleet.bring(store, 1, "three", store=StoreThatKills(store, "pair", MODEL))

    late = Late(monkeypatch, "drain", others)
    with pytest.raises(ReleaseInProgressError, match=TAKEN_OVER):
        fleet.bring(store, 2, "two")
    assert late.has_begun
    assert all(version_name(MODEL, 1) in fleet.loaded(name) for name in fleet.servers)
    assert fleet.bring(store, 1, "three").outcome == "committed"
    assert fleet.served() == on_all(1)


@pytest.mark.parametrize("found", [b"{", None], ids=["damaged", "gone"])
def test_document_that_is_none_holds_no_way_back_up(
    fleet: TritonFleet, store: ModelStoreHook, monkeypatch: pytest.MonkeyPatch, found: bytes | None
) -> None:
    """It does not say that another process has taken over: the servers are led back, and then it is told."""
    fleet.bring(store, 1, "one")

    def spoil() -> None:
        if found is None:
            store.delete("fleets/pair/fleet.json")
        else:
            store.write("fleets/pair/fleet.json", found)

    late = Late(monkeypatch, "clean", spoil)
    with pytest.raises(SlipwayError):
        fleet.bring(store, DIFFERS_ON_ONE, "two")
    assert late.has_begun
    assert fleet.served() == on_all(1)
    assert not any(version_name(MODEL, DIFFERS_ON_ONE) in fleet.loaded(name) for name in fleet.servers)


def test_store_that_hangs_holds_no_way_back_up(
    fleet: TritonFleet, store: ModelStoreHook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nobody can say whether another process has taken over, the servers are led back all the same."""
    fleet.bring(store, 1, "one")
    cleaned_at = list[float]()
    monkeypatch.setattr(
        FleetServer, "clean", before("clean", lambda server: cleaned_at.append(time.monotonic()))
    )
    hanging = StoreThatHangs(store, "pair", MODEL)
    try:
        outcome = fleet.bring(store, DIFFERS_ON_ONE, "two", store=hanging)
    finally:
        hanging.answers.set()
    assert outcome.outcome == "taken_back"
    assert hanging.hangs_since is not None
    assert cleaned_at[0] - hanging.hangs_since < 5.0
    assert fleet.served() == on_all(1)

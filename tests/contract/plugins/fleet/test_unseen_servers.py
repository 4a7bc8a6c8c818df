"""Servers that nobody can see: what is not known of them is never taken for well done."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence

import pytest

from slipway.fleet import FleetStore, Member
from slipway.fleet.release import settle_fleet
from slipway.fleet.server import FleetServer
from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.fleet.release import require_committed, require_settled
from slipway_core.errors import ServerUnavailableError, StoreUnavailableError
from slipway_core.fleet.document import FleetDocument
from tests.support.fleet.servers import MODEL, TritonFleet
from tests.support.fleet.steps import ALL, document, on_all, stopping_at

pytestmark = pytest.mark.timeout(600)


class Unlisted:
    """The fleet's servers, of which a list names none any more: EndpointSlices without an endpoint.

    :param looks: so many lists name them all.
    """

    def __init__(self, fleet: TritonFleet, looks: int = 0) -> None:
        self._fleet, self._looks = fleet, looks

    async def current(self) -> Sequence[Member]:
        """Return all servers, or none."""
        self._looks -= 1
        return await self._fleet.members.current() if self._looks >= 0 else []

    async def require_fencing(self) -> None:
        """Find nothing wrong."""

    async def fence(self, name: str, reason: str) -> None:
        """Is not asked for."""
        raise AssertionError(name)


class Late(Unlisted):
    """The other way round: the first lists name none."""

    async def current(self) -> Sequence[Member]:
        """Return none, or all servers."""
        self._looks -= 1
        return [] if self._looks >= 0 else await self._fleet.members.current()


class Undrained(FleetStore):
    """An object store that goes away when all servers have the version."""

    async def write(self, document: FleetDocument) -> None:
        """Write what comes before the drain."""
        if document.run is not None and document.run.phase == "drain":
            raise StoreUnavailableError("the object store is away")
        await super().write(document)


def left_in_the_commit(fleet: TritonFleet, store: ModelStoreHook) -> None:
    """Have all servers serve version 2 by a release that is left open there; the fleet's version is 1."""
    fleet.bring(store, 1, "one")
    with pytest.raises(StoreUnavailableError, match="could not be recorded"):
        fleet.bring(store, 2, "two", store=Undrained(store, "pair", MODEL))
    assert fleet.served() == on_all(2)


def test_list_that_becomes_empty_takes_no_server_out(fleet: TritonFleet, store: ModelStoreHook) -> None:
    """In the middle of a release: those known before are asked, and all of them get the version."""
    fleet.bring(store, 1, "one")
    outcome = fleet.bring(store, 2, "two", members=Unlisted(fleet, 2))
    assert outcome.outcome == "committed"
    assert set(outcome.servers) == set(fleet.servers)
    assert fleet.served() == on_all(2)


def test_empty_list_leads_nobody_back(fleet: TritonFleet, store: ModelStoreHook) -> None:
    """Where nobody was asked what he serves, nothing is said to be back: the release stays open, and is ended later."""
    left_in_the_commit(fleet, store)
    outcome = asyncio.run(settle_fleet(fleet.release(store, 2, "two", members=Unlisted(fleet))))
    assert outcome is not None
    assert (outcome.outcome, outcome.servers) == ("failed", {})
    with pytest.raises(ServerUnavailableError, match="none was asked what it serves"):
        require_settled(outcome)
    assert document(store).run is not None
    again = asyncio.run(settle_fleet(fleet.release(store, 2, "two")))
    assert again is not None
    assert again.outcome == "taken_back"
    assert fleet.served() == on_all(1)


def test_next_release_forgets_nobody_whom_an_empty_list_hid(
    fleet: TritonFleet, store: ModelStoreHook
) -> None:
    """It leads its own servers back to what they had before both, never to the version that was left on them."""
    left_in_the_commit(fleet, store)
    outcome = fleet.bring(store, 4, "three", members=Late(fleet, 1), is_running=lambda run_id: False)
    assert outcome.outcome == "taken_back"
    assert fleet.served() == on_all(1)


def test_server_that_is_lost_after_the_commit_is_told_and_brought_later(
    fleet: TritonFleet, store: ModelStoreHook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others keep the version. The task fails, and says who is missing; tried again, it ends what it had begun."""
    fleet.bring(store, 1, "one")
    with monkeypatch.context() as patched:
        patched.setattr(FleetServer, "drain", stopping_at(fleet, "s1", "drain"))
        try:
            outcome = fleet.bring(store, 2, "two")
        finally:
            fleet.signal("s1", signal.SIGCONT)
    assert (outcome.outcome, outcome.missing) == ("committed", ("s1",))
    with pytest.raises(ServerUnavailableError, match="not seen on s1"):
        require_committed(outcome)
    kept = document(store)
    assert kept.run is not None
    assert (kept.version, kept.run.phase) == (2, "drain")
    assert fleet.served() == on_all(2)
    again = fleet.bring(store, 2, "two")
    require_committed(again)
    assert document(store).run is None
    assert {name: fleet.loaded(name) - {MODEL} for name in ALL} == {name: {"table_v2"} for name in ALL}

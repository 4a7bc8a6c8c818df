"""Servers of a fleet that hang, go on later, or are fenced."""

from __future__ import annotations

import asyncio
import signal
import time
from typing import Any

import pytest

from airflow_provider_triton.client import calls
from airflow_provider_triton.client.caller import TritonCaller
from airflow_provider_triton.client.calls import Call
from slipway.fleet.server import FleetServer
from slipway.hooks.s3_store import ModelStoreHook
from slipway_core.errors import (
    ServerRefusedError,
)
from slipway_core.fleet.alias import LoadedVersion, alias_files, loaded_version
from tests.support.fleet.servers import FACTORS, MODEL, POLICY, TritonFleet, digest
from tests.support.fleet.steps import before, document, on_all, stopping_at

pytestmark = pytest.mark.timeout(600)


def test_one_that_hangs_takes_all_back(
    fleet: TritonFleet, store: ModelStoreHook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that stops during the commit: the others are led back within limits. When it goes on, the same run
    leads it back too, or brings all."""
    fleet.bring(store, 1, "one")
    with monkeypatch.context() as patched:
        patched.setattr(FleetServer, "commit", stopping_at(fleet, "s1"))
        try:
            outcome = fleet.bring(store, 2, "two")
        finally:
            fleet.signal("s1", signal.SIGCONT)
    assert outcome.outcome == "taken_back"
    assert outcome.servers["s1"].state == "unreachable"
    left = document(store).run
    assert left is not None
    assert left.phase == "back"
    again = fleet.bring(store, 2, "three", is_running=lambda run_id: False)
    assert again.outcome == "committed"
    assert fleet.served() == on_all(2)


def test_server_that_did_not_answer_the_commit_is_led_back_unseen(
    fleet: TritonFleet, store: ModelStoreHook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It still shows what it had, and may carry out the commit later: what leads it back is asked for all the same."""
    fleet.bring(store, 1, "one")
    led_back: list[str] = []
    commit = FleetServer.commit

    async def unanswered(self: FleetServer, wanted: LoadedVersion, limit_s: float) -> None:
        if self.name == "s1":
            raise ServerRefusedError("s1 has not said whether it did")
        await commit(self, wanted, limit_s)

    async def unshown(self: FleetServer, wanted: LoadedVersion, error: Any) -> None:
        if error is not None:
            raise error

    monkeypatch.setattr(FleetServer, "commit", unanswered)
    monkeypatch.setattr(FleetServer, "require_committed", unshown)
    monkeypatch.setattr(FleetServer, "restore", before("restore", lambda one: led_back.append(one.name)))
    assert fleet.bring(store, 2, "two").outcome == "taken_back"
    assert sorted(led_back) == ["s0", "s1", "s2"]
    assert fleet.served() == on_all(1)


def test_load_that_does_not_end_takes_all_back(
    fleet: TritonFleet, store: ModelStoreHook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that answers questions, and not the commit: others answer with the new version for no longer than the
    policy says. Where the way back does not end on it either, that is said within limits too."""
    fleet.bring(store, 1, "one")
    ask, loads = TritonCaller.ask_async, list[float]()

    async def endless(self: TritonCaller, call: Call[Any], limit_s: float | None = None) -> Any:
        if call.doing == f"loading {MODEL!r}" and self.settings.conn_id == "s1":
            loads.append(time.monotonic())
            await asyncio.Event().wait()
        return await ask(self, call, limit_s)

    limits = {"commit_limit_s": 3.0, "unreachable_s": 60.0, "load_limit_s": 60.0}
    with monkeypatch.context() as patched:
        patched.setattr(TritonCaller, "ask_async", endless)
        outcome = fleet.bring(store, 2, "two", policy=POLICY.model_copy(update=limits))
    assert (outcome.outcome, outcome.servers["s1"].state) == ("failed", "failed")
    assert outcome.commit_ms is not None
    assert 3_000 <= outcome.commit_ms < 10_000
    assert loads[1] - loads[0] < 10, "the others were led back with it"
    assert time.monotonic() - loads[0] < 30
    assert fleet.served() == on_all(1)
    assert fleet.bring(store, 2, "two").outcome == "taken_back"
    assert document(store).run is None


def test_what_a_server_that_hung_serves_late_is_not_what_it_had(
    fleet: TritonFleet, store: ModelStoreHook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that hung in a commit, and all through the next release, is led back to what it had before both."""
    fleet.bring(store, 1, "one")
    with monkeypatch.context() as patched:
        patched.setattr(FleetServer, "commit", stopping_at(fleet, "s1"))
        try:
            assert fleet.bring(store, 2, "two").outcome == "taken_back"
            patched.undo()
            again = fleet.bring(store, 4, "three", is_running=lambda run_id: False)
        finally:
            fleet.signal("s1", signal.SIGCONT)
    assert again.servers["s1"].state == "unreachable"
    late = loaded_version(MODEL, 2, {MODEL: fleet.config(2)}, digest(2))
    fleet.ask("s1", calls.load(MODEL, late.alias(), alias_files(2)))  # if it has not carried it out by itself
    assert fleet.served(["s1"]) == {"s1": ("2", FACTORS[2])}
    last = fleet.bring(store, 4, "four", is_running=lambda run_id: False)
    assert last.outcome == "taken_back"
    assert fleet.served() == on_all(1)

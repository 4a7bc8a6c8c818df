"""A version on several real tritonservers: all of them have it in the end, or none does."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_triton.client import calls
from slipway.fleet import FleetStore, release_fleet
from slipway.fleet.server import FleetServer
from slipway.hooks.s3_store import ModelStoreHook
from slipway_core.errors import (
    ModelInvalidError,
    RaiseRefusedError,
    ReleaseInProgressError,
    ServerUnavailableError,
    StoreUnavailableError,
    UserError,
)
from slipway_core.fleet.alias import alias_target
from slipway_core.fleet.document import FleetDocument
from slipway_core.triton_config.build import pin_versions
from tests.support.fleet.servers import FACTORS, MODEL, POLICY, TritonFleet, Users, digest
from tests.support.fleet.steps import ALL, document, on_all

pytestmark = pytest.mark.timeout(600)


def test_all_servers_get_the_version(fleet: TritonFleet, store: ModelStoreHook) -> None:
    """Each serves it under the model's name and with its true number; what was before is unloaded."""
    first = fleet.bring(store, 1, "one")
    assert (first.outcome, first.from_version, first.reasons) == ("committed", None, ())
    assert fleet.served() == on_all(1)
    second = fleet.bring(store, 2, "two")
    assert (second.outcome, second.from_version, second.reasons) == ("committed", 1, ())
    assert fleet.served() == on_all(2)
    assert {name: fleet.loaded(name) - {MODEL} for name in ALL} == {name: {"table_v2"} for name in ALL}
    assert second.prepare_s is not None
    assert second.commit_ms is not None
    kept = document(store)
    assert (kept.version, kept.manifest_sha256, kept.run) == (2, digest(2), None)


@pytest.mark.parametrize(
    ("version", "reason"), [(3, "refuses to load"), (4, "answers the golden request differently")]
)
def test_one_that_differs_takes_all_back(
    fleet: TritonFleet, store: ModelStoreHook, version: int, reason: str
) -> None:
    """A server that cannot load it, or answers otherwise, keeps it from all; each has what it had."""
    fleet.bring(store, 1, "one")
    outcome = fleet.bring(store, version, "two")
    assert outcome.outcome == "taken_back"
    assert any(one.startswith("s2: ") and reason in one for one in outcome.reasons), outcome.reasons
    assert fleet.served() == on_all(1)
    assert {name: fleet.loaded(name) - {MODEL} for name in ALL} == {name: {"table_v1"} for name in ALL}
    assert document(store).run is None


def test_first_release_that_fails_at_the_commit_is_on_no_server(
    fleet: TritonFleet, store: ModelStoreHook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Users got the version on some servers, which had nothing before: nobody has it in the end."""
    commit = FleetServer.commit

    async def refusing(self: FleetServer, *arguments: Any) -> None:
        if self.name == "s1":
            raise ModelInvalidError("s1 refuses it")
        await commit(self, *arguments)

    monkeypatch.setattr(FleetServer, "commit", refusing)
    outcome = fleet.bring(store, 1, "one")
    assert outcome.outcome == "taken_back", outcome.reasons
    assert fleet.served() == on_all(None)
    assert not any(fleet.loaded(name) for name in fleet.servers)
    monkeypatch.setattr(FleetServer, "commit", commit)
    assert fleet.bring(store, 1, "two").outcome == "committed"


def test_server_that_does_not_say_what_it_has_counts(
    fleet: TritonFleet, store: ModelStoreHook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lives, and could not be led back: nobody goes on without it. For a moment it is waited for."""
    fleet.bring(store, 1, "one")
    real, answers = FleetServer.before, list[str]()

    async def silent(self: FleetServer) -> Any:
        if self.name == "s1" and len(answers) < 2:
            answers.append(self.name)
            raise ServerUnavailableError("s1 is busy")
        return await real(self)

    monkeypatch.setattr(FleetServer, "before", silent)
    # On a busy machine the others take long to prepare, and s1 is asked again only then.
    patient = POLICY.model_copy(update={"unreachable_s": 30.0})
    assert fleet.bring(store, 2, "two", policy=patient).outcome == "committed"
    assert fleet.served() == on_all(2)

    async def mute(self: FleetServer) -> Any:
        if self.name == "s1":
            raise ServerUnavailableError("s1 is busy")
        return await real(self)

    monkeypatch.setattr(FleetServer, "before", mute)
    outcome = fleet.bring(store, 1, "three")
    assert outcome.outcome == "taken_back"
    assert any("s1: no answer" in one for one in outcome.reasons)
    assert fleet.served() == on_all(2)


def test_server_that_has_lost_all_is_led_back_too(
    fleet: TritonFleet, store: ModelStoreHook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that was killed and started anew has nothing loaded: it gets again what its users had, as it was loaded."""
    fleet.bring(store, 1, "one")
    facts, laid = FleetServer.facts, Path(fleet.servers["s1"].repository) / "table_v1" / "config.pbtxt"
    before = laid.read_text()

    async def lost(self: FleetServer, *arguments: Any) -> Any:
        if self.name == "s1" and "table_v1" in await asyncio.to_thread(fleet.loaded, "s1"):
            for name in (MODEL, "table_next", "table_v1", "table_v4"):
                await asyncio.to_thread(fleet.ask, "s1", calls.unload(name))
            # Whoever has laid it there has not named it by its folder: Triton does not load it by itself.
            laid.write_text(before.replace("table_v1", MODEL))
        return await facts(self, *arguments)

    monkeypatch.setattr(FleetServer, "facts", lost)
    try:
        outcome = fleet.bring(store, 4, "two")
    finally:
        laid.write_text(before)
    assert outcome.outcome == "taken_back", outcome.reasons
    assert fleet.served() == on_all(1)
    assert {name: fleet.loaded(name) - {MODEL} for name in ALL} == {name: {"table_v1"} for name in ALL}


def test_version_that_users_may_not_get_is_on_no_server(fleet: TritonFleet, store: ModelStoreHook) -> None:
    """Who refuses the permission is asked before any user meets the version, and keeps it from all."""
    fleet.bring(store, 1, "one")

    def refused() -> None:
        assert fleet.served() == on_all(1)
        raise RaiseRefusedError("version 2 may not get users", found="no gate has passed")

    outcome = fleet.bring(store, 2, "two", permit=refused)
    assert outcome.outcome == "taken_back"
    assert "no gate has passed" in outcome.reasons[0]
    assert outcome.commit_ms is None
    assert fleet.served() == on_all(1)


def test_version_that_is_rejected_between_entry_and_commit_is_on_no_server(
    fleet: TritonFleet, store: ModelStoreHook
) -> None:
    """The permission is asked for again right before users get it; what was allowed at the entry does not count."""
    fleet.bring(store, 1, "one")
    asked = 0

    def refused() -> None:
        nonlocal asked
        asked += 1
        if asked > 1:
            raise RaiseRefusedError("version 2 may not get users", found="it was rejected by bob")

    outcome = fleet.bring(store, 2, "two", permit=refused)
    assert (outcome.outcome, asked) == ("taken_back", 2)
    assert "rejected by bob" in outcome.reasons[0]
    assert fleet.served() == on_all(1)


def test_server_that_joins_is_brought_to_the_version(fleet: TritonFleet, store: ModelStoreHook) -> None:
    """One that comes while others have the version already gets it before the release ends."""
    fleet.bring(store, 1, "one")
    late = fleet.settings["s2"]
    fleet.ask("s2", calls.unload(MODEL))

    class Joining:
        looks = 0

        async def current(self) -> Any:
            self.looks += 1
            everyone = await fleet.members.current()
            return [one for one in everyone if one.settings != late or self.looks > 4]

        async def fence(self, name: str, reason: str) -> None:
            raise AssertionError(name)

    assert fleet.bring(store, 2, "two", members=Joining()).outcome == "committed"
    assert fleet.served() == on_all(2)


@pytest.mark.parametrize("phase", ["prepare", "commit", "drain"])
def test_release_that_was_killed_goes_on(fleet: TritonFleet, store: ModelStoreHook, phase: str) -> None:
    """Killed after any phase was written down, the same run brings all servers to the version."""
    fleet.bring(store, 1, "one")

    class Killed(BaseException):
        pass

    class KillingStore(FleetStore):
        async def write(self, document: FleetDocument) -> None:
            await super().write(document)
            if document.run is not None and document.run.phase == phase and document.run.before:
                raise Killed

    with pytest.raises(Killed):
        fleet.bring(store, 2, "two", store=KillingStore(store, "pair", MODEL))
    assert fleet.bring(store, 2, "two").outcome == "committed"
    assert fleet.served() == on_all(2)
    assert document(store).run is None


@pytest.mark.parametrize("phase", ["prepare", "commit"])
def test_object_store_that_goes_away_keeps_the_version_from_all(
    fleet: TritonFleet, store: ModelStoreHook, phase: str
) -> None:
    """What cannot be written down is not done, and the way back needs the servers alone."""
    fleet.bring(store, 1, "one")

    class Gone(FleetStore):
        is_gone = False

        async def write(self, document: FleetDocument) -> None:
            has_begun = document.run is not None and document.run.before
            self.is_gone |= bool(has_begun and document.run is not None and document.run.phase == phase)
            if self.is_gone:
                raise StoreUnavailableError("the object store is away")
            await super().write(document)

    outcome = fleet.bring(store, 2, "two", store=Gone(store, "pair", MODEL))
    assert outcome.outcome == "taken_back"
    assert fleet.served() == on_all(1)
    assert fleet.bring(store, 2, "two").outcome == "committed"


def test_write_that_was_given_up_and_came_all_the_same(fleet: TritonFleet, store: ModelStoreHook) -> None:
    """Nobody knew whether the commit was written down, so all are led back; that it was does not hold the way back."""
    fleet.bring(store, 1, "one")

    class Late(FleetStore):
        async def write(self, document: FleetDocument) -> None:
            before = self._etag, self.document
            await super().write(document)
            if document.run is not None and document.run.phase == "commit":
                self._etag, self.document = before
                raise StoreUnavailableError("no answer")

    outcome = fleet.bring(store, 2, "two", store=Late(store, "pair", MODEL))
    assert outcome.outcome == "taken_back"
    assert fleet.served() == on_all(1)
    assert document(store).run is None


def test_no_request_fails_and_each_answer_tells_its_true_version(
    fleet: TritonFleet, store: ModelStoreHook
) -> None:
    """Under requests to every server, forward, back to an earlier version, and when it is taken back."""
    fleet.bring(store, 1, "one")
    with Users(fleet) as users:
        assert fleet.bring(store, 2, "two").outcome == "committed"
        assert fleet.bring(store, 1, "three").outcome == "committed"
        assert fleet.bring(store, 4, "four").outcome == "taken_back"
    assert users.answers
    assert set(users.answers) == {("1", FACTORS[1]), ("2", FACTORS[2])}


def test_two_releases_of_one_fleet_exclude_each_other(fleet: TritonFleet, store: ModelStoreHook) -> None:
    """The second is refused while the first is under way, and so is an older process of the same run."""
    fleet.bring(store, 1, "one")
    refused: list[Exception] = []

    def other() -> None:
        with pytest.raises(ReleaseInProgressError) as caught:
            fleet.bring(store, 3, "other")
        refused.append(caught.value)

    assert fleet.bring(store, 2, "two", permit=other).outcome == "committed"
    assert "two" in str(refused[0])

    def later() -> None:
        assert fleet.bring(store, 1, "same").outcome == "committed"

    with pytest.raises(ReleaseInProgressError):
        fleet.bring(store, 1, "same", permit=later)
    assert fleet.served() == on_all(1)


def test_model_that_was_loaded_without_an_alias_is_adopted(fleet: TritonFleet, store: ModelStoreHook) -> None:
    """The first release replaces a plain model by the alias; where it fails the plain model is served again."""
    plain = pin_versions(fleet.config(1), [1])
    for name in ALL:
        fleet.ask(name, calls.load(MODEL, plain))
    assert fleet.bring(store, 4, "one").outcome == "taken_back"
    assert fleet.served() == on_all(1)
    outcome = fleet.bring(store, 2, "two")
    assert (outcome.outcome, outcome.from_version) == ("committed", 1)
    assert fleet.served() == on_all(2)


def test_model_that_has_the_version_s_number_is_not_taken_for_it(
    fleet: TritonFleet, store: ModelStoreHook
) -> None:
    """What was loaded without an alias may be any model with that number: users get the version that was verified."""
    plain = pin_versions(fleet.config(1), [1])
    other = {**plain, "parameters": {"origin": {"string_value": "unknown"}}}
    for name in ALL:
        fleet.ask(name, calls.load(MODEL, other))

    def refused() -> None:
        raise RaiseRefusedError("version 1 may not get users")

    assert fleet.bring(store, 1, "one", permit=refused).outcome == "taken_back"
    assert alias_target(fleet.ask("s0", calls.config(MODEL))) is None
    outcome = fleet.bring(store, 1, "two")
    assert (outcome.outcome, outcome.from_version) == ("committed", 1)
    for name in ALL:
        target = alias_target(fleet.ask(name, calls.config(MODEL)))
        assert target is not None
        assert (target.name, target.manifest_sha256) == ("table_v1", digest(1))


def test_fleet_of_another_model_is_refused(fleet: TritonFleet, store: ModelStoreHook) -> None:
    """A fleet's name belongs to one model."""
    kept = {"fleet": "pair", "model": "other"}
    store.write("fleets/pair/fleet.json", json.dumps(kept).encode())
    with pytest.raises(UserError, match="serves another model"):
        asyncio.run(release_fleet(fleet.release(store, 1, "one")))

"""The watch over a fleet: who goes on later than its release is led back, and servers that differ are told."""

from __future__ import annotations

import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from airflow_provider_triton.client import calls
from slipway.fleet import StaticMembers
from slipway.fleet.server import FleetServer
from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.fleet.watch import ListFleetsOperator, WatchFleetOperator
from slipway_core.errors import ServerUnavailableError
from slipway_core.fleet.alias import alias_files, loaded_version
from slipway_core.fleet.document import FleetDocument
from tests.support.fleet.servers import FACTORS, MODEL, TritonFleet, digest
from tests.support.fleet.steps import stopping_at

pytestmark = pytest.mark.timeout(600)

FLEET_FILE = f"""
fleet: pair
model: {MODEL}
connections: [s0, s1, s2]
policy: {{unreachable_s: 2, call_limit_s: 2, settle_limit_s: 1}}
"""
ALL_ON_1 = dict.fromkeys(("s0", "s1", "s2"), ("1", FACTORS[1]))


class KilledError(BaseException):
    """Ends a release in the middle."""


def killed() -> None:
    """End the release."""
    raise KilledError


@pytest.fixture
def watch(
    fleet: TritonFleet, store: ModelStoreHook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> WatchFleetOperator:
    """The task, its templates rendered, on servers of which each serves version 1."""
    (tmp_path / "pair.yaml").write_text(FLEET_FILE)
    (tmp_path / f"{MODEL}.yaml").write_text(f"model: {MODEL}\nsource: {{format: onnx}}\n")
    for module in ("slipway.fleet.context", "slipway.operators.fleet.watch"):
        monkeypatch.setattr(f"{module}.members_of", lambda _: StaticMembers(fleet.settings))
    fleet.bring(store, 1, "one")
    return WatchFleetOperator(
        task_id="watch",
        releases_dir=str(tmp_path),
        fleets=str(tmp_path),
        fleet="pair",
        bucket=store.bucket,
    )


def context(state: str | None, run_id: str = "watch-1") -> Any:
    """Return what Airflow gives a task of a run, where each run of `fleet_release` is in this state."""
    return {"run_id": run_id, "ti": SimpleNamespace(get_dagrun_state=lambda dag_id, run_id: state)}


def left_open(store: ModelStoreHook) -> FleetDocument:
    """Return what is kept of the fleet."""
    return FleetDocument.from_bytes(store.read("fleets/pair/fleet.json") or b"", "the document")


def serve_late(fleet: TritonFleet, name: str, version: int) -> None:
    """Have a server carry out a commit that a release has given up."""
    wanted = loaded_version(MODEL, version, {MODEL: fleet.config(version)}, digest(version))
    fleet.ask(name, calls.load(MODEL, wanted.alias(), alias_files(version)))


def test_server_that_goes_on_after_its_release_is_led_back(
    fleet: TritonFleet, store: ModelStoreHook, watch: WatchFleetOperator
) -> None:
    """It serves what no release stands behind any more; while it is away that is told, and then it is led back."""
    with pytest.raises(KilledError):
        fleet.bring(store, 2, "two", permit=killed)
    serve_late(fleet, "s1", 2)
    with (
        fleet.stopped("s2"),
        pytest.raises(ServerUnavailableError, match="s2 could not be rolled back from version 2"),
    ):
        watch.execute(context("failed"))
    assert left_open(store).run is not None
    with fleet.stopped("s2"), pytest.raises(AirflowSkipException, match="s2 could not be rolled back"):
        watch.execute(context("failed", "watch-2"))
    assert watch.execute(context("failed", "watch-3"))["version"] == 1
    assert fleet.served() == ALL_ON_1
    assert left_open(store).run is None


def test_release_that_is_carried_out_is_left_alone(
    fleet: TritonFleet, store: ModelStoreHook, watch: WatchFleetOperator
) -> None:
    """One that Airflow has under way, and one that it does not know, which nobody but a person can tell of."""
    with pytest.raises(KilledError):
        fleet.bring(store, 2, "two", permit=killed)
    with pytest.raises(AirflowSkipException, match="two is under way"):
        watch.execute(context("running"))
    with pytest.raises(AirflowFailException, match="Airflow does not know"):
        watch.execute(context(None))
    assert left_open(store).run is not None


def test_servers_that_differ_are_told(
    fleet: TritonFleet, store: ModelStoreHook, watch: WatchFleetOperator
) -> None:
    """Where no release is open, nothing is changed: a person says which version it shall be."""
    assert watch.execute(context(None))["differences"] == []
    fleet.ask("s1", calls.load("table_v2"))
    serve_late(fleet, "s1", 2)
    with pytest.raises(ServerUnavailableError, match="s1 serves version 2, the fleet's version is 1"):
        watch.execute(context(None))
    assert fleet.served(["s1"]) == {"s1": ("2", FACTORS[2])}


def test_finding_fails_one_run_and_hides_no_other(
    fleet: TritonFleet, store: ModelStoreHook, watch: WatchFleetOperator
) -> None:
    """A server that is dead is told once, by every try of that run; then only what is new is, and what comes again."""
    with fleet.stopped("s2"):
        for _ in range(2):
            with pytest.raises(ServerUnavailableError, match="s2: no answer"):
                watch.execute(context(None))
        with pytest.raises(AirflowSkipException, match=r"reported before.* s2: no answer"):
            watch.execute(context(None, "watch-2"))
        serve_late(fleet, "s1", 2)
        with pytest.raises(ServerUnavailableError, match="s1 serves version 2") as caught:
            watch.execute(context(None, "watch-3"))
        assert "s2" not in str(caught.value)
        serve_late(fleet, "s1", 1)
        fleet.ask("s1", calls.unload("table_v2"))
    assert watch.execute(context(None, "watch-4"))["differences"] == []
    with fleet.stopped("s2"), pytest.raises(ServerUnavailableError, match="s2: no answer"):
        watch.execute(context(None, "watch-5"))


def test_server_that_was_lost_after_the_commit_is_watched(
    fleet: TritonFleet, store: ModelStoreHook, watch: WatchFleetOperator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Back again it serves the fleet's version, and has the one before loaded too: told until that is unloaded."""
    with monkeypatch.context() as patched:
        patched.setattr(FleetServer, "drain", stopping_at(fleet, "s1", "drain"))
        try:
            assert fleet.bring(store, 2, "two").missing == ("s1",)
            with pytest.raises(ServerUnavailableError, match="s1: no answer"):
                watch.execute(context("failed"))
        finally:
            fleet.signal("s1", signal.SIGCONT)
    with pytest.raises(ServerUnavailableError, match=r"s1 has .*table_v1 loaded as well"):
        watch.execute(context("failed", "watch-2"))
    assert left_open(store).run is not None
    for name in ("table_next", "table_v1"):
        fleet.ask("s1", calls.unload(name))
    assert watch.execute(context("failed", "watch-3"))["version"] == 2
    assert left_open(store).run is None


def test_fleets_that_have_a_file_are_watched(tmp_path: Path) -> None:
    """By their names; where there is none, no task is mapped."""
    listing = ListFleetsOperator(task_id="list_fleets", fleets=str(tmp_path))
    assert listing.execute({}) == []
    (tmp_path / "pair.yaml").write_text(FLEET_FILE)
    assert listing.execute({}) == ["pair"]

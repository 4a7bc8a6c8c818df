"""The tasks of `fleet_release`, without servers."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from slipway.fleet.context import FleetContext
from slipway.operators.fleet import release as fleet_release
from slipway.operators.fleet.release import ReleaseToFleetOperator
from slipway_core.errors import ServerUnavailableError, TransientError
from slipway_core.fleet.outcome import FleetOutcome, ServerResult

LIMIT_S = 20.0


def release_task() -> ReleaseToFleetOperator:
    """Return the task `release`, its templates rendered."""
    return ReleaseToFleetOperator(
        task_id="release", releases_dir="", bucket="b", fleet="edge", version="2", fleets=""
    )


def context(notes: list[str]) -> Any:
    """Return what Airflow gives a task.

    :param notes: takes what is told for the run's note.
    """
    ti = SimpleNamespace(xcom_push=lambda key, note: notes.append(note))
    return {"run_id": "one", "ti": ti, "dag": SimpleNamespace(dag_id="fleet_release")}


def test_server_that_was_lost_after_the_commit_is_in_the_note(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fleet has the version, and the run is no success: it says which server is missing, and is tried again."""
    outcome = FleetOutcome(
        fleet="edge",
        model="digits",
        version=2,
        from_version=1,
        outcome="committed",
        servers={
            "a": ServerResult(state="committed", version=2),
            "b": ServerResult(state="unreachable", reason="no answer for 30 s"),
        },
        reasons=("b: no answer for 30 s",),
    )

    async def ends(release: Any) -> FleetOutcome:
        return outcome

    monkeypatch.setattr(fleet_release, "release_fleet", ends)
    monkeypatch.setattr(FleetContext, "release", lambda *_: None)
    notes: list[str] = []
    with pytest.raises(ServerUnavailableError, match="not seen on b"):
        release_task().execute(context(notes))
    assert notes[-1].startswith("edge 2: released, but not on all servers: ")
    assert "b: no answer for 30 s" in notes[-1]


def test_release_that_is_stopped_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It does nothing more, and may be tried again; a task that does not run is stopped without harm."""
    began, went_on = threading.Event(), threading.Event()

    async def waits(release: Any) -> Any:
        began.set()
        await asyncio.sleep(LIMIT_S)
        went_on.set()

    monkeypatch.setattr(fleet_release, "release_fleet", waits)
    monkeypatch.setattr(FleetContext, "release", lambda *_: None)
    task = release_task()
    task.on_kill()

    def stop() -> None:
        began.wait(LIMIT_S)
        task.on_kill()

    thread = threading.Thread(target=stop)
    thread.start()
    with pytest.raises(TransientError, match="the release of version 2 to the fleet 'edge' was stopped"):
        task.execute(context([]))
    thread.join()
    assert not went_on.is_set()

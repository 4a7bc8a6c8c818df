"""The tasks of `fleet_release`, without servers."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from slipway.fleet.context import FleetContext
from slipway.operators.triton import fleet_release
from slipway.operators.triton.fleet_release import ReleaseToFleetOperator

from include.model_release.errors import TransientError

LIMIT_S = 20.0


def test_release_that_is_stopped_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It does nothing more, and may be tried again; a task that does not run is stopped without harm."""
    began, went_on = threading.Event(), threading.Event()

    async def waits(release: Any) -> Any:
        began.set()
        await asyncio.sleep(LIMIT_S)
        went_on.set()

    monkeypatch.setattr(fleet_release, "release_fleet", waits)
    monkeypatch.setattr(FleetContext, "release", lambda *_: None)
    task = ReleaseToFleetOperator(
        task_id="release", releases_dir="", bucket="b", fleet="edge", version="2", fleets=""
    )
    task.on_kill()

    def stop() -> None:
        began.wait(LIMIT_S)
        task.on_kill()

    thread = threading.Thread(target=stop)
    thread.start()
    context: Any = {"run_id": "one", "ti": SimpleNamespace(), "dag": SimpleNamespace(dag_id="fleet_release")}
    with pytest.raises(TransientError, match="the release of version 2 to the fleet 'edge' was stopped"):
        task.execute(context)
    thread.join()
    assert not went_on.is_set()

"""The route that says what the servers of a fleet serve."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi.testclient import TestClient

from slipway.fleet.context import FleetContext
from slipway.web import fleets
from slipway.web.access import may_read
from slipway.web.app import make_app
from slipway.web.sources import sources
from slipway_core.fleet.parity import Parity, ServerReport, parity_of


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    """A person who may read, and a fleet whose one server does not answer."""
    (tmp_path / "edge.yaml").write_text("fleet: edge\nmodel: digits\nconnections: [edge_0]\n")
    monkeypatch.setenv("SLIPWAY_FLEETS_DIR", str(tmp_path))
    monkeypatch.setenv("AIRFLOW_CONN_EDGE_0", "triton://127.0.0.1:1")

    async def parity_now(parts: FleetContext, members: Any) -> Parity:
        names = [one.name for one in await members.current()]
        reports = [ServerReport(server=name, problem="no answer") for name in names]
        return parity_of(parts.file.fleet, parts.file.model, 7, reports)

    monkeypatch.setattr(fleets, "parity_now", parity_now)
    app = make_app(lambda: "", lambda model, delivery: [])
    app.dependency_overrides[may_read] = lambda: SimpleNamespace(get_name=lambda: "anna")
    app.dependency_overrides[sources] = lambda: SimpleNamespace(store=SimpleNamespace(bucket="models"))
    with TestClient(app, raise_server_exceptions=False) as one:
        yield one


def test_every_server_of_the_fleet_is_asked(client: TestClient) -> None:
    """What they say, and whether they agree."""
    answer = client.get("/api/fleets/edge").json()
    assert (answer["model"], answer["version"], answer["agree"]) == ("digits", 7, False)
    assert answer["differences"] == ["edge_0: no answer"]


def test_fleet_that_there_is_not(client: TestClient) -> None:
    """The answer names the fleets that there are; no path leads out of the folder."""
    answer = client.get("/api/fleets/other")
    assert answer.status_code >= 400
    assert "edge" in str(answer.json())
    assert client.get("/api/fleets/..%2Fedge").status_code >= 400

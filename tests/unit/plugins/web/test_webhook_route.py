"""The route of MLflow's webhooks: who does not prove that he is MLflow starts nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from slipway.web import webhook as routes
from slipway.web.app import make_app
from slipway.web.webhook import WEBHOOK_PATH
from slipway_core.operations.registry_webhook import BODY_LIMIT_BYTES
from tests.support.registry.webhooks import DELIVERY, SECRET, body_of, signed

BODY = body_of()


class Starter:
    """Notes what was to be started; fails where it shall."""

    def __init__(self) -> None:
        self.started: list[tuple[str, str]] = []
        self.fails = False

    def __call__(self, registered_model: str, delivery_id: str) -> list[str]:
        if self.fails:
            raise RuntimeError("no data base, and its password")
        self.started.append((registered_model, delivery_id))
        return ["a run"]


@pytest.fixture
def starter() -> Starter:
    """What starts syncs."""
    return Starter()


@pytest.fixture
def client(starter: Starter) -> Iterator[TestClient]:
    """A client of the route."""
    with TestClient(make_app(lambda: SECRET, starter), raise_server_exceptions=False) as one:
        yield one


def test_a_signed_webhook_starts_a_sync(client: TestClient, starter: Starter) -> None:
    """Of the registered model that it names."""
    answer = client.post(WEBHOOK_PATH, content=BODY, headers=signed(BODY))
    assert (answer.status_code, answer.json()) == (202, {"started": ["a run"]})
    assert starter.started == [("digits", DELIVERY)]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {**signed(BODY), "x-mlflow-signature": "v1,AAAA"},
        signed(BODY, secret="another secret of the tests"),
        signed(BODY, at_s=time.time() - 3600),
        signed(BODY, at_s=time.time() + 3600),
        signed(body_of("magika")),
    ],
    ids=["unsigned", "wrong", "another secret", "stale", "of the future", "of another body"],
)
def test_who_proves_nothing_starts_nothing(
    client: TestClient, starter: Starter, headers: dict[str, str]
) -> None:
    """401, and no word about why."""
    answer = client.post(WEBHOOK_PATH, content=BODY, headers=headers)
    assert (answer.status_code, answer.json()) == (401, {"detail": "not signed correctly"})
    assert starter.started == []


def test_without_a_secret_the_route_takes_nothing(starter: Starter) -> None:
    """An installation without webhooks is closed."""
    client = TestClient(make_app(lambda: "", starter))
    assert client.post(WEBHOOK_PATH, content=BODY, headers=signed(BODY, secret="")).status_code == 401
    assert starter.started == []


@pytest.mark.parametrize("is_told", [True, False], ids=["as it says", "as it turns out"])
def test_a_body_that_is_too_large(client: TestClient, starter: Starter, is_told: bool) -> None:
    """413, also where it is signed."""
    body = b"x" * (BODY_LIMIT_BYTES + 1)

    def pieces() -> Iterator[bytes]:
        yield from (body[:65536], body[65536:])

    answer = client.post(WEBHOOK_PATH, content=body if is_told else pieces(), headers=signed(body))
    assert answer.status_code == 413
    assert starter.started == []


async def test_a_body_that_does_not_come(starter: Starter, monkeypatch: pytest.MonkeyPatch) -> None:
    """408 after the limit: who only holds the connection holds nothing up."""
    monkeypatch.setattr(routes, "BODY_LIMIT_S", 0.05)
    sent: list[dict[str, Any]] = []

    async def never() -> dict[str, Any]:
        await asyncio.Event().wait()
        return {}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": WEBHOOK_PATH,
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in signed(BODY).items()],
    }
    await make_app(lambda: SECRET, starter)(scope, never, send)
    assert sent[0]["status"] == 408
    assert starter.started == []


def test_other_events_start_nothing(client: TestClient, starter: Starter) -> None:
    """They are taken, so that MLflow does not send them again."""
    body = body_of(entity="registered_model")
    answer = client.post(WEBHOOK_PATH, content=body, headers=signed(body))
    assert (answer.status_code, answer.json(), starter.started) == (202, {"started": []}, [])


def test_what_fails_inside_is_not_told(client: TestClient, starter: Starter) -> None:
    """503, and MLflow tries again."""
    starter.fails = True
    answer = client.post(WEBHOOK_PATH, content=BODY, headers=signed(BODY))
    assert (answer.status_code, answer.json()) == (503, {"detail": "not now"})


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH"])
def test_there_is_one_way_to_call_it(client: TestClient, method: str) -> None:
    """No other method, and no page that describes the routes."""
    assert client.request(method, WEBHOOK_PATH).status_code == 405
    assert client.get("/openapi.json").status_code == client.get("/docs").status_code == 404

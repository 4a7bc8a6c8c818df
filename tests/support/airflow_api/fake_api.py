"""An API server of Airflow's that answers what a test says, and signs in by itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from slipway_sandbox.host.ports import LOOPBACK
from tests.support.http_server import QuietHandler, http_server

RUN = {
    "dag_display_name": "model_release",
    "dag_versions": [],
    "run_after": "2026-01-02T03:04:05Z",
    "run_type": "manual",
    "dag_id": "model_release",
    "dag_run_id": "digits-2",
    "state": "running",
    "start_date": "2026-01-02T03:04:05.500000Z",
    "end_date": None,
}


TASK_INSTANCE = {
    "dag_display_name": "model_release",
    "dag_id": "model_release",
    "dag_run_id": "digits-2",
    "executor_config": "{}",
    "id": "01998b3c-0000-7000-8000-000000000000",
    "map_index": -1,
    "max_tries": 0,
    "pool": "default_pool",
    "pool_slots": 1,
    "run_after": "2026-01-02T03:04:05Z",
    "task_display_name": "admit",
    "try_number": 1,
}

Reply = Callable[[str, str, Any], tuple[int, Any]]


class FakeApi:
    """Answers as `reply(method, path, body)` says; signs in who knows the password, with tokens that can be voided."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, Any]] = []
        self.sign_ins = 0
        self.valid_token = ""
        self.reply: Reply = lambda _method, _path, _body: (200, RUN)
        self.url = ""

    def answer(self, method: str, path: str, body: bytes, authorization: str | None) -> tuple[int, Any]:
        parsed = json.loads(body) if body else None
        if path == "/auth/token":
            if parsed != {"username": "admin", "password": "right"}:
                return 401, {"detail": "Invalid credentials"}
            self.sign_ins += 1
            self.valid_token = f"token-{self.sign_ins}"
            return 201, {"access_token": self.valid_token}
        if authorization != f"Bearer {self.valid_token}":
            return 401, {"detail": "Invalid JWT token"}
        self.calls.append((method, path, parsed))
        return self.reply(method, path, parsed)


@contextmanager
def fake_api() -> Iterator[FakeApi]:
    """A server on loopback, ended with the block."""
    fake = FakeApi()

    class Handler(QuietHandler):
        def respond(self) -> None:
            authorization = self.headers.get("Authorization")
            status, document = fake.answer(self.command, self.path, self.body(), authorization)
            self.answer(status, json.dumps(document).encode())

    with http_server(Handler) as port:
        fake.url = f"http://{LOOPBACK}:{port}"
        yield fake

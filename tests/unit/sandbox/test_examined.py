"""`make doctor`: the command of an installation, in the environment of the sandbox's workers."""

from __future__ import annotations

import subprocess
from types import SimpleNamespace
from typing import Any

import pytest

from slipway_sandbox import __main__ as program


def test_the_sandbox_is_examined_with_the_connections_of_its_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arguments go through, and the exit code comes back."""
    called: list[tuple[list[str], dict[str, str]]] = []

    def run(command: list[str], *, env: dict[str, str], **_: Any) -> SimpleNamespace:
        called.append((command, env))
        return SimpleNamespace(returncode=2)

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(program.SandboxSettings, "load", lambda: "settings")
    monkeypatch.setattr(program, "airflow_environment", lambda settings: {"OF": settings})
    assert program.main(["doctor", "--write", "-o", "json"]) == 2
    ((command, environment),) = called
    assert command[1:] == ["doctor", "--write", "-o", "json"]
    assert environment == {"OF": "settings"}

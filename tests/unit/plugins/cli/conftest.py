"""A server, and the command as a person calls it."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer.main

from slipway.cli import invocation, main
from tests.support.airflow_api.fake_api import FakeApi, fake_api
from tests.support.cli.calls import Call, Called
from tests.support.cli.documents import NOW
from tests.support.cli.server import FakeClock, FakeSlipway

# A process has one command; to build it takes longer than most tests of it, and it keeps nothing of a call.
_make_app = functools.cache(main.make_app)
_get_command = functools.cache(typer.main.get_command)


@pytest.fixture
def api() -> Iterator[FakeApi]:
    """A server on loopback, ended with the test."""
    with fake_api() as fake:
        yield fake


@pytest.fixture
def server(api: FakeApi) -> FakeSlipway:
    """The server's documents and runs."""
    return FakeSlipway(api)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    """The clock of each command that is called."""
    clock = FakeClock()
    monkeypatch.setattr(invocation, "Clock", lambda: clock)
    return clock


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A person's home, in which the command runs, without any configuration."""
    for name in ("XDG_CONFIG_HOME", "SLIPWAY_SANDBOX_ROOT", "SLIPWAY_PROFILE", "NO_COLOR", "SLIPWAY_BUCKET"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AIRFLOW_URL", "USER", "PASSWORD", "PASSWORD_FILE", "TOKEN_FILE", "CA_FILE", "TIMEOUT_S"):
        monkeypatch.delenv(f"SLIPWAY_{name}", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def call(
    api: FakeApi,
    home: Path,
    clock: FakeClock,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Call:
    """Call the command against the server, as its administrator."""
    monkeypatch.setenv("SLIPWAY_AIRFLOW_URL", api.url)
    monkeypatch.setenv("SLIPWAY_USER", "admin")
    monkeypatch.setenv("SLIPWAY_PASSWORD", "right")
    monkeypatch.setattr(main, "make_app", _make_app)
    monkeypatch.setattr(typer.main, "get_command", _get_command)

    def run(*arguments: str) -> Called:
        capsys.readouterr()
        clock.at = NOW
        code = main.run(arguments)
        printed = capsys.readouterr()
        return Called(code, printed.out, printed.err)

    return run

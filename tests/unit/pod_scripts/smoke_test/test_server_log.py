"""The log of the smoke test's server, into which the model writes as well."""

from __future__ import annotations

from pathlib import Path

import pytest

from slipway_pod.smoke_test import server
from slipway_pod.smoke_test.server import OwnServer


def test_of_very_much_the_end_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that prints without end does not fill the memory of the program that reads it."""
    monkeypatch.setattr(server, "LOG_READ_BYTES", 20)
    log = tmp_path / "server.log"
    log.write_text("x" * 1000 + "\nE1123 failed to load\n")
    own = OwnServer(tmp_path, log, start_timeout_s=1)
    assert own.log_text() == "E1123 failed to load\n"[-20:]
    assert own.telling_lines() == ["1123 failed to load"]
    assert own.log_text(since=own.log_size() - 5) == "load\n"

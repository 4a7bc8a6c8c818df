"""The staging Triton, examined at real servers in both modes of model control."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from slipway.doctor.examination import chosen_examinations
from slipway.doctor.examining import examine
from slipway.doctor.installation import Installation
from slipway_core.doctor.line import Line, Status
from slipway_sandbox.services.triton import TritonPorts, TritonServer
from tests.support.serving.triton_install import triton_install
from tests.support.store.connections import triton_connection


@contextmanager
def server(folder: Path, mode: str) -> Iterator[TritonPorts]:
    """A server on an empty repository."""
    (folder / "repository").mkdir()
    ports = TritonPorts.free()
    one = TritonServer(
        triton_install(),
        str(folder / "repository"),
        ports,
        mode=mode,
        log_path=folder / "triton.log",
        exit_timeout_s=1,
    )
    one.start()
    try:
        one.wait_ready(60)
        yield ports
    finally:
        one.stop()


def examined(folder: Path) -> dict[str, Line]:
    """Return the lines about staging."""
    found = examine(Installation("models", folder), chosen_examinations(("staging",)))
    return {line.what: line for line in found.lines}


@pytest.mark.parametrize(
    ("mode", "status"), [("explicit", Status.OK), ("none", Status.FAILED)], ids=["explicit", "none"]
)
def test_a_server_without_explicit_model_control_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, status: Status
) -> None:
    """By a load of a model that nobody has; nothing is loaded by it."""
    with server(tmp_path, mode) as ports:
        monkeypatch.setenv("AIRFLOW_CONN_TRITON_STAGING", triton_connection(ports.http, ports.grpc))
        found = examined(tmp_path)
    assert found["staging Triton"].status is Status.OK
    line = found["model control of the staging Triton"]
    assert line.status is status
    assert status is Status.OK or "explicit" in line.remedy + line.expected


def test_a_server_that_does_not_answer_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Silence is never ok."""
    ports = TritonPorts.free()
    monkeypatch.setenv("AIRFLOW_CONN_TRITON_STAGING", triton_connection(ports.http, ports.grpc))
    assert {line.status for line in examined(tmp_path).values()} == {Status.UNKNOWN}

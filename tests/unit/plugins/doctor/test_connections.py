"""The connections examined: there, of the right type, and no secret of them is shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from slipway.doctor.examination import chosen_examinations
from slipway.doctor.examining import examine
from slipway.doctor.installation import Installation
from slipway_core.doctor.line import Line, Status

NEEDED = {
    "aws_default": {"conn_type": "aws", "login": "key-id", "password": "a-secret"},
    "kubernetes_default": {"conn_type": "kubernetes", "extra": {"in_cluster": True}},
    "triton_staging": {"conn_type": "generic", "host": "triton", "port": 8000},
    "slipway_metrics": {"conn_type": "http", "host": "https://name:a-secret@prometheus:9090"},
}


@pytest.fixture
def installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Installation:
    """All that is needed, and one receiver of notices."""
    for name, value in {**NEEDED, "slack": {"conn_type": "generic", "password": "a-secret"}}.items():
        monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps(value))
    (tmp_path / "digits.yaml").write_text(
        "model: digits\nsource: {format: onnx}\nnotify: [{on: [promoted], to: slack}]\n", encoding="utf-8"
    )
    return Installation("models", tmp_path, "https://sqs.eu-central-1.amazonaws.com/123456789012/intake")


def examined(installation: Installation) -> dict[str, Line]:
    """Return the lines by what they are about."""
    return {line.what: line for line in examine(installation, chosen_examinations(("connections",))).lines}


def test_connections_that_are_there_are_ok_and_show_no_secret(installation: Installation) -> None:
    """Type and host, and nothing else; what is not needed is skipped."""
    found = examined(installation)
    assert {line.status for line in found.values()} == {Status.OK, Status.SKIPPED}
    assert found["connection slipway_metrics"].found == "type http, host prometheus"
    assert found["connection slack"].status is Status.OK
    assert "a-secret" not in json.dumps([line.as_json() for line in found.values()])


@pytest.mark.parametrize("name", [*NEEDED, "slack"])
def test_a_connection_that_is_not_there_has_failed(
    installation: Installation, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """With the command that adds it."""
    monkeypatch.delenv(f"AIRFLOW_CONN_{name.upper()}")
    line = examined(installation)[f"connection {name}"]
    assert line.status is Status.FAILED
    assert line.remedy.startswith(f"airflow connections add {name} ")


@pytest.mark.parametrize(
    ("value", "status"),
    [
        ({"conn_type": "http", "host": "s3"}, Status.WARNING),
        ({"conn_type": "aws", "extra": "[1]"}, Status.FAILED),
        ({"conn_type": "aws", "extra": "no json"}, Status.FAILED),
    ],
    ids=["type", "list", "text"],
)
def test_a_connection_of_another_form_is_found(
    installation: Installation, monkeypatch: pytest.MonkeyPatch, value: dict[str, Any], status: Status
) -> None:
    """Of another type, which the hooks do not mind, or with an extra that cannot be read."""
    monkeypatch.setenv("AIRFLOW_CONN_AWS_DEFAULT", json.dumps(value))
    assert examined(installation)["connection aws_default"].status is status


def test_bucket_queue_and_variables_are_named(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is not configured, and what cannot be used."""
    installation.bucket = installation.queue_url = ""
    monkeypatch.setenv("SLIPWAY_SWEEP_CRON", "whenever")
    found = examined(installation)
    for what in ("bucket", "intake queue", "variable SLIPWAY_SWEEP_CRON"):
        assert found[what].status is Status.FAILED

"""A connection to Triton: what it says, and what is wrong with it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from airflow.sdk import Connection

from airflow_provider_triton.client.settings import ConnectionExtra, TritonSettings, settings_of
from airflow_provider_triton.errors import UserError
from airflow_provider_triton.provider_info import get_provider_info


def settings(
    host: str | None = "triton", port: int | None = None, password: str = "", **extra: Any
) -> TritonSettings:
    """Return what such a connection says."""
    connection = Connection(
        conn_id="t", conn_type="triton", host=host, port=port, password=password, extra=json.dumps(extra)
    )
    return settings_of(connection, "t")


@pytest.mark.parametrize(
    ("fields", "control", "inference", "http", "grpc"),
    [
        ({}, "http", "grpc", "triton:8000", "triton:8001"),
        ({"port": 80, "grpc_port": 90}, "http", "grpc", "triton:80", "triton:90"),
        ({"protocol": "http", "port": 80}, "http", "http", "triton:80", "triton:8001"),
        ({"protocol": "grpc", "port": 90}, "grpc", "grpc", "triton:8000", "triton:90"),
        ({"protocol": "grpc", "port": 80, "grpc_port": "90"}, "grpc", "grpc", "triton:80", "triton:90"),
        ({"host": "fd00::1", "port": 80}, "http", "grpc", "[fd00::1]:80", "[fd00::1]:8001"),
        ({"host": "[fd00::1]"}, "http", "grpc", "[fd00::1]:8000", "[fd00::1]:8001"),
        ({"protocol": "", "grpc_port": "", "ssl": None}, "http", "grpc", "triton:8000", "triton:8001"),
    ],
)
def test_addresses_and_protocols(
    fields: dict[str, Any], control: str, inference: str, http: str, grpc: str
) -> None:
    """Older connections use both protocols; one that names a protocol uses it alone. Empty fields are left out."""
    found = settings(**fields)
    assert (found.control, found.inference) == (control, inference)
    assert (found.http_address, found.grpc_address) == (http, grpc)


def test_an_extra_that_was_encoded_twice_counts() -> None:
    """TLS and token stay what the person wrote, though the extra is the JSON text of a JSON text."""
    extra = json.dumps(json.dumps({"ssl": True, "headers": json.dumps({"X-Team": "models"})}))
    found = settings_of(Connection(conn_id="t", conn_type="triton", host="triton", extra=extra), "t")
    assert (found.tls, found.headers) == (True, {"X-Team": "models"})


def test_an_extra_that_cannot_be_read_is_an_error() -> None:
    """Taken for an empty one it would send the token without TLS."""
    with pytest.raises(UserError, match="extra is not a JSON object"):
        settings_of(Connection(conn_id="t", conn_type="triton", host="triton", extra='{"ssl": true'), "t")


def test_token_and_headers_are_carried_and_not_shown() -> None:
    """The password is the bearer token; headers may be an object or its JSON text."""
    found = settings(password="secret-token", headers='{"X-Team": "secret-team"}')
    assert found.headers == {"X-Team": "secret-team", "Authorization": "Bearer secret-token"}
    assert "secret" not in repr(found)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"host": None}, "host"),
        ({"host": "http://secret@triton"}, "host"),
        ({"protocol": "carrier pigeon"}, "protocol"),
        ({"grpc_port": 70000}, "grpc_port"),
        ({"timeout_s": -1}, "timeout_s"),
        ({"timeout_s": "nan"}, "timeout_s"),
        ({"headers": "{secret"}, "headers"),
        ({"headers": {"X": "secret\r\nY: z"}}, "headers"),
        ({"password": "secret\ntoken"}, "token"),
        ({"ca": "/ca.pem"}, "TLS"),
        ({"ssl": True, "client_key": "/key.pem"}, "client_cert"),
    ],
)
def test_connection_that_cannot_be_used(fields: dict[str, Any], words: str) -> None:
    """A person is told which field it is, and no value is shown."""
    with pytest.raises(UserError, match="'t' cannot be used for Triton") as caught:
        settings(**fields)
    assert words in str(caught.value)
    assert "secret" not in str(caught.value)


def test_form_describes_each_field_that_is_read() -> None:
    """The form that Airflow is told of has the fields that the hook reads, and no other."""
    (described,) = get_provider_info()["connection-types"]
    assert set(described["conn-fields"]) == set(ConnectionExtra.model_fields) | {"repository_path"}

"""The way to an InferenceService's host: straight, or through an ingress that a connection names."""

from __future__ import annotations

import json

import pytest

from slipway.hooks.ingress import Endpoint, IngressHook
from slipway_core.errors import UserError

URL = "http://latest-digits-predictor.models.example.com:8080"


def test_without_a_connection_the_services_own_host_is_asked() -> None:
    """Where nobody has named an ingress, the URL leads there by itself."""
    assert IngressHook("no_such_ingress").endpoint(URL) == Endpoint(
        URL, "latest-digits-predictor.models.example.com:8080"
    )


def test_an_ingress_is_asked_for_the_services_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """The request goes to the connection's address and carries the service's host."""
    connection = {"conn_type": "http", "schema": "https", "host": "gateway.internal", "port": 8443}
    monkeypatch.setenv("AIRFLOW_CONN_SLIPWAY_INGRESS", json.dumps(connection))
    found = IngressHook().endpoint("http://latest-digits-predictor.models.example.com")
    assert found == Endpoint("https://gateway.internal:8443", "latest-digits-predictor.models.example.com")


def test_an_ingress_without_a_host_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that names no host is an error that says what is missing."""
    monkeypatch.setenv("AIRFLOW_CONN_SLIPWAY_INGRESS", json.dumps({"conn_type": "http"}))
    with pytest.raises(UserError, match=r"slipway_ingress.*host"):
        IngressHook().endpoint(URL)

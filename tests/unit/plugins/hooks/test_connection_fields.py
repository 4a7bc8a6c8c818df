"""What people write into connections: hosts with and without port, IPv6, extras that were encoded too often."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest
from airflow.sdk import Connection

from airflow_provider_triton.connection_fields import bracketed, extra_of
from slipway.hooks.connection_fields import base_url, whole_url

EXTRA = {"ssl": True, "headers": {"X-Team": "models"}}


@pytest.mark.parametrize(
    ("host", "schema", "port", "url"),
    [
        ("prom", None, None, "http://prom"),
        ("prom", "https", 9090, "https://prom:9090"),
        ("prom:9090", None, None, "http://prom:9090"),
        ("prom:9090", None, 9090, "http://prom:9090"),
        ("http://prom", None, 9090, "http://prom:9090"),
        ("http://prom/", "https", 9090, "http://prom:9090"),
        ("https://prom/prometheus/", None, 9090, "https://prom:9090/prometheus"),
        ("http://prom:9090/select/0", None, None, "http://prom:9090/select/0"),
        ("fd00::1", None, None, "http://[fd00::1]"),
        ("fd00::1", "https", 9090, "https://[fd00::1]:9090"),
        ("[fd00::1]", None, 9090, "http://[fd00::1]:9090"),
        ("[fd00::1]:9090", None, None, "http://[fd00::1]:9090"),
        ("http://[fd00::1]", None, 9090, "http://[fd00::1]:9090"),
        ("http://[fd00::1]/api", None, 9090, "http://[fd00::1]:9090/api"),
        ("10.0.0.1", None, 9090, "http://10.0.0.1:9090"),
    ],
)
def test_host_schema_and_port_are_one_address(
    host: str, schema: str | None, port: int | None, url: str
) -> None:
    """Each of them counts, wherever it was written, and an IPv6 address has its brackets."""
    assert base_url(host, schema, port) == url


@pytest.mark.parametrize(
    ("host", "port"),
    [
        ("http://prom:9090", 9091),
        ("prom:9090", 9091),
        ("http://prom:port", None),
        ("http://prom:99999", None),
        ("http://[fd00::1", 9090),
        ("fd00:::1", 9090),
        ("ftp://prom", None),
        ("http://", 9090),
        ("http://user:secret@prom", None),
        ("http://:secret@prom", None),
        ("http://prom?token=secret", None),
        ("http://pro m", None),
    ],
)
def test_what_is_no_one_address_is_refused(host: str, port: int | None) -> None:
    """Two ports, no port, half an address: a ValueError that repeats nothing of what was written."""
    with pytest.raises(ValueError, match=r".") as caught:
        base_url(host, None, port)
    assert "secret" not in str(caught.value)


def test_a_webhooks_url_may_hold_a_token() -> None:
    """Its query and its last slash stay as they are; only what it lacks is added."""
    assert whole_url("https://hooks/a/?t=1", None, 8443).geturl() == "https://hooks:8443/a/?t=1"
    assert whole_url("hooks/a/", None, None, "https").geturl() == "https://hooks/a/"


@pytest.mark.parametrize("host", ["triton", "10.0.0.1", "[fd00::1]", "a:b", ""])
def test_only_a_bare_ipv6_address_gets_brackets(host: str) -> None:
    """A name, an IPv4 address and what has its brackets stay."""
    assert bracketed(host) == host
    assert bracketed("fd00::1") == "[fd00::1]"


def encoded(value: Any, times: int) -> str:
    """Return a value as JSON of JSON of JSON."""
    for _ in range(times):
        value = json.dumps(value)
    return str(value)


@pytest.mark.parametrize(
    "written", [encoded(EXTRA, 1), encoded(EXTRA, 2), encoded(EXTRA, 3), quote(encoded(EXTRA, 1))]
)
def test_an_extra_that_was_encoded_more_than_once_is_read(written: str) -> None:
    """However often it was made a text on its way into the connection."""
    assert extra_of(Connection(conn_id="t", extra=written)) == EXTRA


@pytest.mark.parametrize("written", [None, "", "  ", "{}"])
def test_no_extra_is_an_empty_one(written: str | None) -> None:
    """A connection need not have one."""
    assert extra_of(Connection(conn_id="t", extra=written)) == {}


@pytest.mark.parametrize("written", ["secret", '{"token": "secret"', '["secret"]', "5", encoded(EXTRA, 9)])
def test_an_extra_that_cannot_be_read_is_an_error(written: str) -> None:
    """Airflow would give an empty one, and the connection go without its token; the error repeats nothing."""
    with pytest.raises(ValueError, match="not a JSON object") as caught:
        extra_of(Connection(conn_id="t", extra=written))
    assert "secret" not in str(caught.value)

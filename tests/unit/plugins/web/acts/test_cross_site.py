"""Where a request comes from, and whose form it is."""

from __future__ import annotations

import time

import pytest
from fastapi import Request

from slipway.web.acts.cross_site import (
    TOKEN_MAX_AGE_S,
    CrossSiteError,
    make_token,
    require_same_site,
    require_token,
)

SECRET = "a key of the tests"


def _request(**headers: str) -> Request:
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "method": "POST", "path": "/", "headers": raw})


def test_a_page_of_this_host_may_ask() -> None:
    """By the host that we are asked for, or by the address that Airflow has behind a proxy; the port counts."""
    require_same_site(
        _request(host="airflow:8080", origin="http://airflow:8080", sec_fetch_site="same-origin"), ""
    )
    require_same_site(_request(host="airflow:8080", origin="https://AIRFLOW:8080"), "")
    require_same_site(
        _request(host="inside:80", origin="https://airflow.example"), "https://airflow.example/airflow"
    )
    require_same_site(_request(host="airflow:8080", sec_fetch_site="same-origin"), "")


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": "null"},
        {"origin": ""},
        {"origin": "https://airflow.example.evil.example"},
        {"origin": "https://airflow.example:8443"},
        {"origin": "https://airflow.example@evil.example"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site", "origin": "https://airflow.example"},
        {"sec_fetch_site": "none"},
    ],
)
def test_every_other_page_may_not(headers: dict[str, str]) -> None:
    """Neither another host nor one that looks alike, nor who does not say."""
    with pytest.raises(CrossSiteError):
        require_same_site(_request(host="airflow.example", **headers), "https://airflow.example/")


def test_an_empty_host_is_nobodys() -> None:
    """A request without a host does not make an origin without one our own."""
    with pytest.raises(CrossSiteError):
        require_same_site(_request(origin="null"), "")


def test_a_token_is_the_persons_own() -> None:
    """It gives its nonce back to the person it was made for, and to nobody else."""
    token = make_token(SECRET, "mira")
    assert require_token(SECRET, "mira", token) == require_token(SECRET, "mira", token)
    assert require_token(SECRET, "mira", token) != require_token(SECRET, "mira", make_token(SECRET, "mira"))
    for person, secret in (("jonas", SECRET), ("mira", "another key")):
        with pytest.raises(CrossSiteError):
            require_token(secret, person, token)


def test_a_token_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that was open for half a day must be loaded again."""
    token = make_token(SECRET, "mira")
    then = time.time() + TOKEN_MAX_AGE_S + 5
    monkeypatch.setattr("itsdangerous.timed.time.time", lambda: then)
    with pytest.raises(CrossSiteError, match="too old"):
        require_token(SECRET, "mira", token)


@pytest.mark.parametrize("token", ["", ".", "x", "x.y.z", "x" * 100_000, "é", "\x00"])
def test_nonsense_is_no_token(token: str) -> None:
    """Whatever is sent in its place is refused in the same words."""
    with pytest.raises(CrossSiteError):
        require_token(SECRET, "mira", token)

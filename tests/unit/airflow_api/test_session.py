"""A session with Airflow's API: signs in once, follows no redirect, and says clearly what was refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from slipway_airflow_api.access import Access
from slipway_airflow_api.errors import NotAllowedError, NotThereError, SignInRefusedError
from slipway_airflow_api.session import Session, is_loopback
from slipway_core.errors import ServerUnavailableError, UserError
from tests.support.airflow_api.fake_api import RUN, FakeApi, fake_api


@pytest.fixture
def api() -> Iterator[FakeApi]:
    """A server on loopback, ended with the test."""
    with fake_api() as fake:
        yield fake


def session_of(api: FakeApi, password: str = "right", token: str = "") -> Session:  # noqa: S107  the fake knows it
    return Session(Access(api.url, "admin", password, token))


def test_one_sign_in_serves_many_reads(api: FakeApi) -> None:
    """The document comes as it is."""
    session = session_of(api)
    assert json.loads(session.get("/a")) == json.loads(session.get("/b", {"q": "x y"})) == RUN
    assert api.sign_ins == 1
    assert api.calls[1][1] == "/b?q=x+y"


def test_a_token_that_is_no_longer_good_is_replaced_once(api: FakeApi) -> None:
    """A server that forgot us is told again who we are."""
    session = session_of(api)
    session.get("/a")
    api.valid_token = "another"
    session.get("/a")
    assert api.sign_ins == 2


def test_a_token_of_the_persons_own_is_not_replaced(api: FakeApi) -> None:
    """There is no password to sign in with."""
    with pytest.raises(SignInRefusedError, match="Invalid JWT"):
        session_of(api, token="made.up").get("/a")
    assert api.sign_ins == 0


def test_a_wrong_password_is_said_and_not_shown(api: FakeApi) -> None:
    """Neither the error nor the access's own form has it."""
    session = session_of(api, "hunter2")
    with pytest.raises(SignInRefusedError, match="Invalid credentials") as caught:
        session.get("/a")
    assert "hunter2" not in f"{caught.value} {session.access!r}"


@pytest.mark.parametrize(
    ("status", "error"),
    [(403, NotAllowedError), (404, NotThereError), (422, UserError), (500, ServerUnavailableError)],
)
def test_each_refusal_is_an_error_of_its_kind(api: FakeApi, status: int, error: type[Exception]) -> None:
    """With the server's own words, and its remedy where it has one."""
    api.reply = lambda *_: (status, {"detail": "so it is", "remedy": "ask Ada"})
    with pytest.raises(error, match="so it is") as caught:
        session_of(api).get("/a")
    assert "ask Ada" in str(caught.value)


def test_a_redirect_is_not_followed(api: FakeApi) -> None:
    """The token would go wherever it points."""
    with fake_api() as elsewhere:
        api.reply = lambda *_: (302, {"detail": "moved"})
        with pytest.raises(UserError, match="302"):
            session_of(api).get("/a")
        assert elsewhere.calls == []


def test_a_proxy_is_not_asked_for_this_machines_own_servers(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It could not know them."""
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    assert session_of(api).get("/a")


@pytest.mark.parametrize("url", ["ftp://127.0.0.1", "file:///etc/passwd", "airflow.example.com", "http://"])
def test_what_is_no_servers_address_is_refused(url: str) -> None:
    """Nothing is opened."""
    with pytest.raises(UserError, match="is not the address of a server"):
        Session(Access(url, "admin", "right")).get("/a")


def test_another_server_than_airflow_is_told(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sign-in that answers something else."""
    monkeypatch.setattr(api, "answer", lambda *_: (200, {"hello": "there"}))
    with pytest.raises(ServerUnavailableError, match="is not Airflow's API"):
        session_of(api).get("/a")


def test_nobody_listening_is_told_with_what_to_do() -> None:
    """Address and remedy."""
    access = Access("http://127.0.0.1:1", "admin", "right", if_silent="make up")
    with pytest.raises(ServerUnavailableError, match=r"127\.0\.0\.1:1 .*make up"):
        Session(access).get("/a")


def test_certificates_that_are_not_there_are_told(tmp_path: Path) -> None:
    """Nothing is sent without them."""
    access = Access("https://127.0.0.1:1", "admin", "right", ca_file=tmp_path / "none.pem")
    with pytest.raises(ServerUnavailableError, match="FileNotFoundError"):
        Session(access).get("/a")


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("::1", True),
        ("localhost", True),
        ("10.0.0.1", False),
        ("localhost.example", False),
    ],
)
def test_this_machine_is_known_by_its_names(host: str, expected: bool) -> None:
    """Nothing is resolved."""
    assert is_loopback(host) is expected

"""Who asks for metrics, over which transport; and that no secret leaves but in the request itself."""

from __future__ import annotations

import base64
import datetime
import ipaddress
import json
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import botocore.auth
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from slipway.hooks import http_access
from slipway.hooks.http_access import HttpAccess, within
from slipway_core.errors import MetricsUnavailableError, SlipwayError, UserError
from tests.support.plugins.http_double import Answer, HttpRequest, MetricsServer, metrics_server

SECRET = "a-very-secret-word"


@pytest.fixture
def server() -> Iterator[MetricsServer]:
    """A metrics endpoint."""
    with metrics_server() as double:
        yield double


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Callable[..., HttpAccess]:
    """Makes the access of a connection that is described by its fields."""

    def make(**fields: Any) -> HttpAccess:
        monkeypatch.setenv("AIRFLOW_CONN_METRICS", json.dumps({"conn_type": "http", **fields}))
        return HttpAccess("metrics")

    return make


def ask(access: HttpAccess, form: dict[str, str] | None = None, limit_s: float = 5.0) -> tuple[int, bytes]:
    """One request to the connection's own address."""

    async def asking() -> tuple[int, bytes]:
        async with access.session() as session:
            return await access.ask(session, f"{access.hosts[0]}/api/v1/query", form)

    return within(limit_s, asking(), "the source")


def asked_with(server: MetricsServer, access: HttpAccess) -> HttpRequest:
    """The request that comes in."""
    ask(access, {"query": "time()"})
    return server.asked[-1]


def test_a_server_that_has_no_time_is_asked_again(
    server: MetricsServer, connect: Callable[..., HttpAccess]
) -> None:
    """Its answer says when, in a moment: the reading is late and not lost."""
    busy = iter([Answer(503, headers={"Retry-After": "0"}), Answer(429, headers={"Retry-After": "0"})])
    server.answer = lambda asked: next(busy, Answer(200, "all of it"))
    assert ask(connect(host=server.url)) == (200, b"all of it")
    assert len(server.asked) == 3


@pytest.mark.parametrize("wanted", ["3600", "soon"])
def test_a_server_that_wants_an_hour_is_not_waited_for(
    server: MetricsServer, connect: Callable[..., HttpAccess], wanted: str
) -> None:
    """Its answer is the caller's to judge, at once."""
    server.answer = lambda asked: Answer(503, "busy", headers={"Retry-After": wanted})
    assert ask(connect(host=server.url)) == (503, b"busy")
    assert len(server.asked) == 1


def test_the_port_of_a_connection_counts_beside_a_url(
    server: MetricsServer, connect: Callable[..., HttpAccess]
) -> None:
    """A host that is a URL without a port has that of the connection."""
    server.answer = lambda asked: Answer(200, "here")
    assert ask(connect(host="http://127.0.0.1", port=server.port)) == (200, b"here")


@pytest.mark.parametrize(
    ("fields", "authorization"),
    [
        ({}, None),
        ({"password": SECRET}, f"Bearer {SECRET}"),
        ({"extra": {"token": SECRET}}, f"Bearer {SECRET}"),
        (
            {"login": "slipway", "password": SECRET},
            "Basic " + base64.b64encode(f"slipway:{SECRET}".encode()).decode(),
        ),
    ],
    ids=["nobody", "password alone", "token", "login and password"],
)
def test_the_connection_says_who_asks(
    fields: dict[str, Any],
    authorization: str | None,
    server: MetricsServer,
    connect: Callable[..., HttpAccess],
) -> None:
    """A bearer token or basic authentication goes with each request, or nothing where nothing is given."""
    asked = asked_with(server, connect(host="127.0.0.1", port=server.port, **fields))
    assert asked.headers.get("Authorization") == authorization
    assert asked.form == {"query": "time()"}


def test_further_headers_are_sent(server: MetricsServer, connect: Callable[..., HttpAccess]) -> None:
    """A tenant's header, as Mimir and Cortex want it, is in the extra."""
    access = connect(host=server.url, extra={"headers": {"X-Scope-OrgID": "models"}})
    assert asked_with(server, access).headers["X-Scope-OrgID"] == "models"


@pytest.mark.parametrize("session_token", [None, "a-session-token"])
def test_requests_to_amazon_are_signed_as_botocore_signs(
    session_token: str | None,
    server: MetricsServer,
    connect: Callable[..., HttpAccess],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The signature in the request that came in is what botocore makes of that request, on a fixed date."""
    date = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    monkeypatch.setattr(botocore.auth, "get_current_datetime", lambda: date)
    extra = {"aws_session_token": session_token} if session_token else {}
    key = {"conn_type": "aws", "login": "AKIDEXAMPLE", "password": SECRET, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_AWS_METRICS", json.dumps(key))
    access = connect(host=server.url, extra={"sigv4_region": "eu-central-1", "aws_conn_id": "aws_metrics"})
    asked = asked_with(server, access)

    authorization = asked.headers["Authorization"]
    assert "/20260102/eu-central-1/aps/aws4_request" in authorization
    signed = authorization.partition("SignedHeaders=")[2].partition(",")[0].split(";")
    received = {name.lower(): value for name, value in asked.headers.items()}
    assert received["host"] == f"127.0.0.1:{server.port}"
    again = AWSRequest(
        method=asked.method,
        url=f"{server.url}{asked.path}",
        data=asked.body,
        headers={name: received[name] for name in signed if name not in ("host", "x-amz-date")},
    )
    SigV4Auth(Credentials("AKIDEXAMPLE", SECRET, session_token), "aps", "eu-central-1").add_auth(again)
    assert authorization == again.headers["Authorization"]
    assert received["x-amz-date"] == "20260102T030405Z"
    assert received.get("x-amz-security-token") == session_token


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        (
            {"extra": {"token": SECRET}, "login": "me", "password": SECRET},
            "more than one kind of credentials",
        ),
        ({"extra": {"token": SECRET, "sigv4_region": "eu-west-1"}}, "more than one kind of credentials"),
        ({"extra": {"headers": "X: y"}}, "`headers`"),
        ({"extra": {"ca": "/nowhere.pem"}}, "`ca`"),
        ({"extra": {"client_cert": "/nowhere.pem"}}, "`client_cert`"),
        ({"host": f"https://me:{SECRET}@prometheus"}, "address"),
        ({"host": "ftp://prometheus"}, "address"),
        ({"host": "http://"}, "address"),
    ],
)
def test_a_connection_that_cannot_be_used_is_refused(
    fields: dict[str, Any], what: str, connect: Callable[..., HttpAccess]
) -> None:
    """Contradictions, missing files and bad addresses are a person's to mend, and told without the secret."""
    with pytest.raises(UserError, match=what) as caught:
        connect(**{"host": "prometheus", **fields})
    assert "'metrics'" in str(caught.value)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("fields", [{"password": SECRET}, {"login": "slipway", "password": SECRET}])
@pytest.mark.parametrize(
    "answer",
    [
        Answer(status=401, body="who are you?"),
        Answer(status=403),
        Answer(status=307, headers={"Location": "https://elsewhere/login"}),
        Answer(drips=True),
        Answer(waits=True),
    ],
    ids=["401", "403", "redirect", "dripping", "slow"],
)
def test_no_secret_is_in_what_is_logged(
    answer: Answer, fields: dict[str, Any], server: MetricsServer, connect: Callable[..., HttpAccess]
) -> None:
    """Whatever goes wrong, neither the error nor its traceback shows what proves who asks."""
    server.answer = lambda asked: answer
    access = connect(host=server.url, **fields)
    with pytest.raises(SlipwayError) as caught:
        ask(access, {"query": "time()"}, limit_s=0.5)
    logged = "".join(traceback.format_exception(caught.value)) + str(caught.value.to_dict())
    assert SECRET not in logged
    assert base64.b64encode(f"slipway:{SECRET}".encode()).decode() not in logged


def test_credentials_do_not_follow_a_redirect(
    server: MetricsServer, connect: Callable[..., HttpAccess]
) -> None:
    """An answer that sends elsewhere is no answer, and the other place is never asked."""
    with metrics_server() as elsewhere:
        server.answer = lambda asked: Answer(status=307, headers={"Location": elsewhere.url})
        with pytest.raises(MetricsUnavailableError, match="HTTP 307"):
            ask(connect(host=server.url, password=SECRET))
        assert elsewhere.asked == []


def test_an_answer_may_not_be_endless(
    server: MetricsServer, connect: Callable[..., HttpAccess], monkeypatch: pytest.MonkeyPatch
) -> None:
    """More bytes than a reading can have are not taken in."""
    monkeypatch.setattr(http_access, "_BYTES_LIMIT", 1000)
    server.answer = lambda asked: Answer(body=b"x" * 2000)
    with pytest.raises(MetricsUnavailableError, match="too large"):
        ask(connect(host=server.url))


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A self-signed certificate for 127.0.0.1, with its key in the same file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "metrics")])
    now = datetime.datetime.now(datetime.UTC)
    signed = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    encoding = serialization.Encoding.PEM
    private = key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path = tmp_path / "server.pem"
    path.write_bytes(private + signed.public_bytes(encoding))
    return path


@pytest.mark.parametrize(
    ("extra", "trusted"),
    [
        ({}, False),
        ({"verify": False}, True),
        ({"verify": "false"}, True),
        ({"verify": "CERTIFICATE"}, True),
        ({"ca": "CERTIFICATE"}, True),
    ],
)
def test_a_server_is_trusted_as_the_connection_says(
    extra: dict[str, Any], trusted: bool, certificate: Path, connect: Callable[..., HttpAccess]
) -> None:
    """A certificate of one's own authority is taken where `ca` or `verify` names it, or where none is checked."""
    with metrics_server(tls=certificate) as server:
        named = {name: str(certificate) if value == "CERTIFICATE" else value for name, value in extra.items()}
        access = connect(host=f"https://127.0.0.1:{server.port}", extra=named)
        if trusted:
            assert ask(access)[0] == 200
        else:
            with pytest.raises(MetricsUnavailableError, match="certificate"):
                ask(access)


def test_the_client_shows_its_certificate(certificate: Path, connect: Callable[..., HttpAccess]) -> None:
    """A server that wants to see a certificate gets that of `client_cert` and `client_key`."""
    with metrics_server(tls=certificate, client_ca=certificate) as server:
        tls = {"ca": str(certificate), "client_cert": str(certificate), "client_key": str(certificate)}
        address = f"https://127.0.0.1:{server.port}"
        assert ask(connect(host=address, extra=tls))[0] == 200
        with pytest.raises(MetricsUnavailableError):
            ask(connect(host=address, extra={"ca": str(certificate)}))


def test_a_certificate_must_be_of_the_host(certificate: Path, connect: Callable[..., HttpAccess]) -> None:
    """A certificate of the right authority, but for another host, is refused."""
    with (
        metrics_server(tls=certificate) as server,
        pytest.raises(MetricsUnavailableError, match="certificate"),
    ):
        ask(connect(host=f"https://localhost:{server.port}", extra={"ca": str(certificate)}))


def test_a_proxy_is_used_where_one_is_named(
    server: MetricsServer, connect: Callable[..., HttpAccess]
) -> None:
    """With `proxy` the request goes there, for an address that only the proxy knows."""
    access = connect(host="http://prometheus.invalid", extra={"proxy": server.url})
    assert asked_with(server, access).headers["Host"] == "prometheus.invalid"

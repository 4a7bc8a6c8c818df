"""TLS, certificates, token and headers over both protocols, by a real Envoy before a real tritonserver."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_triton.client import calls
from airflow_provider_triton.errors import CredentialsRefusedError, ServerUnavailableError, UserError
from airflow_provider_triton.hooks.triton import TritonHook
from slipway_core.triton_config.build import pin_versions
from slipway_sandbox.services.triton import TritonServer
from tests.support.triton_provider.certificates import Authority
from tests.support.triton_provider.servers import typed_connection, unload_all
from tests.support.triton_provider.table import ROW
from tests.support.triton_provider.tls_proxy import HEADERS, TOKEN, tls_proxy

pytestmark = pytest.mark.timeout(600)

PROTOCOLS = ["http", "grpc"]


@dataclass
class Guarded:
    """The proxy, and the connections to it."""

    port: int
    known: dict[str, Any]
    strange_ca: Path
    strange_client: dict[str, Any]
    monkeypatch: pytest.MonkeyPatch

    def hook(self, protocol: str, token: str = TOKEN, **changes: Any) -> TritonHook:
        """Return a hook whose connection is complete but for the changes; None takes a field out."""
        extra = {"protocol": protocol, "ssl": True, "headers": HEADERS, **self.known, **changes}
        filled = {name: value for name, value in extra.items() if value is not None}
        self.monkeypatch.setenv("AIRFLOW_CONN_GUARDED", typed_connection(self.port, token=token, **filled))
        return TritonHook("guarded", timeout_s=60)


@pytest.fixture(scope="module")
def proxy(triton: TritonServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """The proxy before the server, and what its clients show."""
    folder = tmp_path_factory.mktemp("tls")
    authority, stranger = Authority(folder, "authority"), Authority(folder, "stranger")
    client, strange = authority.issue("client"), stranger.issue("strange-client")
    with tls_proxy(folder, authority, triton.ports) as port:
        yield {
            "port": port,
            "known": {
                "ca": str(authority.ca),
                "client_cert": str(client.certificate),
                "client_key": str(client.key),
            },
            "strange_ca": stranger.ca,
            "strange_client": {"client_cert": str(strange.certificate), "client_key": str(strange.key)},
        }


@pytest.fixture
def guarded(proxy: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Guarded:
    """The proxy, with connections of this test's own."""
    return Guarded(monkeypatch=monkeypatch, **proxy)


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_who_shows_everything_is_let_in(
    guarded: Guarded, config: dict[str, Any], protocol: str
) -> None:
    """With CA, client's certificate, token and headers every kind of call goes through, blocking and not."""
    hook = guarded.hook(protocol)
    hook.load("table", pin_versions(config, [2]))
    try:
        assert hook.infer("table", 2, {"x": ROW}, ["y"])["y"].tolist() == [[3, 6]]
        answer = await hook.caller.infer_async("table", 2, {"x": ROW}, ["y"])
        assert answer["y"].tolist() == [[3, 6]]
        assert await hook.ask_async(calls.model_ready("table", 2))
        if protocol == "grpc":
            assert len(hook.infer_stream("table", 2, [{"x": ROW}], ["y"])) == 1
        assert hook.test_connection()[0]
    finally:
        unload_all(hook)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    "wrong",
    [{"token": "another-token"}, {"token": ""}, {"headers": None}],
    ids=["token", "no token", "no header"],
)
async def test_who_asks_is_not_known(guarded: Guarded, protocol: str, wrong: dict[str, Any]) -> None:
    """A token or a header that is missing or wrong is a person's to correct, whatever is asked, and is not shown."""
    hook = guarded.hook(protocol, **wrong)
    for ask in (hook.index, hook.is_ready, lambda: hook.infer("table", 1, {"x": ROW}, ["y"])):
        with pytest.raises(CredentialsRefusedError, match="'guarded'") as caught:
            ask()
        assert caught.value.__cause__ is not None
        assert "another-token" not in str(caught.value)
    with pytest.raises(CredentialsRefusedError):
        await hook.ask_async(calls.index())


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_server_with_a_strange_certificate(guarded: Guarded, protocol: str) -> None:
    """A server whose certificate the CA has not issued is not asked anything."""
    with pytest.raises(ServerUnavailableError):
        guarded.hook(protocol, ca=str(guarded.strange_ca)).index()


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("shown", ["none", "strange"])
def test_client_without_a_certificate_of_the_servers(guarded: Guarded, protocol: str, shown: str) -> None:
    """A client that shows no certificate, or one of another authority's, is not let in."""
    changes = guarded.strange_client if shown == "strange" else {"client_cert": None, "client_key": None}
    with pytest.raises(ServerUnavailableError):
        guarded.hook(protocol, **changes).index()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_certificate_file_that_cannot_be_read(guarded: Guarded, protocol: str, tmp_path: Path) -> None:
    """A path that leads nowhere, or to something else, is a mistake in the connection."""
    (tmp_path / "ca.pem").write_text("no certificate")
    for ca in (tmp_path / "nowhere.pem", tmp_path / "ca.pem"):
        with pytest.raises(UserError, match=r"'guarded' cannot be used.*`ca`"):
            guarded.hook(protocol, ca=str(ca)).index()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_secrets_stay_out_of_the_logs(
    guarded: Guarded, protocol: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """Neither token nor headers are in a log, in what is printed, or in what an object shows of itself."""
    caplog.set_level(logging.DEBUG)
    hook = guarded.hook(protocol)
    hook.index()
    with pytest.raises(CredentialsRefusedError) as caught:
        guarded.hook(protocol, headers={"X-Team": "another-team-secret"}).index()
    shown = (
        f"{caplog.text} {''.join(capfd.readouterr())} {hook.settings!r} {caught.value} {vars(caught.value)}"
    )
    for secret in (TOKEN, *HEADERS.values(), "another-team-secret"):
        assert secret not in shown

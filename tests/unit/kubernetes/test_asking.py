"""A client that reads its credentials anew, and waits when the API asks for it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import config
from kubernetes.client import ApiClient, Configuration

from slipway_core.errors import ClusterUnavailableError
from slipway_kubernetes import ObjectKind
from slipway_kubernetes.asking import asking_again
from slipway_kubernetes.client import KubernetesObjects
from tests.support.http_server import QuietHandler, http_server

KIND = ObjectKind("serving.kserve.io", "v1beta1", "inferenceservices", "InferenceService")
OBJECT = json.dumps({"metadata": {"name": "digits"}}).encode()


class Api:
    """An API server that takes one token, and has no time for a number of requests."""

    def __init__(self) -> None:
        self.token, self.busy, self.status, self.retry_after = "first", 0, 429, "1"
        self.seen: list[str] = []


@pytest.fixture
def api() -> Api:
    """The server's behaviour."""
    return Api()


@pytest.fixture
def address(api: Api) -> Iterator[str]:
    """Where it listens."""

    class Handler(QuietHandler):
        def respond(self) -> None:
            self.body()
            token = (self.headers["Authorization"] or "").removeprefix("Bearer ")
            api.seen.append(token)
            if token != api.token:
                self.answer(401, b"{}")
            elif api.busy:
                api.busy -= 1
                self.answer(api.status, b"{}", headers={"Retry-After": api.retry_after})
            else:
                self.answer(200, OBJECT)

    with http_server(Handler) as port:
        yield f"http://127.0.0.1:{port}"


class Waits:
    """A clock that a sleep moves."""

    def __init__(self) -> None:
        self.now, self.slept = 0.0, list[float]()

    def sleep(self, seconds: float) -> None:
        """Move on."""
        self.slept.append(seconds)
        self.now += seconds

    def clock(self) -> float:
        """Return the time."""
        return self.now


def kubeconfig(folder: Path, address: str, user: dict[str, Any]) -> str:
    """Write a kubeconfig with one user; return its path."""
    path = folder / "kubeconfig"
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": address}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(json.dumps(content))
    return str(path)


def objects_of(path: str, waits: Waits | None = None) -> KubernetesObjects:
    """Return a client by a kubeconfig."""

    def connect() -> ApiClient:
        configuration = Configuration()
        config.load_kube_config(config_file=path, client_configuration=configuration)
        return ApiClient(configuration)

    told = waits or Waits()
    client = asking_again(connect, sleep=told.sleep, clock=told.clock)
    return KubernetesObjects(client, refused_remedy="see the rights", away_remedy="see the way")


def test_a_token_file_that_rotates_is_read_again(tmp_path: Path, api: Api, address: str) -> None:
    """The old token is refused once, and reads and writes by the new one go on with the same client."""
    token = tmp_path / "token"
    token.write_text("first")
    objects = objects_of(kubeconfig(tmp_path, address, {"tokenFile": str(token)}))
    assert objects.read(KIND, "models", "digits") is not None
    api.token = "second"
    token.write_text("second")
    assert objects.patch(KIND, "models", "digits", {"metadata": {"resourceVersion": "1"}}) is not None
    assert objects.read(KIND, "models", "digits") is not None
    assert api.seen == ["first", "first", "second", "second"]


def test_a_token_that_stays_refused_is_not_sent_again(tmp_path: Path, api: Api, address: str) -> None:
    """The file says the same as before: the refusal is told after one request."""
    token = tmp_path / "token"
    token.write_text("wrong")
    objects = objects_of(kubeconfig(tmp_path, address, {"tokenFile": str(token)}))
    with pytest.raises(ClusterUnavailableError, match="401"):
        objects.read(KIND, "models", "digits")
    assert api.seen == ["wrong"]


def test_a_kubeconfig_that_is_gone_tells_the_refusal(tmp_path: Path, api: Api, address: str) -> None:
    """Where it cannot be read anew, what the API has answered is what is told."""
    path = kubeconfig(tmp_path, address, {"token": "first"})
    objects = objects_of(path)
    Path(path).write_text("users: [")
    api.token = "second"
    with pytest.raises(ClusterUnavailableError, match="401"):
        objects.read(KIND, "models", "digits")


@pytest.mark.parametrize("status", [429, 503])
def test_the_api_is_asked_again_when_it_wants_to_be(
    tmp_path: Path, api: Api, address: str, status: int
) -> None:
    """An answer with `Retry-After` is waited for, and the request that was not begun is sent again."""
    api.status, api.busy, waits = status, 2, Waits()
    objects = objects_of(kubeconfig(tmp_path, address, {"token": "first"}), waits)
    assert objects.read(KIND, "models", "digits") is not None
    assert waits.slept == [1.0, 1.0]


@pytest.mark.parametrize("retry_after", ["3600", "soon", ""])
def test_no_request_waits_for_long(tmp_path: Path, api: Api, address: str, retry_after: str) -> None:
    """An hour is not waited for, and neither is what is no time: the error is the caller's at once."""
    api.busy, api.retry_after, waits = 1, retry_after, Waits()
    objects = objects_of(kubeconfig(tmp_path, address, {"token": "first"}), waits)
    with pytest.raises(ClusterUnavailableError, match="429"):
        objects.read(KIND, "models", "digits")
    assert (waits.slept, len(api.seen)) == ([], 1)


def test_an_api_that_is_always_busy_is_given_up(tmp_path: Path, api: Api, address: str) -> None:
    """However often it asks for a second more, the waits of one request end after five."""
    api.busy, waits = 100, Waits()
    objects = objects_of(kubeconfig(tmp_path, address, {"token": "first"}), waits)
    with pytest.raises(ClusterUnavailableError, match="429"):
        objects.read(KIND, "models", "digits")
    assert sum(waits.slept) <= 5

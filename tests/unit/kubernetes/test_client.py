"""slipway_kubernetes: what becomes of the API's answers, and of no answer."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kubernetes.client import ApiClient, Configuration

from slipway_core.errors import ClusterUnavailableError, SpecError
from slipway_kubernetes import ObjectKind, client
from slipway_kubernetes.asking import asking_again
from slipway_kubernetes.client import KubernetesObjects
from tests.support.http_server import QuietHandler, http_server

SERVICE = ObjectKind("serving.kserve.io", "v1beta1", "inferenceservices", "InferenceService", "correct it")
NOBODYS = ObjectKind("serving.kserve.io", "v1beta1", "inferenceservices", "InferenceService")
BODY = {"metadata": {"name": "digits", "resourceVersion": "7"}}


class Api:
    """An API server that gives one answer to everything, or none; counts what it is asked."""

    def __init__(self) -> None:
        self.status, self.body, self.hangs = 200, "{}", threading.Event()
        self.asked: list[str] = []
        self.is_stuck = False

    def answer(self, handler: QuietHandler) -> None:
        """Answer one request."""
        self.asked.append(f"{handler.command} {handler.path}")
        if self.is_stuck:
            self.hangs.wait(10)
        handler.body()
        handler.answer(self.status, self.body.encode())


@pytest.fixture
def api() -> Api:
    """The server's behaviour."""
    return Api()


@pytest.fixture
def objects(api: Api) -> Iterator[KubernetesObjects]:
    """A client of it."""

    class Handler(QuietHandler):
        def respond(self) -> None:
            api.answer(self)

    with http_server(Handler) as port:
        configuration = Configuration(host=f"http://127.0.0.1:{port}")
        yield KubernetesObjects(
            asking_again(lambda: ApiClient(configuration)),
            refused_remedy="see the rights",
            away_remedy="see the way",
        )
        api.hangs.set()


Ask = Callable[[KubernetesObjects, ObjectKind], Any]
ASKS: dict[str, Ask] = {
    "read": lambda one, kind: one.read(kind, "models", "digits"),
    "list": lambda one, kind: one.list(kind, "models"),
    "create": lambda one, kind: one.create(kind, "models", BODY),
    "patch": lambda one, kind: one.patch(kind, "models", "digits", BODY),
    "delete": lambda one, kind: one.delete(kind, "models", "digits", "u", "7"),
    "event": lambda one, kind: one.create_event("models", BODY),
    "config map": lambda one, kind: one.read_config_map("kserve", "inferenceservice-config"),
    "selector": lambda one, kind: one.service_selector("models", "triton"),
    "label": lambda one, kind: one.label_pod("models", "triton-0", {"a": "b"}),
    "may": lambda one, kind: one.may("patch", "pods", "models"),
    "secrets": lambda one, kind: one.reads_secrets("kube-system"),
    "server": lambda one, kind: one.server(),
}


@pytest.mark.parametrize(
    ("what", "status", "answer"),
    [
        ("read", 404, None),
        ("create", 409, None),
        ("patch", 404, None),
        ("patch", 409, None),
        ("delete", 404, True),
        ("delete", 409, False),
        ("event", 404, False),
        ("event", 409, False),
        ("config map", 403, None),
        ("config map", 404, None),
        ("selector", 404, None),
        ("label", 404, False),
        ("secrets", 403, False),
    ],
)
def test_an_object_that_is_absent_or_has_changed_is_no_error(
    api: Api, objects: KubernetesObjects, what: str, status: int, answer: object
) -> None:
    """The caller observes again, and decides on what it finds then."""
    api.status = status
    assert ASKS[what](objects, SERVICE) is answer


@pytest.mark.parametrize("what", ASKS)
@pytest.mark.parametrize("status", [401, 429, 500, 503])
def test_any_other_answer_is_one_transient_error(
    api: Api, objects: KubernetesObjects, what: str, status: int
) -> None:
    """Never "is absent": the error names the status and what to check, and the API was asked once."""
    api.status = status
    with pytest.raises(ClusterUnavailableError, match=rf"failed.*HTTP {status}.*see the rights"):
        ASKS[what](objects, SERVICE)
    assert len(api.asked) == 1


@pytest.mark.parametrize("what", ["create", "patch"])
@pytest.mark.parametrize(
    ("status", "body"),
    [(400, "{}"), (422, "{}"), (403, json.dumps({"message": "admission webhook denied it"}))],
)
def test_an_object_that_the_api_finds_invalid_is_its_authors(
    api: Api, objects: KubernetesObjects, what: str, status: int, body: str
) -> None:
    """With somebody who wrote it the error is his, with what he can do; without, it is the cluster's."""
    api.status, api.body = status, body
    with pytest.raises(SpecError, match=r"models/digits: the API server finds it invalid.*correct it"):
        ASKS[what](objects, SERVICE)
    with pytest.raises(ClusterUnavailableError):
        ASKS[what](objects, NOBODYS)


PANIC = 'admission webhook "defaulter" denied the request: panic: runtime error: index out of range'


def test_a_new_object_that_a_webhook_panics_at_is_its_authors(api: Api, objects: KubernetesObjects) -> None:
    """KServe's webhook answers 500 for a predictor without a model: that is no outage, and waiting does not help."""
    api.status, api.body = 500, json.dumps({"message": PANIC})
    with pytest.raises(SpecError, match=r"finds it invalid.*panic.*correct it"):
        ASKS["create"](objects, SERVICE)


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("patch", PANIC),
        ("create", "Internal error occurred: failed calling webhook: connection refused"),
    ],
)
def test_other_errors_of_a_webhook_are_transient_and_told(
    api: Api, objects: KubernetesObjects, what: str, message: str
) -> None:
    """A webhook that is away comes back, and a change, which may lead users back, is tried again."""
    api.status, api.body = 500, json.dumps({"message": message})
    with pytest.raises(ClusterUnavailableError, match=rf"HTTP 500 .*: {message[:30]}"):
        ASKS[what](objects, SERVICE)


@pytest.mark.parametrize("what", ASKS)
def test_an_api_that_hangs_is_asked_once(
    api: Api, objects: KubernetesObjects, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No hidden retries: the time limits are those of one request."""
    for name in ("READ_TIMEOUT_S", "LIST_TIMEOUT_S", "WRITE_TIMEOUT_S"):
        monkeypatch.setattr(client, name, (0.2, 0.2))
    api.is_stuck = True
    with pytest.raises(ClusterUnavailableError, match="see the way"):
        ASKS[what](objects, SERVICE)
    assert len(api.asked) == 1


@pytest.mark.parametrize("what", ["read", "list", "create", "patch", "selector", "may"])
def test_an_answer_that_is_no_json_is_no_object(api: Api, objects: KubernetesObjects, what: str) -> None:
    """What cannot be read is not absent."""
    api.body = "<html>a proxy's page</html>"
    with pytest.raises(ClusterUnavailableError):
        ASKS[what](objects, SERVICE)


@pytest.mark.parametrize("what", ["selector", "may"])
def test_an_answer_that_is_another_object_says_nothing(
    api: Api, objects: KubernetesObjects, what: str
) -> None:
    """Neither a Service without pods, nor a right that is missing."""
    with pytest.raises(ClusterUnavailableError):
        ASKS[what](objects, SERVICE)


@pytest.mark.parametrize("allowed", [True, False])
def test_a_right_is_asked_for_without_being_used(api: Api, objects: KubernetesObjects, allowed: bool) -> None:
    """The API says whether whoever asks has it."""
    api.body = json.dumps({"spec": {}, "status": {"allowed": allowed}})
    assert objects.may("patch", "pods", "models") is allowed
    assert api.asked == ["POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews"]


def test_a_list_tells_the_servers_clock(api: Api, objects: KubernetesObjects) -> None:
    """A watcher that has no memory compares with it."""
    api.body = json.dumps({"items": [BODY]})
    listing = objects.list(SERVICE, None, label_selector="a=b")
    assert listing.items == [BODY]
    assert listing.server_time is not None
    assert api.asked == ["GET /apis/serving.kserve.io/v1beta1/inferenceservices?labelSelector=a%3Db"]


@pytest.mark.parametrize("body", ["{}", '{"items": null}', '{"items": [], "metadata": {"continue": "abc"}}'])
def test_a_list_that_is_not_whole_is_an_error(body: str, api: Api, objects: KubernetesObjects) -> None:
    """What is not listed is not taken for what is not there."""
    api.body = body
    with pytest.raises(ClusterUnavailableError, match="listing inferenceservices failed"):
        objects.list(SERVICE, "models")

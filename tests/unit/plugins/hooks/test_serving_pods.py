"""A rollback's way to the candidate's pods: what it asks of the API, and which rights that takes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes.client import ApiClient, Configuration

from slipway.hooks.inference_service import KServeHook
from slipway_core.errors import ClusterUnavailableError
from slipway_core.rollout.pods.drain import ServingPod
from slipway_kubernetes.asking import asking_again
from slipway_kubernetes.client import KubernetesObjects
from tests.support.conformance.rights import documented_rules
from tests.support.http_server import QuietHandler, http_server

POD = {
    "metadata": {
        "name": "digits-predictor-00002-x",
        "uid": "u-2",
        "labels": {"serving.knative.dev/revision": "digits-predictor-00002"},
        "annotations": {"internal.serving.kserve.io/storage-initializer-sourceuri": "s3://b/3"},
    }
}
SEEN = ServingPod("digits-predictor-00002-x", "u-2", "digits-predictor-00002", "s3://b/3")


class Api:
    """Gives one answer to everything, and keeps what it was asked."""

    def __init__(self) -> None:
        self.status = 200
        self.answer: Any = {"items": [POD], "metadata": {}}
        self.asked: list[tuple[str, str, Any]] = []


@pytest.fixture
def api() -> Api:
    return Api()


@pytest.fixture
def hook(api: Api) -> Iterator[KServeHook]:
    class Handler(QuietHandler):
        def respond(self) -> None:
            body = self.body()
            api.asked.append((self.command, self.path, json.loads(body) if body else None))
            self.answer(api.status, json.dumps(api.answer).encode())

    with http_server(Handler) as port:
        found = KServeHook("digits", "models")
        client = asking_again(lambda: ApiClient(Configuration(host=f"http://127.0.0.1:{port}")))
        found.__dict__["objects"] = KubernetesObjects(client, refused_remedy="rights", away_remedy="way")
        yield found


def test_the_pods_of_the_inference_service_are_listed(api: Api, hook: KServeHook) -> None:
    """By KServe's own label, and read as values."""
    assert hook.pods() == (SEEN,)
    ((method, path, _),) = api.asked
    assert method == "GET"
    assert path.startswith(
        "/api/v1/namespaces/models/pods?labelSelector=serving.kserve.io%2Finferenceservice%3Ddigits"
    )


def test_the_very_pod_that_was_seen_is_ended_within_the_grace(api: Api, hook: KServeHook) -> None:
    """Another one of its name stays."""
    assert hook.end_pod(SEEN, 5)
    ((method, path, body),) = api.asked
    assert (method, path) == ("DELETE", "/api/v1/namespaces/models/pods/digits-predictor-00002-x")
    assert (body["gracePeriodSeconds"], body["preconditions"]) == (5, {"uid": "u-2"})


@pytest.mark.parametrize("status", [404, 409])
def test_a_pod_that_is_gone_is_no_error(api: Api, hook: KServeHook, status: int) -> None:
    """It was to go."""
    api.status = status
    assert not hook.end_pod(SEEN, 5)


def test_without_the_right_nothing_is_seen_and_nothing_ended(api: Api, hook: KServeHook) -> None:
    """Pods that may not be listed are not "no pods"."""
    api.status = 403
    assert hook.pods() is None
    with pytest.raises(ClusterUnavailableError):
        hook.end_pod(SEEN, 5)


@pytest.mark.parametrize(
    "answer",
    [[], {}, {"items": None}, {"items": [POD], "metadata": {"continue": "more"}}, {"items": [3]}],
)
def test_a_list_that_is_not_whole_is_not_believed(api: Api, hook: KServeHook, answer: Any) -> None:
    """What cannot be read is not "no pods"."""
    api.answer = answer
    assert hook.pods() is None


def test_the_page_gives_these_rights_and_no_more() -> None:
    """In the namespace of the models pods are listed and deleted, never read one by one, changed or made."""
    [rule] = [one for one in documented_rules("rollout.namespace") if one["resources"] == ["pods"]]
    assert (rule["apiGroups"], sorted(rule["verbs"])) == ([""], ["delete", "list"])

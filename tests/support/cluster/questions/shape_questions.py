"""Questions about what does not decode, breaks a schema, or has metadata that is none."""

from __future__ import annotations

from typing import Any

from tests.support.cluster.questions.question import (
    JSON,
    MODEL,
    NAMESPACE,
    ROUTES,
    SERVICES,
    Question,
    get,
    patch,
    post,
    service,
)

_DRY = f"{SERVICES}?dryRun=All"
_CONFIG_MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"


def _predictor(name: str, /, **predictor: Any) -> Question:
    """Return the question whether a new InferenceService with this predictor is taken."""
    return post(name, _DRY, service("shaped", **predictor))


def _metadata(name: str, /, **metadata: Any) -> Question:
    return post(name, _DRY, service("shaped", metadata=metadata))


def _put(name: str, **metadata: str) -> Question:
    return Question(name, "PUT", f"{SERVICES}/canaried?dryRun=All", service("canaried", metadata=metadata))


_CONTAINER = {"name": "server", "image": "example.org/server:1"}
_WRONG_WEIGHT = {
    "apiVersion": "gateway.networking.k8s.io/v1",
    "kind": "HTTPRoute",
    "metadata": {"name": "r-bad", "namespace": NAMESPACE},
    "spec": {"rules": [{"backendRefs": [{"name": "a", "port": 80, "weight": "all"}]}]},
}

SHAPE_QUESTIONS = (
    post("body is not JSON", SERVICES, "{"),
    post("body is a list", SERVICES, []),
    post("body is a text", SERVICES, '"text"'),
    post("body is of another type", SERVICES, "a: b", content_type="text/plain"),
    patch("patch as plain JSON", f"{SERVICES}/canaried?dryRun=All", {}, JSON),
    post("spec is a list", _DRY, service("shaped") | {"spec": []}),
    post("predictor is a list", _DRY, service("shaped") | {"spec": {"predictor": []}}),
    _predictor("model is a text", model="triton"),
    _predictor("storageUri is a number", model={**MODEL, "storageUri": 7}),
    _predictor("storageUri is a list", model={**MODEL, "storageUri": ["s3://x"]}),
    _predictor("modelFormat is a text", model={**MODEL, "modelFormat": "triton"}),
    _predictor("percent is a text", canaryTrafficPercent="5"),
    _predictor("percent is a fraction", canaryTrafficPercent=5.5),
    _predictor("percent is a truth", canaryTrafficPercent=True),
    _predictor("percent is too large for its type", canaryTrafficPercent=2**40),
    _predictor("variable without a name", model={**MODEL, "env": [{"value": "x"}]}),
    _predictor("unknown effect of a toleration", tolerations=[{"effect": "Never"}]),
    _predictor("unknown metric", scaleMetric="mood"),
    _predictor("stable name upper", name="V2"),
    _predictor("sklearn beside triton", triton={"storageUri": "s3://a"}, sklearn={"storageUri": "s3://b"}),
    post(
        "containers alone",
        _DRY,
        service("shaped") | {"spec": {"predictor": {"containers": [_CONTAINER]}}},
    ),
    post("mode is nonsense", _DRY, service("shaped", mode="Nonsense")),
    _metadata("label is a number", labels={"a": 1}),
    _metadata("label key with two slashes", labels={"a/b/c": "x"}),
    _metadata("label too long", labels={"a": "x" * 64}),
    _metadata("annotation key with a space", annotations={"no spaces": "x"}),
    _metadata("no name", name=""),
    _metadata("name too long", name="x" * 260),
    _put("put without version"),
    _put("put stale version", resourceVersion="1"),
    post("unknown dry run", f"{SERVICES}?dryRun=Some", service("shaped")),
    get("unknown field selector", f"{SERVICES}?fieldSelector=spec.color%3Dred"),
    get("watch from a version that is none", f"{SERVICES}?watch=1&resourceVersion=abc&timeoutSeconds=1"),
    post("route of a wrong type", ROUTES, _WRONG_WEIGHT),
    post("route without spec", ROUTES, {key: one for key, one in _WRONG_WEIGHT.items() if key != "spec"}),
    post(
        "config map of a wrong type",
        _CONFIG_MAPS,
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": 1}},
    ),
)

"""Questions about one InferenceService: to create, read, patch and delete it, and what the webhooks say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.support.cluster.questions.question import (
    ABSENT_NAMESPACE,
    APPLY_PATCH,
    JSON_PATCH,
    NAMESPACE,
    OTHER_UID,
    SERVICES,
    STRATEGIC_MERGE_PATCH,
    UID,
    Body,
    Question,
    get,
    patch,
    post,
    service,
)

FIRST = f"{SERVICES}/p"
_ABSENT = f"{SERVICES}/none"
_DRY = f"{SERVICES}?dryRun=All"
_FIRST_DRY = f"{FIRST}?dryRun=All"


def _predictor(name: str, predictor: Body) -> Question:
    """Return the question what a patch of the predictor would make, without making it."""
    return patch(name, _FIRST_DRY, {"spec": {"predictor": predictor}})


def _annotated(name: str, mode: str) -> Question:
    annotations = {"serving.kserve.io/deploymentMode": mode}
    return patch(name, _FIRST_DRY, {"metadata": {"annotations": annotations}})


def _delete(name: str, path: str, *, settles: bool = False, **preconditions: str) -> Question:
    options = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": preconditions}
    return Question(name, "DELETE", path, options, settles=settles)


def _without(body: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in body.items() if key not in keys}


FIRST_QUESTIONS = (
    post("create", SERVICES, service("p"), settles=True),
    post("create twice", SERVICES, service("p")),
    get("get", FIRST),
    get("absent", _ABSENT),
    get("absent kind", SERVICES.replace("inferenceservices", "nothings")),
    post(
        "absent namespace",
        SERVICES.replace(NAMESPACE, ABSENT_NAMESPACE),
        service("p") | {"metadata": {"name": "p", "namespace": ABSENT_NAMESPACE, "annotations": {}}},
    ),
    post(
        "other namespace in body",
        SERVICES,
        service("p") | {"metadata": {"name": "q", "namespace": "default"}},
    ),
    get("bad token", SERVICES, wrong_token=True),
    patch("patch nothing", FIRST, {}),
    patch(
        "patch percent 10, ours stale",
        FIRST,
        {"metadata": {"resourceVersion": "1"}, "spec": {"predictor": {"minReplicas": 1}}},
    ),
    patch("patch garbage version", FIRST, {"metadata": {"resourceVersion": "abc"}, "spec": {}}),
    patch("patch generation", FIRST, {"metadata": {"generation": 77}}),
    patch("patch uid", FIRST, {"metadata": {"uid": OTHER_UID}}),
    patch("patch name", FIRST, {"metadata": {"name": "other"}}),
    patch("patch status by the main door", FIRST, {"status": {"url": "http://nowhere"}}),
    patch("patch not an object", FIRST, [1]),
    patch("patch not JSON", FIRST, "{"),
    patch(
        "json patch",
        _FIRST_DRY,
        [{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}],
        JSON_PATCH,
    ),
    patch("strategic merge patch", FIRST, {}, STRATEGIC_MERGE_PATCH),
    patch(
        "apply patch",
        f"{FIRST}?fieldManager=x&dryRun=All",
        {
            "apiVersion": "serving.kserve.io/v1beta1",
            "kind": "InferenceService",
            "metadata": {"name": "p"},
        },
        APPLY_PATCH,
    ),
    patch("patch absent", _ABSENT, {"spec": {}}),
    _predictor("patch text for a number", {"minReplicas": "two"}),
    _predictor("patch list for an object", {"model": []}),
    _predictor("patch drops model", {"model": None}),
    _predictor("patch two implementations", {"triton": {"storageUri": "s3://x"}}),
    _predictor("patch predictor null", None),
    _predictor("patch unknown field", {"wibble": 1}),
    patch(
        "patch unknown field, strict",
        f"{_FIRST_DRY}&fieldValidation=Strict",
        {"spec": {"predictor": {"wibble": 1}}},
    ),
    _predictor("patch model.name", {"model": {"name": "x"}}),
    _predictor("patch min over max", {"minReplicas": 3, "maxReplicas": 2}),
    _predictor("patch min negative", {"minReplicas": -1}),
    _annotated("patch mode to Knative", "Knative"),
    _annotated("patch mode to nonsense", "Nonsense"),
    _predictor("patch name alone", {"name": "v9"}),
    patch("patch label invalid", _FIRST_DRY, {"metadata": {"labels": {"a": "b c"}}}),
    patch("patch label not text", _FIRST_DRY, {"metadata": {"labels": {"a": 1}}}),
    _predictor("patch percent 101", {"canaryTrafficPercent": 101}),
    _predictor("patch percent -1", {"canaryTrafficPercent": -1}),
    _predictor("patch percent 10", {"canaryTrafficPercent": 10}),
    _predictor("patch percent away", {"canaryTrafficPercent": None}),
    _delete("delete, wrong uid", FIRST, uid=OTHER_UID),
    _delete("delete, stale version", FIRST, uid=UID, resourceVersion="1"),
    _delete("delete, absent", _ABSENT, uid=UID),
)

_NO_MODEL = {"predictor": {}}
_OLD_STYLE = {"predictor": {"triton": {"storageUri": "s3://models/table/1/repository"}}}
_WITH_NULLS = service("one", maxReplicas=None)
_WITH_NULLS["spec"]["predictor"]["name"] = None

NEW_SERVICE_QUESTIONS = (
    post("no canary in RawDeployment", _DRY, service("raw", mode="RawDeployment")),
    post("no mode at all", _DRY, service("unnamedmode", mode="")),
    post("Serverless", _DRY, service("knative", mode="Serverless")),
    post("name with a digit first", _DRY, service("1abc")),
    post("name with a dot", _DRY, service("a.b")),
    post("name upper", _DRY, service("Abc")),
    post("no model, no framework", _DRY, service("noname") | {"spec": _NO_MODEL}),
    post("no predictor", _DRY, service("noname") | {"spec": {}}),
    post("no spec", _DRY, _without(service("noname"), "spec")),
    post("no modelFormat", _DRY, service("noname", model={"storageUri": "s3://x"})),
    post("strict unknown", f"{_DRY}&fieldValidation=Strict", service("strict", wibble=1)),
    post("warned unknown", _DRY, service("warned", wibble=1)),
    post("old style triton", _DRY, service("named") | {"spec": _OLD_STYLE}),
    post("scale to zero", _DRY, service("scale0", minReplicas=0)),
    post("with version", _DRY, service("one", metadata={"resourceVersion": "5"})),
    post("wrong kind", _DRY, service("one") | {"kind": "Inference"}),
    post("null fields", _DRY, _WITH_NULLS),
    get("list limit", f"{SERVICES}?limit=1"),
    get("list selector bad", f"{SERVICES}?labelSelector=a%20b%20c"),
    get("watch too old", f"{SERVICES}?watch=1&resourceVersion=1&timeoutSeconds=1"),
)

LAST_QUESTIONS = (
    _delete("delete", FIRST, settles=True, uid=UID),
    get("get right after delete", FIRST),
)

"""Questions about the canaries of an InferenceService in Standard mode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.support.cluster.questions.question import (
    CANDIDATE_MODEL,
    SERVICES,
    Question,
    canary,
    patch,
    post,
    service,
)

CANARIED = f"{SERVICES}/canaried"


def _with(name: str, canaries: list[dict[str, Any]] | None) -> Question:
    """Return the question what an InferenceService with these canaries would be, without making it."""
    return patch(name, f"{CANARIED}?dryRun=All", {"spec": {"canary": canaries}})


def _created(name: str, service_name: str, mode: str) -> Question:
    return post(name, f"{SERVICES}?dryRun=All", service(service_name, mode=mode, canary=[canary(10)]))


_REFUSED_OR_TAKEN: Mapping[str, list[dict[str, Any]]] = {
    "canary without a name": [canary(10, None)],
    "canary twice": [canary(10), canary(20)],
    "canary 101": [canary(101)],
    "canary -1": [canary(-1)],
    "canaries over 100": [canary(60), canary(50, "v3")],
    "canary maxReplicas": [canary(10, maxReplicas=5)],
    "canary maxReplicas 0": [canary(10, maxReplicas=0)],
    "canary scaleTarget": [canary(10, scaleTarget=5)],
    "canary worker": [canary(10, workerSpec={})],
    "canary minReplicas 2": [canary(10, minReplicas=2)],
    "canary text percent": [canary("10")],
    "canary float percent": [canary(10.5)],
    "canary without predictor": [{"trafficPercent": 10}],
    "canary no percent": [{"predictor": canary(1)["predictor"]}],
    "canary without model": [{"trafficPercent": 10, "predictor": {"name": "v2"}}],
    "canary with uri alone": [
        {"trafficPercent": 10, "predictor": {"name": "v2", "model": {"storageUri": "s3://models/x"}}}
    ],
    "canary of nine": [canary(1, f"v{number}") for number in range(2, 11)],
    "canary eleven": [canary(1, f"v{number}") for number in range(2, 13)],
    "canary name upper": [canary(10, "V2")],
    "canary name long": [canary(10, "v" + "x" * 60)],
    "canary model.name": [canary(10, model={**CANDIDATE_MODEL, "name": "x"})],
    "canary empty name": [canary(10, "")],
}

CANARY_QUESTIONS = (
    post("base", SERVICES, service("canaried"), settles=True),
    _with("canary ok", [canary(10)]),
    _with("canary ok, model.name empty", [canary(10, model={**CANDIDATE_MODEL, "name": ""})]),
    _with("canary 0", [canary(0)]),
    _with("canary empty list", []),
    _with("canary null", None),
    *(_with(name, canaries) for name, canaries in _REFUSED_OR_TAKEN.items()),
    _created("canary in RawDeployment", "raw", "RawDeployment"),
    _created("canary without mode", "unnamedmode", ""),
    _created("canary in Knative", "knative", "Knative"),
)

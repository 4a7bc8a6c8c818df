"""Why a canary cannot work on an InferenceService in Knative mode as it is.

Read in KServe's sources: `inference_service_validation_test.go` (what the webhook refuses of a canary). With splits p
in predictor and transformer each, 2 p (1 - p) of the users would meet a pair that nobody has released.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from slipway_core.rollout.dialects.knative.view import ROUTE_READY
from slipway_core.rollout.fields import condition_is_true, conditions, mapping


def problems(isvc: Mapping[str, Any]) -> Iterator[str]:
    """Yield each reason, with what to do."""
    spec, status = mapping(isvc.get("spec")), mapping(isvc.get("status"))
    if spec.get("canary"):
        yield "`spec.canary` is Standard mode's; in Knative mode KServe refuses it. Remove it."
    transformer = mapping(spec.get("transformer"))
    if transformer.get("canaryTrafficPercent") is not None:
        yield (
            f"The transformer has its own canary (`canaryTrafficPercent: {transformer['canaryTrafficPercent']}`): "
            "two splits in sequence would pair old and new at random. Model and transformer go live as one; finish the "
            "transformer's canary first."
        )
    component = mapping(mapping(status.get("components")).get("predictor"))
    if condition_is_true(status, "PredictorReady") and not component.get("traffic"):
        yield (
            "The predictor is ready, but its status shows no traffic, so no Knative route's split can be "
            "observed. Make sure that Knative Serving and its ingress run, or deploy in Standard mode."
        )
    if condition_is_true(status, "PredictorReady") and not conditions(status, ROUTE_READY):
        yield (
            f"The predictor is ready, but its status has no condition {ROUTE_READY}: it shows the traffic that "
            "Knative intends, not what the router has applied. Upgrade KServe, or deploy in "
            "Standard mode."
        )

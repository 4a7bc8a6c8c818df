"""Why a canary cannot work on an InferenceService in Standard mode as it is.

What KServe would silently ignore is refused here: `canaryTrafficPercent` has no effect at all, and `spec.canary` has
none on users unless Gateway API routes carry its weights. Read in KServe's sources and issues:
`inference_service_validation_test.go` (what the webhook refuses of a canary), kserve#5335 (the percent in Standard
mode), `httproute_reconciler.go` (`Reconcile`: no route for cluster-local services or where ingress creation is off; the
top-level route leads to a transformer where there is one, past the weights), PR 5984 and its test (a ready canary takes
its replicas from stable's minReplicas).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from slipway_core.rollout.dialects.standard.view import StandardView
from slipway_core.rollout.fields import mapping, texts

CONFIG_MAP = ("kserve", "inferenceservice-config")
_VISIBILITY = "networking.kserve.io/visibility"
_AUTOSCALING = ("maxReplicas", "scaleTarget", "scaleMetric", "scaleMetricType", "autoScaling")


@dataclass(frozen=True)
class ClusterConfig:
    """What of KServe's ConfigMap `inferenceservice-config` decides whether Standard mode can split traffic."""

    gateway_api: bool
    creates_routes: bool


def cluster_config(data: Mapping[str, str]) -> ClusterConfig:
    """Read the ConfigMap's data; a missing or unreadable part reads as KServe's default, Gateway API off."""
    try:
        ingress = mapping(json.loads(data.get("ingress", "{}")))
    except (ValueError, RecursionError):
        ingress = {}
    return ClusterConfig(
        gateway_api=ingress.get("enableGatewayApi") is True,
        creates_routes=ingress.get("disableIngressCreation") is not True,
    )


def problems(isvc: Mapping[str, Any], view: StandardView, config: ClusterConfig | None) -> Iterator[str]:
    """Yield each reason, with what to do.

    :param config: what the ConfigMap says; None if not everybody may read it: then what is seen of the routes must
        do.
    """
    yield from _routing(isvc, view, config)
    yield from _predictor(view)
    for entry in view.canaries:
        given = [key for key in _AUTOSCALING if mapping(entry.body.get("predictor")).get(key)]
        if given:
            yield (
                f"The canary {entry.name} sets {', '.join(given)}: KServe scales canaries by minReplicas alone "
                "and refuses the rest. Remove it."
            )


def _routing(isvc: Mapping[str, Any], view: StandardView, config: ClusterConfig | None) -> Iterator[str]:
    metadata, spec = mapping(isvc.get("metadata")), mapping(isvc.get("spec"))
    if config is not None and not config.gateway_api:
        yield (
            "Gateway API is off in KServe's ConfigMap inferenceservice-config (`ingress`: enableGatewayApi), and "
            "without it a canary's weight has no effect. Turn it on, or deploy in Knative mode."
        )
    if config is not None and not config.creates_routes:
        yield (
            "KServe makes no routes here (inferenceservice-config, `ingress`: disableIngressCreation), so no "
            "weight takes effect. Turn that off."
        )
    if texts(metadata.get("labels")).get(_VISIBILITY) == "cluster-local":
        yield f"A cluster-local service (label {_VISIBILITY}) gets no HTTPRoute, so no weight takes effect."
    elif view.predictor_ready and not view.route.found:
        yield (
            f"No HTTPRoute leads to {view.stable_backend}: canary weights take effect in HTTPRoutes alone (KServe "
            "0.21 and later with enableGatewayApi). Turn Gateway API on, or deploy in Knative mode."
        )
    if spec.get("transformer"):
        yield (
            "Users come through the transformer, which calls the stable predictor past the HTTPRoute's weights, "
            "so a canary would get no requests. Deploy in Knative mode, or put both into one Triton ensemble."
        )


def _predictor(view: StandardView) -> Iterator[str]:
    predictor = view.predictor
    if predictor.get("canaryTrafficPercent") is not None:
        yield (
            f"`canaryTrafficPercent: {predictor['canaryTrafficPercent']}` is silently ignored in Standard mode: "
            "whatever the predictor names gets everyone. Remove it."
        )
    if not view.stable_uri:
        yield "KServe takes a canary only over a predictor with `model.storageUri`; this one has none."
    if predictor.get("workerSpec"):
        yield "A predictor of several nodes (workerSpec) cannot have a canary in KServe."
    replicas = view.min_replicas
    if replicas == 0:
        yield "`minReplicas: 0` leaves no replica for a canary and no warm one for a rollback: set 1."
    if replicas and replicas > 1 and 0 < view.max_replicas < 2 * replicas and view.own is None:
        yield (
            f"A ready canary takes its replicas from stable's minReplicas ({replicas}); for stable to keep them all, "
            f"that is raised by as many, up to {2 * replicas} before the promotion, but maxReplicas is "
            f"{view.max_replicas}. Raise it to {2 * replicas}."
        )

"""Why a canary cannot work on an InferenceService as it is, in the dialect that its deployment mode makes it speak.

    problems = preflight(isvc, routes, cluster_config(configmap["data"]))   # () where nothing stands in the way

What KServe would silently ignore is refused here: in Standard mode `canaryTrafficPercent` has no effect at all,
and `spec.canary` has none on users unless Gateway API routes carry its weights. Read in KServe's sources and
issues: `inference_service_validation_test.go` (what the webhook refuses of a canary), kserve#5335 (the percent
in Standard mode), `httproute_reconciler.go` (`Reconcile`: no route for cluster-local services or where ingress
creation is off; the top-level route leads to a transformer where there is one, past the weights), PR 5984 and
its test (a ready canary takes its replicas from stable's minReplicas). With splits p in predictor and transformer
each, 2 p (1 - p) of the users would meet a pair that nobody has released.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from slipway_core.rollout.dialects.knative.view import ROUTE_READY
from slipway_core.rollout.dialects.standard.view import StandardView, standard_view
from slipway_core.rollout.fields import (
    condition_is_true,
    conditions,
    deployment_mode,
    mapping,
    texts,
)

_VISIBILITY = "networking.kserve.io/visibility"
_STOP = "serving.kserve.io/stop"
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


def preflight(
    isvc: Mapping[str, Any],
    routes: Iterable[Mapping[str, Any]] = (),
    config: ClusterConfig | None = None,
) -> tuple[str, ...]:
    """Return the reasons why a canary would not work, each with what to do; empty where none is seen.

    `routes` are the service's HTTPRoutes. Without `config`, which not everybody may read, what is seen of the
    routes must do. A manifest that was not created yet has no status, and nothing is missing from that.
    """
    mode = deployment_mode(isvc) or "Knative"
    if mode == "Standard":
        return tuple(_standard(isvc, standard_view(isvc, routes), config))
    if mode == "Knative":
        return tuple(_knative(isvc))
    return (f"The deployment mode {mode} cannot split traffic; deploy in Knative or Standard mode.",)


def _common(isvc: Mapping[str, Any]) -> Iterator[str]:
    metadata = mapping(isvc.get("metadata"))
    if texts(metadata.get("annotations")).get(_STOP, "").lower() == "true":
        yield f"The service is stopped by its annotation {_STOP}; remove that first."


def _knative(isvc: Mapping[str, Any]) -> Iterator[str]:
    yield from _common(isvc)
    spec, status = mapping(isvc.get("spec")), mapping(isvc.get("status"))
    if spec.get("canary"):
        yield "`spec.canary` is Standard mode's; in Knative mode KServe refuses it. Remove it."
    transformer = mapping(spec.get("transformer"))
    if transformer.get("canaryTrafficPercent") is not None:
        yield (
            f"The transformer has a canary of its own (`canaryTrafficPercent: {transformer['canaryTrafficPercent']}`): "
            "two splits in a row would pair old and new at random. Model and transformer go live as one; finish the "
            "transformer's canary first."
        )
    component = mapping(mapping(status.get("components")).get("predictor"))
    if condition_is_true(status, "PredictorReady") and not component.get("traffic"):
        yield (
            "The predictor is ready, but its status tells of no traffic: there is no Knative route whose split "
            "could be seen. See that Knative Serving and its ingress run, or deploy in Standard mode."
        )
    if condition_is_true(status, "PredictorReady") and not conditions(status, ROUTE_READY):
        yield (
            f"The predictor is ready, but its status has no condition {ROUTE_READY}: traffic there is what Knative "
            "intends, and nobody could know whether the router has taken a weight. Upgrade KServe, or deploy in "
            "Standard mode."
        )


def _standard(isvc: Mapping[str, Any], view: StandardView, config: ClusterConfig | None) -> Iterator[str]:
    yield from _common(isvc)
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
            "without it a canary's weight leads nobody anywhere. Turn it on, or deploy in Knative mode."
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
            "so a canary would get nobody. Deploy in Knative mode, or put both into one Triton ensemble."
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
        yield "`minReplicas: 0` leaves no replica that a canary may have, nor a warm one to go back to: set 1."
    if replicas and replicas > 1 and 0 < view.max_replicas < 2 * replicas and view.own is None:
        yield (
            f"A ready canary takes its replicas from stable's minReplicas ({replicas}); for stable to keep them all, "
            f"that is raised by as many, up to {2 * replicas} before the promotion, but maxReplicas is "
            f"{view.max_replicas}. Raise it to {2 * replicas}."
        )

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from slipway_core.rollout.dialects.standard.preflight import ClusterConfig, cluster_config
from slipway_core.rollout.dialects.standard.view import backend_name, predictor_name, read_routes, version_in
from slipway_core.rollout.next_action import Impossible, StartCanary, next_action
from slipway_sandbox.lab.simulation.knative_model import live_model
from slipway_sandbox.lab.simulation.standard_model import standard_live
from tests.support.rollout.reading import observe, preflight

Json = dict[str, Any]
# What KServe's ConfigMap says where it makes no routes.
OFF = {"ingress": json.dumps({"enableGatewayApi": True, "disableIngressCreation": True})}


def standard() -> tuple[Json, list[Json]]:
    """Return an InferenceService in Standard mode on which nothing stands in the way, and its routes."""
    model = standard_live()
    return model.as_object(), model.routes()


def with_changes(change: Json) -> Json:
    """Return that InferenceService with changes at dotted paths."""
    isvc, _ = standard()
    for path, value in change.items():
        *parents, last = path.split(".")
        target = isvc
        for key in parents:
            target = target.setdefault(key, {})
        target[last] = value
    return isvc


def test_nothing_stands_in_the_way_of_a_canary() -> None:
    """In either mode a service that is up and routed has no problem."""
    assert preflight(*standard()) == ()
    assert preflight(live_model().as_object()) == ()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"spec.predictor.canaryTrafficPercent": 10}, "silently ignored"),
        ({"spec.transformer": {"containers": []}}, "transformer"),
        ({"spec.predictor.workerSpec": {"pipelineParallelSize": 2}}, "several nodes"),
        ({"spec.predictor.minReplicas": 0}, "minReplicas: 0"),
        ({"spec.predictor.minReplicas": 3, "spec.predictor.maxReplicas": 4}, "Raise it to 6"),
        ({"spec.predictor.model": {"modelFormat": {"name": "triton"}}}, "storageUri"),
        ({"metadata.labels": {"networking.kserve.io/visibility": "cluster-local"}}, "cluster-local"),
        (
            {
                "metadata.annotations": {
                    "serving.kserve.io/deploymentMode": "Standard",
                    "serving.kserve.io/stop": "true",
                }
            },
            "stopped",
        ),
        (
            {"spec.canary": [{"trafficPercent": 5, "predictor": {"name": "c", "maxReplicas": 3}}]},
            "sets maxReplicas",
        ),
        (
            {
                "metadata.annotations": {"serving.kserve.io/deploymentMode": "ModelMesh"},
                "status.deploymentMode": "ModelMesh",
            },
            "ModelMesh",
        ),
    ],
)
def test_what_cannot_work_in_standard_mode_is_said(change: Json, said: str) -> None:
    """Each obstacle is named alone, with what to do."""
    (problem,) = preflight(with_changes(change), standard()[1])
    assert said in problem


def test_no_route_no_canary() -> None:
    """A predictor that is ready without an HTTPRoute that leads to it: weights would lead nobody anywhere."""
    isvc, routes = standard()
    assert "No HTTPRoute leads to digits-predictor" in preflight(isvc)[0]
    for route in routes:
        route["spec"]["rules"][0]["backendRefs"][0]["name"] = "digits-transformer"
    assert "No HTTPRoute" in preflight(isvc, routes)[0]


def test_a_manifest_that_was_not_created_yet_lacks_no_route() -> None:
    """Nothing can be missing from what is not there yet; the cluster's configuration can forbid it."""
    isvc, _ = standard()
    del isvc["status"]
    assert preflight(isvc) == ()
    assert "enableGatewayApi" in preflight(isvc, config={})[0]
    assert "disableIngressCreation" in preflight(isvc, config=OFF)[0]


@pytest.mark.parametrize(
    ("data", "found"),
    [
        ({"ingress": json.dumps({"enableGatewayApi": True})}, ClusterConfig(True, True)),
        (
            {"ingress": json.dumps({"enableGatewayApi": True, "disableIngressCreation": True})},
            ClusterConfig(True, False),
        ),
        ({"ingress": "{"}, ClusterConfig(False, True)),
        ({}, ClusterConfig(False, True)),
    ],
)
def test_the_clusters_configuration_is_read_as_kserve_has_it(
    data: dict[str, str], found: ClusterConfig
) -> None:
    """Gateway API is off where nothing says that it is on."""
    assert cluster_config(data) == found


def test_knative_without_traffic_in_its_status_is_refused() -> None:
    """A ready predictor whose status tells of no traffic has no route that a split could be seen in."""
    isvc = live_model().as_object()
    assert preflight(isvc) == ()
    isvc["status"]["components"]["predictor"]["traffic"] = []
    assert "Knative Serving" in preflight(isvc)[0]
    action = next_action(StartCanary("s3://b/v3", 5), observe(isvc))
    assert isinstance(action, Impossible)
    assert "Knative Serving" in action.reason


def test_knative_whose_status_does_not_tell_of_the_route_is_refused() -> None:
    """Without PredictorRouteReady nobody could know whether a weight has reached the router."""
    isvc = live_model().as_object()
    told = isvc["status"]["conditions"]
    isvc["status"]["conditions"] = [one for one in told if one["type"] != "PredictorRouteReady"]
    assert "PredictorRouteReady" in preflight(isvc)[0]
    action = next_action(StartCanary("s3://b/v3", 5), observe(isvc))
    assert isinstance(action, Impossible)
    assert "PredictorRouteReady" in action.reason


def test_the_list_of_the_other_mode_is_refused_in_knative() -> None:
    """`spec.canary` has no place beside Knative's revisions."""
    isvc = live_model().as_object()
    isvc["spec"]["canary"] = [{"trafficPercent": 5, "predictor": {"name": "c"}}]
    assert "Standard mode's" in preflight(isvc)[0]


def test_a_canary_is_not_begun_over_an_obstacle() -> None:
    """The transition itself refuses, whoever asks, and changes nothing."""
    isvc, routes = standard()
    isvc["spec"]["predictor"]["canaryTrafficPercent"] = 10
    action = next_action(StartCanary("s3://b/v3", 5), observe(isvc, routes))
    assert isinstance(action, Impossible)
    assert "silently ignored" in action.reason


# --- what the routes say ---


def route(name: str, *references: tuple[str, int | None], generation: int = 1, taken: int = 1) -> Json:
    """Return an HTTPRoute with weights."""
    refs = [
        {"name": backend} | ({} if weight is None else {"weight": weight}) for backend, weight in references
    ]
    condition = {"type": "Accepted", "status": "True", "observedGeneration": taken}
    return {
        "metadata": {"name": name, "generation": generation},
        "spec": {"rules": [{"backendRefs": refs}]},
        "status": {"parents": [{"conditions": [condition]}]},
    }


A, B = "digits-predictor", "digits-c-predictor"


@pytest.mark.parametrize(
    ("references", "traffic"),
    [
        ([(A, None)], {A: 100}),
        ([(A, 80), (B, 20)], {A: 80, B: 20}),
        ([(A, 4), (B, 1)], {A: 80, B: 20}),
        ([(A, 999), (B, 1)], {A: 99, B: 1}),
        ([(A, 100), (B, 0)], {A: 100, B: 0}),
        ([(A, 0)], {A: 0}),
        ([(A, None), (B, None)], {A: 50, B: 50}),
    ],
)
def test_weights_are_shares_of_their_sum(references: list[tuple[str, int | None]], traffic: Json) -> None:
    """As Gateway API has it, a missing weight being 1; only nothing is 0 % and only everything is 100 %."""
    reading = read_routes([route("digits", *references)], "digits")
    assert (reading.traffic, reading.current, reading.found) == (traffic, True, True)


def test_routes_that_differ_leave_nobody_alone() -> None:
    """While one route lags behind the other each backend has its largest share."""
    isvc, _ = standard()
    routes = [route("digits", (A, 100), (B, 0)), route("digits-predictor", (A, 80), (B, 20))]
    observed = observe(isvc, routes)
    assert observed.share(B) == 20
    assert not observed.alone(A)


def test_a_route_that_its_gateway_has_not_taken_yet_proves_nothing() -> None:
    """Weights are wishes until the Gateway has accepted that very generation."""
    isvc, _ = standard()
    ahead = route("digits", (A, None), generation=2, taken=1)
    assert not observe(isvc, [ahead]).alone(A)
    refused = copy.deepcopy(ahead)
    refused["status"]["parents"][0]["conditions"][0] |= {"status": "False", "observedGeneration": 2}
    assert not observe(isvc, [refused]).alone(A)
    unheard = {**route("digits", (A, None)), "status": {}}
    assert not observe(isvc, [unheard]).alone(A)
    assert observe(isvc, [route("digits", (A, None), generation=2, taken=2)]).alone(A)


def test_routes_of_other_services_do_not_count() -> None:
    """A service whose name begins alike has backends that look alike; its routes have other names."""
    others = route("digits-c", ("digits-c-predictor", None))
    assert not read_routes([others], "digits").found


def test_a_storage_uri_has_one_predictor_name() -> None:
    """The same URI, the same name; it tells the version where the URI does, and another URI has another."""
    uri = "s3://slipway/models/digits/12/repository"
    assert predictor_name(uri) == predictor_name(uri)
    assert predictor_name(uri).startswith("v12-")
    assert predictor_name(uri) != predictor_name("s3://elsewhere/models/digits/12/repository")
    assert version_in("s3://b/model") == "unknown"
    assert backend_name("digits", predictor_name("s3://b/model")).startswith("digits-v")


def test_a_transformer_with_a_split_of_its_own_is_refused_in_knative() -> None:
    """Two splits in a row pair old and new at random; a transformer without one is one unit with the model."""
    isvc = live_model().as_object()
    isvc["spec"]["transformer"] = {"containers": []}
    assert preflight(isvc) == ()
    isvc["spec"]["transformer"]["canaryTrafficPercent"] = 10
    (problem,) = preflight(isvc)
    assert "pair old and new" in problem
    action = next_action(StartCanary("s3://b/v3", 5), observe(isvc))
    assert isinstance(action, Impossible)

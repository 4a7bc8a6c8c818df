"""KServe's Standard mode as a pure machine: its rules and its traps."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from slipway_sandbox.kserve.standard import machine as standard
from slipway_sandbox.kserve.standard.http_routes import http_routes
from slipway_sandbox.kserve.standard.machine import Backend, Predictor
from slipway_sandbox.kserve.standard.status import status_of

V1, V2 = "s3://b/v1", "s3://b/v2"
STABLE, CANARY = "digits-predictor", "digits-c-predictor"
Json = dict[str, Any]


def service(canaries: list[Json] | None = None, **predictor: Any) -> Json:
    """Return an InferenceService; `predictor` adds to its predictor."""
    spec: Json = {"predictor": {"model": {"modelFormat": {"name": "triton"}, "storageUri": V1}, **predictor}}
    if canaries:
        spec["canary"] = canaries
    return {"metadata": {"name": "digits", "namespace": "models", "uid": "u"}, "spec": spec}


def canary(percent: int, **predictor: Any) -> Json:
    """Return a canary of the second version; `predictor` adds to its predictor."""
    return {
        "trafficPercent": percent,
        "predictor": {
            "name": "c",
            "model": {"modelFormat": {"name": "triton"}, "storageUri": V2},
            **predictor,
        },
    }


def reconciled(before: Predictor, wanted: Json, *, pods_come_up: bool = True) -> Predictor:
    """Return what reconciliations make of a spec, between which autoscalers look and pods come up."""
    for _ in range(12):
        before = standard.scaled(standard.route(standard.reconcile(before, wanted), wanted))
        for workload in before.workloads:
            if pods_come_up and workload.newest.phase == "ready":
                before = standard.with_one_more(before, workload.name)
            elif pods_come_up:
                before = standard.with_pods(before, workload.name, workload.newest.number, phase="ready")
    return standard.route(standard.reconcile(before, wanted), wanted)


def live(**predictor: Any) -> Predictor:
    """Return a service whose first version answers."""
    return reconciled(Predictor(), service(**predictor))


def test_there_is_no_route_before_the_first_version_answers() -> None:
    """Without a ready stable predictor nobody is led anywhere; then everyone is, by a reference without a weight."""
    booting = standard.route(standard.reconcile(Predictor(), service()), service())
    assert booting.routed == ()
    assert live().routed == (Backend(STABLE),)


def test_a_ready_canary_gets_its_percent_and_stable_the_rest() -> None:
    """20 % for the canary's Service, 80 % for stable's."""
    after = reconciled(live(), service([canary(20)]))
    assert after.routed == (Backend(STABLE, 80), Backend(CANARY, 20))
    assert after.users() == {V1: 80, V2: 20}


def test_a_canary_that_is_not_ready_has_no_place_in_the_route() -> None:
    """Its percent stays with stable, while the status repeats it."""
    after = reconciled(live(), service([canary(20)]), pods_come_up=False)
    assert after.users() == {V1: 100}
    status = status_of(after, name="digits", namespace="m", domain="d", previous={}, now="now")
    (echo,) = status["canaryStatuses"]
    assert (echo["name"], echo["ready"], echo["trafficPercent"]) == ("c", False, 20)
    conditions = {one["type"]: (one["status"], one.get("reason")) for one in status["conditions"]}
    assert conditions["CanaryPredictorReady"] == ("False", "CanariesNotReady")
    assert conditions["Ready"] == ("True", None)


def test_the_percent_of_the_other_mode_is_ignored() -> None:
    """With `canaryTrafficPercent: 10` a new storageUri is a rolling update that ends with everybody on it."""
    changed = service(canaryTrafficPercent=10)
    changed["spec"]["predictor"]["model"]["storageUri"] = V2
    assert reconciled(live(), changed).users() == {V2: 100}


def test_a_rolling_update_keeps_the_old_pods_until_the_new_ones_answer() -> None:
    """One that never answers changes nothing for users."""
    changed = service()
    changed["spec"]["predictor"]["model"]["storageUri"] = V2
    after = reconciled(live(), changed, pods_come_up=False)
    assert after.users() == {V1: 100}
    assert after.is_ready


@pytest.mark.parametrize(
    ("least", "percent", "own", "stable", "replicas"),
    [
        (4, 25, None, 3, 1),
        (4, 50, None, 2, 2),
        (10, 20, 3, 7, 3),
        (2, 50, None, 1, 1),
        (4, 99, None, 1, 4),
        (1, 20, None, 1, 1),
        (None, 20, None, 1, 1),
    ],
)
def test_a_ready_canary_takes_its_replicas_from_stable(
    least: int | None, percent: int, own: int | None, stable: int, replicas: int
) -> None:
    """As KServe's `TestAdjustStableMinReplicasForCanaries` has it: the rest is stable's, one at least."""
    given = {} if least is None else {"minReplicas": least}
    wanted = service([canary(percent, **({} if own is None else {"minReplicas": own}))], **given)
    after = reconciled(live(**given), wanted)
    wanted_now = {one.name: one.replicas for one in after.workloads}
    assert wanted_now == {STABLE: stable, CANARY: replicas}
    assert {one.name: one.available for one in after.workloads} == wanted_now


def test_stable_keeps_its_replicas_while_the_canary_boots() -> None:
    """Only ready canaries take any."""
    after = reconciled(live(minReplicas=4), service([canary(50)], minReplicas=4), pods_come_up=False)
    stable = after.workload(STABLE)
    assert stable is not None
    assert stable.replicas == 4


def test_a_canary_at_no_percent_keeps_one_pod() -> None:
    """Its autoscaler's least is its percent of stable's and one at least: it is ready, with weight 0 in the routes."""
    after = reconciled(live(minReplicas=4), service([canary(0)], minReplicas=4))
    derived = after.workload(CANARY)
    assert derived is not None
    assert (derived.replicas, derived.available) == (1, 1)
    assert after.routed == (Backend(STABLE, 100), Backend(CANARY, 0))


def test_a_deployment_begins_with_one_pod_and_follows_its_autoscaler() -> None:
    """minReplicas 3: ready, and all users there, with one pod; unavailable as soon as three are wanted."""
    wanted = service(minReplicas=3)
    after = standard.with_pods(standard.reconcile(Predictor(), wanted), STABLE, 1, phase="ready")
    assert standard.route(after, wanted).users() == {V1: 100}
    assert after.is_ready
    after = standard.scaled(after)
    assert not after.is_ready
    for _ in range(2):
        assert not after.is_ready
        after = standard.with_one_more(after, STABLE)
    assert after.is_ready


def test_a_canary_is_ready_with_one_pod_of_those_wanted() -> None:
    """And gets its whole share."""
    wanted = service([canary(50, minReplicas=3)], minReplicas=6)
    before = standard.reconcile(reconciled(Predictor(), service(minReplicas=6)), wanted)
    before = standard.with_pods(standard.scaled(before), CANARY, 1, phase="ready")
    after = standard.route(standard.reconcile(before, wanted), wanted)
    found = after.workload(CANARY)
    assert found is not None
    assert (found.replicas, found.available) == (3, 1)
    assert after.users() == {V1: 50, V2: 50}


@pytest.mark.parametrize(
    ("replicas", "most", "missing", "freezes"),
    [
        (3, None, 1, True),
        (4, None, 1, False),
        (3, "50%", 1, False),
        (3, "50%", 2, True),
        (1, "50%", 1, True),
        (4, 3, 3, False),
        (4, "100%", 4, False),
    ],
)
def test_routes_freeze_when_more_of_stable_is_missing_than_may_be(
    replicas: int, most: int | str | None, missing: int, *, freezes: bool
) -> None:
    """PredictorReady is the Deployment's Available: maxUnavailable is 25 %, rounded down, or what the owner says."""
    given: Json = {"minReplicas": replicas + 1}
    if most is not None:
        given["deploymentStrategy"] = {"rollingUpdate": {"maxUnavailable": most}}
    before = reconciled(live(**given), service([canary(50, minReplicas=1)], **given))
    lost = standard.with_missing(before, {STABLE: missing})
    safe = service([canary(0, minReplicas=1)], **given)
    after = standard.route(standard.reconcile(lost, safe), safe)
    assert (after.shares() == {STABLE: 50, CANARY: 50}) == freezes
    back = standard.with_missing(after, {})
    for _ in range(missing):
        back = standard.with_one_more(back, STABLE)
    assert standard.route(standard.reconcile(back, safe), safe).shares() == {STABLE: 100}


def test_a_ready_canary_shrinks_stable_at_once() -> None:
    """Of four pods of stable one is left, beside a canary of four with one pod up."""
    given = {"minReplicas": 4}
    wanted = service([canary(50, minReplicas=4)], **given)
    before = standard.scaled(standard.reconcile(live(**given), wanted))
    before = standard.with_pods(before, CANARY, 1, phase="ready")
    after = standard.scaled(standard.reconcile(before, wanted))
    assert {one.name: one.available for one in after.workloads} == {STABLE: 1, CANARY: 1}


def test_a_changed_storage_uri_of_a_canary_stays_ready_while_its_old_pods_answer() -> None:
    """It keeps its weight, whatever becomes of the new pods."""
    before = reconciled(live(), service([canary(20)]))
    changed = canary(20)
    changed["predictor"]["model"]["storageUri"] = "s3://b/v3"
    after = standard.reconcile(before, service([changed]))
    after = standard.reconcile(standard.with_pods(after, CANARY, 2, phase="failed"), service([changed]))
    assert [one.ready for one in after.canaries] == [True]
    assert standard.route(after, service([changed])).users() == {V1: 80, V2: 20}


def test_a_broken_update_of_stable_is_told_beside_ready() -> None:
    """PredictorReady and Ready are True while the model status is BlockedByFailedLoad."""
    changed = service()
    changed["spec"]["predictor"]["model"]["storageUri"] = V2
    after = standard.with_pods(standard.reconcile(live(), changed), STABLE, 2, phase="failed")
    after = standard.route(standard.reconcile(after, changed), changed)
    status = status_of(after, name="digits", namespace="m", domain="d", previous={}, now="now")
    conditions = {one["type"]: one["status"] for one in status["conditions"]}
    assert (conditions["PredictorReady"], conditions["Ready"]) == ("True", "True")
    assert status["modelStatus"]["transitionStatus"] == "BlockedByFailedLoad"


def test_what_nothing_names_is_deleted_before_the_route_changes() -> None:
    """Between the two stages whoever the route still leads there gets an error; then nobody is."""
    before = reconciled(live(), service([canary(20)]))
    removed = standard.reconcile(before, service())
    assert removed.users() == {V1: 80, "": 20}
    assert standard.route(removed, service()).users() == {V1: 100}


def test_promotion_under_the_canarys_name_keeps_its_pods() -> None:
    """Name, model and annotations of the canary in the predictor: the same Deployment, the same pods."""
    before = reconciled(live(), service([canary(50, annotations={"a": "b"}, minReplicas=1)]))
    promoted = service(name="c", annotations={"a": "b"})
    promoted["spec"]["predictor"]["model"]["storageUri"] = V2
    after = reconciled(before, promoted, pods_come_up=False)
    assert after.users() == {V2: 100}
    assert [(one.name, one.newest.number) for one in after.workloads] == [(CANARY, 1)]


def test_promotion_under_stables_name_starts_new_pods() -> None:
    """Users are back on the version before until those answer."""
    before = reconciled(live(), service([canary(99)]))
    promoted = service()
    promoted["spec"]["predictor"]["model"]["storageUri"] = V2
    assert reconciled(before, promoted, pods_come_up=False).users() == {V1: 100}


def test_an_annotation_of_the_object_restarts_all_its_pods() -> None:
    """It reaches every pod template; one of a canary's predictor reaches its own alone."""
    before = reconciled(live(), service([canary(20)]))
    noted = service([canary(20)])
    noted["metadata"]["annotations"] = {"note": "x"}
    after = standard.reconcile(before, noted)
    assert [one.newest.number for one in after.workloads] == [2, 2]
    own = standard.reconcile(before, service([canary(20, annotations={"note": "x"})]))
    assert {one.name: one.newest.number for one in own.workloads} == {STABLE: 1, CANARY: 2}


def test_the_route_stays_as_it_is_while_stable_is_not_ready() -> None:
    """A new weight is not written while the stable predictor does not answer."""
    before = reconciled(live(), service([canary(20)]))
    down = standard.with_pods(before, STABLE, 1, phase="failed")
    wanted = service([canary(50)])
    assert standard.route(standard.reconcile(down, wanted), wanted).routed == before.routed


def test_without_gateway_api_weights_lead_nobody_anywhere() -> None:
    """Everyone is on stable, whatever the percent."""
    after = reconciled(live(), service([canary(50)]))
    assert standard.route(after, service([canary(50)]), gateway_api=False).users() == {V1: 100}


def test_what_a_canary_leaves_out_it_has_from_stable() -> None:
    """Its own words go before stable's, key by key; what is empty says nothing."""
    stable = {
        "serviceAccountName": "s",
        "model": {"runtime": "r", "storageUri": V1},
        "annotations": {"a": "1"},
    }
    laid_over = {"model": {"storageUri": V2}, "annotations": {"a": "", "b": "2"}}
    before = copy.deepcopy(stable)
    assert standard.overlaid(stable, laid_over) == {
        "serviceAccountName": "s",
        "model": {"runtime": "r", "storageUri": V2},
        "annotations": {"a": "1", "b": "2"},
    }
    assert stable == before


def test_both_routes_carry_the_same_references() -> None:
    """The predictor's route and the service's own keep their names, whatever the predictor is called."""
    promoted = service(name="c")
    after = reconciled(Predictor(), promoted)
    routes = http_routes(after, promoted, "example.org", "kserve/gateway")
    assert [one["metadata"]["name"] for one in routes] == ["digits-predictor", "digits"]
    for one in routes:
        (rule,) = one["spec"]["rules"]
        assert [(ref["name"], ref["weight"]) for ref in rule["backendRefs"]] == [(CANARY, 1)]


def test_a_first_version_that_does_not_load_is_told() -> None:
    """The status says that it is blocked, and why; it keeps the reason when that is mended."""
    failed = standard.with_pods(
        standard.reconcile(Predictor(), service()), STABLE, 1, phase="failed", message="no model", exit_code=1
    )
    after = standard.reconcile(failed, service())
    status = status_of(after, name="digits", namespace="m", domain="d", previous={}, now="now")
    assert status["modelStatus"]["transitionStatus"] == "BlockedByFailedLoad"
    assert status["modelStatus"]["lastFailureInfo"]["message"] == "no model"
    mended = standard.reconcile(standard.with_pods(after, STABLE, 1, phase="ready"), service())
    assert mended.last_failure is not None

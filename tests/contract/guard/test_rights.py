"""The rights in the manifests are those that the guard uses: no fewer, or it fails, and no more."""

from __future__ import annotations

import re
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes.client import rest

from slipway_core.rollout.fields import CANDIDATE_URI as CANDIDATE_URI_NOTE
from slipway_core.rollout.fields import STABLE_URI as STABLE_URI_NOTE
from slipway_core.rollout.guard_heartbeat import heartbeat
from slipway_guard.cluster import Cluster, connect
from slipway_guard.watch import Guard, Terms
from slipway_sandbox.host.settings import PROJECT_ROOT
from slipway_sandbox.kserve.knative import machine as machine_of_knative
from slipway_sandbox.kserve.knative.service import knative_service
from slipway_sandbox.kserve.knative.status import status_of
from slipway_sandbox.kserve.standard import machine
from slipway_sandbox.kserve.standard.http_routes import http_routes
from tests.support.cluster.emulator import Emulator
from tests.support.guard.guarded_canary import CANDIDATE_URI, STABLE_URI, service_manifest
from tests.support.guard.stage import Stage
from tests.support.waiting import wait_until

RBAC = PROJECT_ROOT / "include" / "manifests" / "guard" / "rbac.yaml"
PATH = re.compile(
    r"/(?:api|apis/(?P<group>[^/]+))/v[^/]+(?:/namespaces/(?P<namespace>[^/]+))?/(?P<plural>[^/?]+)(?P<name>/[^/?]+)?"
)
Right = tuple[str, str, str]
OLD, NEW = "hanging-predictor-00001", "hanging-predictor-00002"
_KNATIVE = ("serving.knative.dev", "v1")
_KSERVE, _GATEWAY_API = ("serving.kserve.io", "v1beta1"), ("gateway.networking.k8s.io", "v1")


def granted(path: Path) -> set[Right]:
    """(group, resource, verb) of every rule of the Role."""
    (role,) = [one for one in yaml.safe_load_all(path.read_text(encoding="utf-8")) if one["kind"] == "Role"]
    return {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def right_of(method: str, url: str) -> Right:
    """What the API server's authorisation would ask about a request."""
    found = PATH.search(url)
    assert found is not None, url
    verbs = {
        "GET": "get" if found["name"] else "list",
        "PATCH": "patch",
        "POST": "create",
        "DELETE": "delete",
    }
    return found["group"] or "", found["plural"], verbs[method]


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> set[Right]:
    """Every right that a request of this thread needs from now on; KServe is another thread."""
    rights: set[Right] = set()
    send, this_thread = rest.RESTClientObject.request, threading.get_ident()

    def record(self: Any, method: str, url: str, **arguments: Any) -> Any:
        if threading.get_ident() == this_thread:
            rights.add(right_of(method, url))
        return send(self, method, url, **arguments)

    monkeypatch.setattr(rest.RESTClientObject, "request", record)
    return rights


def frozen_canary(stage: Stage) -> None:
    """A canary in Standard mode whose routes KServe leaves as they are: here it is nobody's."""
    standard = service_manifest("other", stage.namespace)
    standard["metadata"]["annotations"] = {"serving.kserve.io/deploymentMode": "Standard"}
    predictor = {
        "name": "new",
        "annotations": {CANDIDATE_URI_NOTE: CANDIDATE_URI, STABLE_URI_NOTE: STABLE_URI},
        "model": {**standard["spec"]["predictor"]["model"], "storageUri": CANDIDATE_URI},
    }
    standard["spec"]["canary"] = [{"trafficPercent": 50, "predictor": predictor}]
    service = stage.custom.create_namespaced_custom_object(
        *_KSERVE, stage.namespace, "inferenceservices", standard
    )
    routed = (machine.Backend("other-predictor", 50), machine.Backend("other-new-predictor", 50))
    parents = [{"conditions": [{"type": "Accepted", "status": "True"}]}]
    for route in http_routes(machine.Predictor(routed=routed), service, "example.org", "kserve/gateway"):
        named = (*_GATEWAY_API, stage.namespace, "httproutes")
        stage.custom.create_namespaced_custom_object(*named, route)
        stage.custom.patch_namespaced_custom_object_status(
            *named, route["metadata"]["name"], {"status": {"parents": parents}}
        )


def hanging_canary(stage: Stage) -> None:
    """A canary in Knative mode that KServe does not carry on, with its Knative Service: here it is nobody's."""
    service = service_manifest("hanging", stage.namespace, CANDIDATE_URI)
    service["metadata"]["annotations"] |= {CANDIDATE_URI_NOTE: CANDIDATE_URI, STABLE_URI_NOTE: STABLE_URI}
    service["spec"]["predictor"]["canaryTrafficPercent"] = 50
    named = (*_KSERVE, stage.namespace, "inferenceservices")
    created = stage.custom.create_namespaced_custom_object(*named, service)
    predictor = machine_of_knative.Predictor(
        revisions=tuple(
            machine_of_knative.Revision(one, number, "", "") for number, one in enumerate((OLD, NEW))
        ),
        latest_ready=NEW,
        latest_rolledout=OLD,
        traffic=(
            machine_of_knative.Target(NEW, 50, latest=True),
            machine_of_knative.Target(OLD, 50, latest=False, tag="prev"),
        ),
    )
    told = {
        "name": "hanging",
        "namespace": stage.namespace,
        "domain": "example.org",
        "previous": {},
        "now": "",
    }
    status = {"status": status_of(predictor, **told)}
    stage.custom.patch_namespaced_custom_object_status(*named, "hanging", status)
    behind = knative_service(predictor, created)
    stage.custom.create_namespaced_custom_object(*_KNATIVE, stage.namespace, "services", behind)


def test_the_guard_uses_every_right_that_it_is_given_and_no_other(
    stage: Stage, shared_emulator: Emulator, used: set[Right]
) -> None:
    """From the first look to the event, in both modes of KServe: the requests are those that the Role allows."""
    stage.start_canary(weight=20, lease_s=1)
    frozen_canary(stage)
    hanging_canary(stage)
    terms = Terms(poll_s=0.1, missing_lease_s=1.0)
    cluster = Cluster(connect(str(shared_emulator.kubeconfig)), (stage.namespace,))
    guard = Guard(cluster, terms)
    used.clear()
    # Beside the watch it shows that it looks, from a thread of its own.
    cluster.renew_heartbeat(stage.namespace, heartbeat(stage.namespace, "here", datetime.now(UTC)))
    # The canary that nobody carries on stays.
    wait_until(lambda: guard.look().canaries == 1 and used >= granted(RBAC), "the canaries are ended")
    assert used == granted(RBAC)

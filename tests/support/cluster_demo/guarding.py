"""The guard as a CronJob in the cluster, and a canary whose Airflow is killed."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from slipway_core.rollout.dialects.registry import observe
from slipway_sandbox.demo.counts import Traffic
from tests.support.cluster_demo.cluster import ServingCluster
from tests.support.conformance.api import documents
from tests.support.conformance.manifests import FOLDER
from tests.support.conformance.release.airflow import MODEL
from tests.support.conformance.release.airflow import NAMESPACE as MODELS
from tests.support.waiting import wait_until

_SERVICE = f"/apis/serving.kserve.io/v1beta1/namespaces/{MODELS}/inferenceservices/{MODEL}"
_KNATIVE_SERVICE = f"/apis/serving.knative.dev/v1/namespaces/{MODELS}/services/{MODEL}-predictor"
# Two leases and a minute after the last renewal, by the CronJob's own words, and a busy machine.
LIMIT_S = 420.0


@dataclass(frozen=True)
class GuardedEnd:
    """How a canary ended that nobody drove any more.

    :param patched_s: from the death of Airflow to weight 0 in the InferenceService.
    :param safe_s: from the death of Airflow to the candidate's last answer to a client; 0: it gave none.
    :param weight: the candidate's percent at the death of Airflow.
    :param job: the pod that ended it.
    """

    patched_s: float
    safe_s: float
    weight: int
    job: str


def install_guard(cluster: ServingCluster) -> None:
    """Apply the guard's own manifests."""
    for name in ("rbac", "cronjob"):
        for one in documents(FOLDER / "guard" / f"{name}.yaml"):
            cluster.api.apply(one)


def candidate_percent(cluster: ServingCluster) -> int | None:
    """Return the percent that the InferenceService asks for its candidate; None: there is none."""
    found = cluster.api.get(_SERVICE)
    return observe(found).canary_percent if found is not None else None


def served_percent(cluster: ServingCluster) -> int:
    """Return the percent of users that Knative leads to what is not alone."""
    found = cluster.api.must("GET", _KNATIVE_SERVICE)
    percents = [one.get("percent", 0) for one in found["status"].get("traffic", [])]
    return 0 if 100 in percents else min((one for one in percents if one), default=0)


def ended_by_the_guard(cluster: ServingCluster, traffic: Callable[[], Traffic], version: int) -> GuardedEnd:
    """Wait until the guard has taken the users off a canary that nobody drives from now on.

    :param traffic: returns what clients were answered so far.
    :param version: the candidate's.
    """
    killed_s, killed_at, weight = time.monotonic(), time.time(), candidate_percent(cluster) or 0
    wait_until(
        lambda: candidate_percent(cluster) in (0, None), "the guard ends the canary", LIMIT_S, poll_s=0.3
    )
    patched_s = time.monotonic() - killed_s
    wait_until(lambda: not served_percent(cluster), "Knative leads all users to stable", LIMIT_S, poll_s=0.3)
    snapshots = len(traffic().snapshots)
    wait_until(lambda: len(traffic().snapshots) > snapshots + 3, "clients are answered", LIMIT_S, poll_s=0.3)
    safe_s = max((at - killed_at for at in seconds_answered(traffic(), version)), default=0.0)
    return GuardedEnd(patched_s, max(0.0, safe_s), weight, _job(cluster))


def seconds_answered(traffic: Traffic, version: int) -> list[float]:
    """Return the seconds in which a version answered clients."""
    name, seen, found = str(version), 0, []
    for snapshot in traffic.snapshots:
        count = snapshot.answered_by.get(name, 0)
        if count > seen:
            found.append(snapshot.at)
        seen = count
    return found


def _job(cluster: ServingCluster) -> str:
    """Return the name of the guard's newest pod."""
    path = f"/api/v1/namespaces/{MODELS}/pods?labelSelector=app.kubernetes.io%2Fname%3Dslipway-guard"
    pods = sorted(cluster.api.items(path), key=lambda pod: str(pod["metadata"]["creationTimestamp"]))
    return str(pods[-1]["metadata"]["name"]) if pods else ""

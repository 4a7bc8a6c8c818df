"""Why a pod has left no result, by what a cluster says of it."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace
from typing import Any

import pytest
from kubernetes.client import ApiClient, ApiException
from kubernetes.client import models as k8s

from slipway.pods.failures import PodLimits, refused_or_away, silent_end
from slipway.pods.starting import NOT_PULLED
from slipway_core.errors import (
    ClusterUnavailableError,
    PodStartError,
    SlipwayError,
    TransientError,
    UserError,
)
from tests.support.rollout.pod_statuses import UNSCHEDULABLE, container

LIMITS = PodLimits(image="slipway/onnx:0.1.0", memory="2Gi", disk="20Gi", scratch="20Gi", deadline_s=780)
WANTED = "s3://models/work/result.json"


def ended(reason: str, exit_code: int, condition: k8s.V1PodCondition) -> k8s.V1Pod:
    """A pod as a real cluster showed it: its container's end, and a condition."""
    terminated = k8s.V1ContainerStateTerminated(exit_code=exit_code, reason=reason)
    container = k8s.V1ContainerStatus(
        name="base",
        image=LIMITS.image,
        image_id="",
        ready=False,
        restart_count=0,
        state=k8s.V1ContainerState(terminated=terminated),
    )
    return k8s.V1Pod(
        status=k8s.V1PodStatus(phase="Failed", conditions=[condition], container_statuses=[container])
    )


@pytest.mark.parametrize(
    "reason", ["EvictionByEvictionAPI", "PreemptionByScheduler", "DeletionByTaintManager"]
)
def test_a_pod_that_the_cluster_ended_for_anothers_sake_is_tried_again_and_says_why(reason: str) -> None:
    """Its node was drained or lost, or needed by a pod of higher priority: nobody has to mend anything."""
    condition = k8s.V1PodCondition(type="DisruptionTarget", status="True", reason=reason)
    error = silent_end("convert-1", ended("Error", 143, condition), LIMITS, wanted=WANTED, failure=None)
    assert isinstance(error, TransientError)
    assert error.found == reason


def test_a_pod_that_was_killed_for_its_memory_is_a_persons_to_mend() -> None:
    """The condition that every pod has says nothing about its end."""
    condition = k8s.V1PodCondition(type="Ready", status="False", reason="PodFailed")
    error = silent_end("convert-1", ended("OOMKilled", 137, condition), LIMITS, wanted=WANTED, failure=None)
    assert isinstance(error, UserError)
    assert error.found == "OOMKilled"


def of_status(status: dict[str, Any]) -> k8s.V1Pod:
    """A pod as the client reads it from the API's answer."""
    answer = SimpleNamespace(data=json.dumps({"metadata": {"name": "convert-1"}, "status": status}))
    found: k8s.V1Pod = ApiClient().deserialize(answer, "V1Pod")
    return found


def status_of(*containers: dict[str, Any], phase: str = "Failed", **more: Any) -> dict[str, Any]:
    full = [{"imageID": "", **one} for one in containers]
    return {"phase": phase, "containerStatuses": full, **more}


def over(name: str, code: int, reason: str = "Error", message: str = "") -> dict[str, Any]:
    return container(name, ended={"exitCode": code, "reason": reason, "message": message})


def waits(reason: str, message: str) -> dict[str, Any]:
    return container("base", waiting={"reason": reason, "message": message})


INIT = [{"imageID": "", **over("istio-init", 255, message="iptables: Permission denied")}]
ENDS: dict[str, tuple[dict[str, Any], type[SlipwayError], str]] = {
    "an image that is not there": (
        status_of(waits("ErrImagePull", "manifest unknown"), phase="Pending"),
        UserError,
        "cannot be pulled.*manifest unknown",
    ),
    "a registry that is away": (
        status_of(waits("ErrImagePull", "i/o timeout"), phase="Pending"),
        PodStartError,
        "could not be pulled in time.*i/o timeout",
    ),
    "a login that has expired": (
        status_of(waits("ErrImagePull", "denied: Your authorization token is invalid"), phase="Pending"),
        PodStartError,
        "could not be pulled in time.*let the node pull from the registry",
    ),
    "a sidecar's image": (
        status_of(
            container("base"), container("vault", waiting={"reason": "InvalidImageName"}), phase="Pending"
        ),
        UserError,
        "cannot be pulled.*the container 'vault' is added by the cluster",
    ),
    "a driver that is too old": (
        status_of(waits("RunContainerError", "unsatisfied condition: cuda>=12.6"), phase="Pending"),
        UserError,
        "cannot be created.*cuda>=12.6.*a node that can run this image",
    ),
    "an init container": (
        status_of(container("base", waiting={"reason": "PodInitializing"}), initContainerStatuses=INIT),
        PodStartError,
        "init container 'istio-init'.*exit code 255.*iptables: Permission denied",
    ),
    "no node": (
        status_of(phase="Pending", conditions=[UNSCHEDULABLE]),
        PodStartError,
        "got no node.*9 Insufficient nvidia.com/gpu",
    ),
    "a sidecar that was killed because it used too much memory": (
        status_of(over("base", 1), over("istio-proxy", 137, "OOMKilled")),
        UserError,
        "the container 'istio-proxy' of the pod 'convert-1' was killed because it used too much memory.*'base': "
        "exit code 1",
    ),
    "a program that is not in the image": (
        status_of(over("base", 127, "StartError", "executable file not found")),
        UserError,
        "cannot be started.*exit code 127 .StartError.: executable file not found",
    ),
    "another architecture": (
        status_of(over("base", 128, "ContainerCannotRun", "exec format error")),
        UserError,
        "cannot be started.*exec format error",
    ),
    "a node whose GPU is gone": (
        status_of(reason="UnexpectedAdmissionError", message="no healthy devices present"),
        TransientError,
        "without a result.*UnexpectedAdmissionError: no healthy devices present",
    ),
    "a signal from outside": (
        status_of(over("base", 137)),
        TransientError,
        "without a result.*'base': exit code 137 .Error., killed from outside",
    ),
    "an exit code and last words": (
        status_of(over("base", 1, message="Traceback: no numpy")),
        TransientError,
        "exit code 1 .Error.: Traceback: no numpy",
    ),
}


@pytest.mark.parametrize(("status", "kind", "words"), ENDS.values(), ids=ENDS)
def test_each_end_is_told_by_its_own_cause(
    status: dict[str, Any], kind: type[SlipwayError], words: str
) -> None:
    """By the container's name, exit code and last words, and who has to act."""
    failure = Exception("Pod convert-1 returned a failure.")
    error = silent_end("convert-1", of_status(status), LIMITS, wanted=WANTED, failure=failure)
    assert type(error) is kind
    assert re.search(words, str(error))
    assert "returned a failure" not in str(error)


def test_what_was_heard_of_an_image_while_it_was_waited_for_is_told() -> None:
    """An older kubelet says no more than that it backs off."""
    status = status_of(waits("ImagePullBackOff", 'Back-off pulling image "x"'), phase="Pending")
    heard = Exception(f"{NOT_PULLED} for 600 s: x: ImagePullBackOff: 429 Too Many Requests")
    error = silent_end("convert-1", of_status(status), LIMITS, wanted=WANTED, failure=heard)
    assert type(error) is PodStartError
    assert "429 Too Many Requests" in str(error)


def test_the_clusters_warnings_are_told_where_the_status_tells_nothing() -> None:
    """A volume that cannot be mounted is in the events alone."""
    status = status_of(waits("ContainerCreating", ""), phase="Pending")
    told = ['FailedMount: secret "registry" not found']
    error = silent_end(
        "convert-1", of_status(status), LIMITS, wanted=WANTED, failure=None, warnings=lambda: told
    )
    assert told[0] in str(error)


REFUSALS: dict[str, tuple[int, str, type[SlipwayError], str]] = {
    "a full quota": (
        403,
        "exceeded quota: team-a, requested: limits.memory=2Gi",
        PodStartError,
        "ResourceQuota",
    ),
    "a quota that asks for more": (
        403,
        "failed quota: q: must specify limits.cpu for: base",
        UserError,
        "resources",
    ),
    "a service account": (
        403,
        'error looking up service account: serviceaccount "s" not found',
        UserError,
        "create the",
    ),
    "a limit range": (
        403,
        "minimum memory usage per Container is 4Gi, but request is 2Gi",
        UserError,
        "LimitRange",
    ),
    "a webhook's answer": (
        403,
        'admission webhook "policy" denied the request: no',
        UserError,
        "that webhook",
    ),
    "a webhook that is away": (
        500,
        'failed calling webhook "x": deadline exceeded',
        ClusterUnavailableError,
        "webhook's",
    ),
    "a name that is taken": (
        409,
        'object is being deleted: pods "c" already exists',
        PodStartError,
        "tried again",
    ),
    "credentials": (401, "Unauthorized", ClusterUnavailableError, "credentials of the connection 'k'"),
    "a namespace": (404, 'namespaces "models" not found', UserError, "create the namespace"),
    "a pod that is gone": (404, 'pods "c" not found', PodStartError, "what deletes pods"),
    "throttling": (429, "too many requests", ClusterUnavailableError, "connection 'k'"),
    "an invalid pod": (422, "Pod is invalid: spec.x", UserError, "release file"),
}


@pytest.mark.parametrize(("status", "said", "kind", "remedy"), REFUSALS.values(), ids=REFUSALS)
def test_what_the_api_says_to_a_pod_is_told_in_its_own_words(
    status: int, said: str, kind: type[SlipwayError], remedy: str
) -> None:
    """With what to do about it, and whether it is worth another try."""
    answer = ApiException(status=status, reason="Forbidden")
    answer.body = json.dumps({"message": said})
    error = refused_or_away("c", answer, "k")
    assert type(error) is kind
    assert said in str(error.found)
    assert remedy in str(error.remedy)

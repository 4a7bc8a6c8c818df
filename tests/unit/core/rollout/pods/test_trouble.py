"""Why a serving pod does not answer, by its own status."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway_core.rollout.pods.starting import starting_pods
from slipway_core.rollout.pods.trouble import CONFIG_PATIENCE_S, LOGIN_PATIENCE_S, pod_trouble
from tests.support.rollout.pod_statuses import READY, UNSCHEDULABLE, container, crashed, pod

PULLING = "Back-off pulling image"


def waits(reason: str, message: str = "") -> dict[str, Any]:
    """A pod whose serving container waits for something."""
    return pod(container(waiting={"reason": reason, "message": message}))


@pytest.mark.parametrize(
    ("seen", "cause", "words", "patience_s"),
    [
        (pod(conditions=(UNSCHEDULABLE,)), "Pending", "9 Insufficient nvidia.com/gpu", math.inf),
        (
            pod(container(ended={"exitCode": 1, "reason": "Error"})),
            "Error",
            "once, last with exit code 1",
            math.inf,
        ),
        (pod(crashed(2)), "CrashLoopBackOff", "twice", math.inf),
        (
            pod(crashed(3, said="no backend")),
            "CrashLoopBackOff",
            "3 times, last with exit code 1 (Error): no ",
            0.0,
        ),
        (pod(container(last={"exitCode": 1}, restarts=3)), "CrashLoopBackOff", "3 times", 0.0),
        (
            pod(container(last={"exitCode": 0, "reason": "Completed"}, restarts=3)),
            "CrashLoopBackOff",
            "code 0",
            0.0,
        ),
        (pod(crashed(1, reason="OOMKilled", code=137)), "OOMKilled", "exit code 137 (OOMKilled)", math.inf),
        (pod(crashed(2, reason="OOMKilled", code=137)), "OOMKilled", "twice", 0.0),
        (pod(crashed(2, reason="StartError", code=128)), "StartError", "exit code 128", 0.0),
        (waits("InvalidImageName", "couldn't parse"), "InvalidImageName", "tritonserver:25.08-py3", 0.0),
        (waits("ErrImagePull", "manifest unknown"), "ErrImagePull", "manifest unknown", 0.0),
        (waits("ErrImagePull", "connection reset by peer"), "ErrImagePull", "reset by peer", math.inf),
        (
            waits("ImagePullBackOff", f"{PULLING}: 401 Unauthorized"),
            "ImagePullBackOff",
            "401",
            LOGIN_PATIENCE_S,
        ),
        (waits("ImagePullBackOff", PULLING), "ImagePullBackOff", "cannot be pulled", math.inf),
        (
            waits("CreateContainerConfigError", 'secret "x" not found'),
            "CreateContainerConfigError",
            'secret "x" not found',
            CONFIG_PATIENCE_S,
        ),
        (pod(crashed(9), ending=True), "Terminating", "is ending it", math.inf),
        (
            pod(phase="Failed", reason="Evicted", message="low on memory"),
            "Evicted",
            "low on memory",
            math.inf,
        ),
    ],
)
def test_each_cause_is_named_with_what_was_found(
    seen: dict[str, Any], cause: str, words: str, patience_s: float
) -> None:
    """The cause, the facts and how long it is worth waiting."""
    trouble = pod_trouble(seen)
    assert trouble is not None
    assert trouble.cause == cause
    assert words in trouble.found
    assert trouble.patience_s == patience_s
    assert trouble.remedy
    assert "digits-predictor-00003-deployment-7d-x2" in trouble.summary


def test_a_failing_init_container_is_named_and_its_right_to_read_is_the_remedy() -> None:
    """The storage initializer fails before the server is there; the server's own container only waits for it."""
    end = {"exitCode": 1, "reason": "Error", "message": "AccessDenied: s3:ListBucket"}
    initializer = container(
        "storage-initializer", waiting={"reason": "CrashLoopBackOff"}, last=end, restarts=2
    )
    waiting = container(waiting={"reason": "PodInitializing"})
    trouble = pod_trouble(pod(waiting, init=(initializer,)))
    assert trouble is not None
    assert trouble.about.startswith("the init container storage-initializer of the pod ")
    assert "AccessDenied: s3:ListBucket" in trouble.found
    assert "right to read" in trouble.remedy
    assert trouble.patience_s == 0.0


def test_a_sidecar_that_was_killed_for_its_memory_is_named() -> None:
    """Not the server's container, which runs."""
    end = {"exitCode": 137, "reason": "OOMKilled"}
    trouble = pod_trouble(pod(container(), container("queue-proxy", last=end, restarts=2)))
    assert trouble is not None
    assert trouble.cause == "OOMKilled"
    assert "container queue-proxy" in trouble.about


@pytest.mark.parametrize(
    "seen",
    [
        pod(container(ready=True), conditions=(READY,)),
        pod(crashed(5), conditions=(READY,)),
        pod(container()),
        pod(container(waiting={"reason": "ContainerCreating"})),
        pod(
            container(waiting={"reason": "PodInitializing"}),
            init=(
                container("storage-initializer", ended={"exitCode": 0, "reason": "Completed"}, restarts=4),
            ),
        ),
        pod(),
    ],
    ids=["ready", "ready after crashes", "loads", "being created", "initializer done", "no status"],
)
def test_a_pod_that_is_ready_or_only_on_its_way_has_no_trouble(seen: dict[str, Any]) -> None:
    """What is loading a model is waited for in peace."""
    assert pod_trouble(seen) is None


def test_a_long_last_word_is_cut_to_its_end() -> None:
    """A program says last why it ends."""
    trouble = pod_trouble(pod(crashed(3, said="x" * 5000 + "\nthe very end")))
    assert trouble is not None
    assert trouble.found.endswith("the very end")
    assert len(trouble.found) < 800


KEYS = [
    "metadata", "status", "name", "deletionTimestamp", "conditions", "type", "reason", "message", "containerStatuses",
    "initContainerStatuses", "state", "lastState", "waiting", "terminated", "exitCode", "restartCount", "ready",
]  # fmt: skip
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=20,
)


@given(anything)
def test_no_status_makes_the_reading_fail(status: Any) -> None:
    """A pod's status is the cluster's, and another version's perhaps."""
    seen = {"metadata": {"name": "a"}, "status": status}
    assert len(starting_pods([seen, {"metadata": status}])) == 2

"""A release's pods in the emulated cluster, waited for as Airflow does: deferred, with the real trigger."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred
from kubernetes import client

from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.convert import ConvertModelOperator
from slipway.release_run import ReleaseRun
from slipway_core.spec.release_file import apply_overrides, parse_release_spec
from tests.support.cluster.emulator import NAMESPACE, Emulator
from tests.support.cluster.operators import context_of, run_deferred
from tests.support.waiting import wait_until

SPEC = parse_release_spec("model: ranker\nsource: {format: onnx}\n", "ranker.yaml")


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    """A cluster that these tests share."""
    shared = Emulator(tmp_path_factory.mktemp("cluster"))
    shared.start()
    yield shared
    shared.stop()


@pytest.fixture
def core(emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> client.CoreV1Api:
    """The official client; the connection `kubernetes_default` leads to the same cluster."""
    extra = {"kube_config_path": str(emulator.kubeconfig)}
    connection = json.dumps({"conn_type": "kubernetes", "extra": extra})
    monkeypatch.setenv("AIRFLOW_CONN_KUBERNETES_DEFAULT", connection)
    return client.CoreV1Api(emulator.api_client())


def converting(store: ModelStoreHook, *, deferrable: bool = True, **conversion: Any) -> ConvertModelOperator:
    """The task of a release whose pod runs the environment of these tests, unless another image is asked for."""
    asked = {"image": "slipway/tool:0.1.0", "startup_timeout_s": 20, **conversion}
    release_run = ReleaseRun(
        release_id="manual__1",
        model="ranker",
        version=1,
        bucket=store.bucket,
        spec=apply_overrides(SPEC, {"conversion": asked}, "the test"),
        stable=None,
    )
    return ConvertModelOperator(
        task_id="convert",
        release=release_run.model_dump_json(),
        namespace=NAMESPACE,
        deferrable=deferrable,
        poll_interval=0.5,
        execution_timeout=timedelta(minutes=2),
    )


def pods(core: client.CoreV1Api) -> list[client.V1Pod]:
    items: list[client.V1Pod] = core.list_namespaced_pod(NAMESPACE).items
    return items


@pytest.mark.parametrize("deferrable", [True, False])
@pytest.mark.parametrize("reference", ["slipway/nowhere:0.1.0", "registry.example/team/absent:2"])
def test_an_image_that_cannot_be_pulled_fails_the_task_without_retries(
    store: ModelStoreHook, core: client.CoreV1Api, reference: str, deferrable: bool
) -> None:
    """A person's problem: the task fails at once, names the image and what the node says, and takes its pod away."""
    operator = converting(store, image=reference, deferrable=deferrable)
    run = run_deferred if deferrable else ConvertModelOperator.execute
    with pytest.raises(AirflowFailException, match=f"the image '{reference}' cannot be pulled") as failed:
        run(operator, context_of(operator))
    assert "does not exist" in str(failed.value)
    wait_until(lambda: not pods(core), "the pod is gone")


@pytest.mark.parametrize("deferrable", [True, False])
def test_a_secret_that_is_not_there_fails_the_task_without_retries(
    store: ModelStoreHook, core: client.CoreV1Api, deferrable: bool
) -> None:
    """A container that cannot be configured is a person's problem too, once its time to begin is over."""
    operator = converting(
        store,
        deferrable=deferrable,
        startup_timeout_s=3,
        secret_env={"HF_TOKEN": {"secret": "hub", "key": "token"}},
    )
    run = run_deferred if deferrable else ConvertModelOperator.execute
    with pytest.raises(AirflowFailException, match=r"cannot be created.*CreateContainerConfigError"):
        run(operator, context_of(operator))
    wait_until(lambda: not pods(core), "the pod is gone")


def test_the_pod_of_a_release_is_admitted_where_the_restricted_standard_is_enforced(
    store: ModelStoreHook, core: client.CoreV1Api
) -> None:
    """The emulated cluster takes the pod as it is made, and keeps every field of it."""
    operator = converting(store)
    with pytest.raises(TaskDeferred):
        operator.execute(context_of(operator))
    (pod,) = pods(core)
    assert pod.spec.security_context.run_as_user == 10001
    assert pod.spec.automount_service_account_token is False
    assert pod.spec.containers[0].security_context.read_only_root_filesystem
    core.delete_namespaced_pod(pod.metadata.name, NAMESPACE)
    wait_until(lambda: not pods(core), "the pod is gone")


def test_a_pod_that_the_cluster_forbids_fails_the_task_without_retries(
    store: ModelStoreHook, core: client.CoreV1Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What admission says is in the task's failure: trying again would change nothing."""
    monkeypatch.setattr("slipway.pods.execution.container_security", lambda: None)
    operator = converting(store)
    with pytest.raises(AirflowFailException, match=r"the cluster refuses the pod.*violates PodSecurity"):
        operator.execute(context_of(operator))
    assert pods(core) == []


def test_a_task_that_is_run_again_finds_its_pod_and_a_killed_one_takes_it_away(
    store: ModelStoreHook, core: client.CoreV1Api
) -> None:
    """The worker was killed when the pod had been created: another process waits for that pod, and starts no second."""
    absent = "registry.example/team/absent:2"  # its pod waits until somebody takes it away
    seen = []
    for operator in (converting(store, image=absent), converting(store, image=absent)):
        with pytest.raises(TaskDeferred):
            operator.execute(context_of(operator))
        seen += [pod.metadata.uid for pod in pods(core)]
    assert len(seen) == 2
    assert len(set(seen)) == 1
    operator.on_kill()
    wait_until(lambda: not pods(core), "the pod is gone")

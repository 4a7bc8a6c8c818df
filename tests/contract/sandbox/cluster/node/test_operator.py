"""Airflow's own KubernetesPodOperator, unmodified, against the emulated cluster: waiting and deferred."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from kubernetes import client

from tests.support.cluster.emulator import CONTAINER_SECURITY, IMAGE, NAMESPACE, POD_SECURITY, Emulator
from tests.support.cluster.operators import context_of, run_deferred
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator

CONNECTION = "emulated_cluster"
MakeOperator = Callable[..., "KubernetesPodOperator"]


@pytest.fixture(scope="session", autouse=True)
def airflow_home(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A home of its own for Airflow, where nobody has given it one."""
    os.environ.setdefault("AIRFLOW_HOME", str(tmp_path_factory.mktemp("airflow")))
    os.environ.setdefault("AIRFLOW__CORE__UNIT_TEST_MODE", "True")


@pytest.fixture
def make_operator(emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> MakeOperator:
    """Makes operators that find the cluster by a connection in the environment, as in production."""
    from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator

    extra = {"kube_config_path": str(emulator.kubeconfig)}
    connection = json.dumps({"conn_type": "kubernetes", "extra": extra})
    monkeypatch.setenv(f"AIRFLOW_CONN_{CONNECTION.upper()}", connection)

    def make(task_id: str, command: str, **arguments: Any) -> KubernetesPodOperator:
        return KubernetesPodOperator(
            task_id=task_id,
            kubernetes_conn_id=CONNECTION,
            namespace=NAMESPACE,
            name=task_id,
            random_name_suffix=False,
            image=IMAGE,
            cmds=["sh", "-c", command],
            security_context=POD_SECURITY,
            container_security_context=CONTAINER_SECURITY,
            startup_check_interval_seconds=1,
            poll_interval=0.5,
            **arguments,
        )

    return make


@pytest.fixture
def task_log(capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> Callable[[], str]:
    """What the task logged so far, whichever way Airflow's logging is set up."""
    caplog.set_level("INFO")
    return lambda: capsys.readouterr().out + caplog.text


def pods_of(core: client.CoreV1Api, operator: KubernetesPodOperator) -> list[client.V1Pod]:
    """The pods of the operator's task that are still there."""
    selector = f"task_id={operator.task_id},kubernetes_pod_operator in (True),!airflow-worker"
    items: list[client.V1Pod] = core.list_namespaced_pod(NAMESPACE, label_selector=selector).items
    return items


@pytest.mark.parametrize("deferrable", [False, True])
def test_the_operator_runs_a_pod_to_success(
    core: client.CoreV1Api, make_operator: MakeOperator, task_log: Callable[[], str], deferrable: bool
) -> None:
    """The task succeeds, the pod's output is in the task's log, and the pod is deleted."""
    mode = "later" if deferrable else "now"
    operator = make_operator(f"convert-{mode}", "echo phase one; sleep 1.5; echo done", deferrable=deferrable)
    context = context_of(operator)
    run_deferred(operator, context) if deferrable else operator.execute(context)
    assert context["ti"].pushed["pod_name"] == f"convert-{mode}"
    log = task_log()
    assert "phase one" in log
    assert "done" in log
    wait_until(lambda: not pods_of(core, operator), "the pod is deleted")


@pytest.mark.parametrize("deferrable", [False, True])
def test_the_operator_fails_with_the_pods_own_words(
    core: client.CoreV1Api, make_operator: MakeOperator, deferrable: bool
) -> None:
    """A failed pod fails the task, its exit code is there to be read, and it is marked as checked."""
    from airflow.sdk.exceptions import AirflowException

    mode = "later" if deferrable else "now"
    operator = make_operator(
        f"refuse-{mode}",
        "echo the golden set is wrong; exit 3",
        deferrable=deferrable,
        on_finish_action="keep_pod",
        termination_message_policy="FallbackToLogsOnError",
    )
    context = context_of(operator)
    with pytest.raises(AirflowException, match=f"Pod refuse-{mode} returned a failure"):
        run_deferred(operator, context) if deferrable else operator.execute(context)
    (kept,) = pods_of(core, operator)
    assert kept.metadata.labels["already_checked"] == "True"
    ended = kept.status.container_statuses[0].state.terminated
    assert (ended.exit_code, ended.message) == (3, "the golden set is wrong\n")
    core.delete_namespaced_pod(kept.metadata.name, NAMESPACE)


def test_an_exit_code_can_skip_the_task(make_operator: MakeOperator) -> None:
    """skip_on_exit_code sees the pod's exit code."""
    from airflow.sdk.exceptions import AirflowSkipException

    operator = make_operator("skipped", "exit 75", skip_on_exit_code=75)
    with pytest.raises(AirflowSkipException):
        operator.execute(context_of(operator))


def test_a_missing_image_fails_the_task_at_once_and_names_the_remedy(make_operator: MakeOperator) -> None:
    """A pod whose image cannot be built does not make the task wait for its start-up timeout."""
    from airflow.sdk.exceptions import AirflowException

    operator = make_operator("imageless", "true")
    operator.image = "slipway/unbuilt:0.1.0"
    with pytest.raises(AirflowException) as failed:
        operator.execute(context_of(operator))
    assert "ErrImagePull" in str(failed.value.__context__)
    assert "The image 'unbuilt' does not exist" in str(failed.value.__context__)


def test_a_pods_deadline_fails_the_task(core: client.CoreV1Api, make_operator: MakeOperator) -> None:
    """active_deadline_seconds ends the pod, and the task fails with it."""
    from airflow.sdk.exceptions import AirflowException

    operator = make_operator("overdue", "sleep 600", active_deadline_seconds=2, termination_grace_period=1)
    with pytest.raises(AirflowException, match="returned a failure"):
        operator.execute(context_of(operator))


def test_a_second_attempt_joins_the_pod_of_the_first(
    core: client.CoreV1Api, make_operator: MakeOperator, task_log: Callable[[], str]
) -> None:
    """An operator that died is run again and finds its running pod by labels, instead of starting another."""
    from airflow.sdk.exceptions import TaskDeferred

    first = make_operator("rejoin", "echo once; sleep 3", deferrable=True)
    with pytest.raises(TaskDeferred):
        first.execute(context_of(first))
    uid = core.read_namespaced_pod("rejoin", NAMESPACE).metadata.uid
    second = make_operator("rejoin", "echo once; sleep 3", on_finish_action="keep_pod")
    second.execute(context_of(second))
    assert "Reusing existing pod 'rejoin'" in task_log()
    (kept,) = pods_of(core, second)
    assert kept.metadata.uid == uid
    core.delete_namespaced_pod("rejoin", NAMESPACE)


def test_a_cancelled_task_takes_its_pod_with_it(core: client.CoreV1Api, make_operator: MakeOperator) -> None:
    """on_kill deletes the pod, and what it ran is ended."""
    from airflow.sdk.exceptions import TaskDeferred

    operator = make_operator(
        "cancelled",
        "sleep 600",
        deferrable=True,
        termination_grace_period=1,
        execution_timeout=timedelta(hours=1),
    )
    with pytest.raises(TaskDeferred):
        operator.execute(context_of(operator))
    operator.on_kill()
    wait_until(lambda: not pods_of(core, operator), "the pod is gone")

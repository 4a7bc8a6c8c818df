"""A release's pod in the hands of Airflow's own `KubernetesPodOperator`.

Imported by a task that runs, never where DAG files are read: both Kubernetes clients come with it.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
from airflow.providers.cncf.kubernetes.triggers.pod import KubernetesPodTrigger
from airflow.sdk.bases.operator import ExecutorSafeguard
from airflow.sdk.exceptions import AirflowException
from kubernetes.client import ApiException
from kubernetes.client import models as k8s
from urllib3.exceptions import HTTPError

from slipway.pods.failures import PodLimits, refused_or_away, silent_end
from slipway.pods.former_pod import await_gone, is_ending, is_over
from slipway.pods.manifest import container_security, labels_of, pod_security, variables, volumes
from slipway.pods.starting import PULL_LIMIT_S, ReleasePodManager
from slipway.pods.trigger import ReleasePodTrigger
from slipway_rules.pod_files import S3_ENCRYPTION_VARIABLE

if TYPE_CHECKING:
    from airflow.sdk import Context
    from airflow.triggers.base import BaseTrigger

    from slipway.pods.description import ReleasePod
    from slipway.release_run import ReleaseRun
    from slipway_core.errors import SlipwayError
    from slipway_core.spec.pods.settings import PodSettings

log = logging.getLogger(__name__)

# A program that ends at its own limit still has this long to say so in its result.
_LAST_WORD_S = 60
# How many of the cluster's warnings about a pod are shown, the last ones.
_WARNINGS = 2


class _PodOperator(KubernetesPodOperator):
    """Airflow's own, with our wait for a pod to begin; its pod is the one of its name, and none that ends.

    Of a pod that does not begin it keeps what the pod waits for.
    """

    @cached_property
    def pod_manager(self) -> ReleasePodManager:
        """What makes, reads and ends the pod, and waits for its start."""
        return ReleasePodManager(kube_client=self.client, callbacks=self.callbacks)

    def get_or_create_pod(self, pod_request_obj: k8s.V1Pod, context: Context) -> k8s.V1Pod:
        """Return the pod of an earlier try that is at work, or a new one."""

        def read() -> k8s.V1Pod | None:
            return self._named(pod_request_obj.metadata.namespace)

        former = await_gone(read, self.log.info)
        if former is not None and is_over(former) and self.process_pod_deletion(former):
            await_gone(read, self.log.info)
        return super().get_or_create_pod(pod_request_obj, context)

    def find_pod(self, namespace: str, context: Context, *, exclude_checked: bool = True) -> k8s.V1Pod | None:
        """Return the task's pod, by its name: a later measurement's has all the labels of the first one's."""
        pod = self._named(namespace)
        if pod is None or (
            exclude_checked and (pod.metadata.labels or {}).get(self.POD_CHECKED_KEY) == "True"
        ):
            return None
        self.log.info("found the pod %s of an earlier try", pod.metadata.name)
        return pod

    def _get_pod_from_task_state_store(self, context: Context) -> k8s.V1Pod | None:
        """Return the pod that an earlier try has noted, unless it was another measurement's."""
        pod = super()._get_pod_from_task_state_store(context)
        return None if pod is None or pod.metadata.name != self._own_name or is_ending(pod) else pod

    def log_matching_pod(self, pod: k8s.V1Pod, context: Context) -> None:
        """Say nothing more than `find_pod` does; a pod without the label `try_number` is no reason to fail."""

    @property
    def _own_name(self) -> str:
        asked = self.pod_request_obj
        return str(self.name if asked is None else asked.metadata.name)

    def _named(self, namespace: str) -> k8s.V1Pod | None:
        try:
            return self.hook.get_pod(self._own_name, namespace)
        except ApiException as error:
            if error.status != 404:
                raise
            return None

    def defer(self, *, trigger: BaseTrigger, **options: Any) -> NoReturn:
        """Wait in the triggerer, by the trigger of releases' pods."""
        if isinstance(trigger, KubernetesPodTrigger):
            trigger = ReleasePodTrigger.like(trigger)
        super().defer(trigger=trigger, **options)

    def await_pod_start(self, pod: k8s.V1Pod) -> None:
        """Wait for the pod to begin; look at one that does not before it is deleted, and its reason with it."""
        try:
            super().await_pod_start(pod)
        except AirflowException:
            self.remote_pod = self.pod_manager.read_pod(pod)
            raise


class PodExecution:
    """One pod of a release: started or found again, waited for, deleted; and why it has left no result.

    :param pod: what it is.
    :param release_run: the release that it belongs to.
    :param encryption: boto's arguments with which its program writes to the object store; empty: none.
    :param options: further arguments of `KubernetesPodOperator`, that neither the release file nor the step decides.
    """

    def __init__(
        self, pod: ReleasePod, release_run: ReleaseRun, *, encryption: Mapping[str, Any], **options: Any
    ) -> None:
        self._settings = pod.settings
        self._failure: AirflowException | None = None
        options.setdefault("startup_check_interval_seconds", 1)
        self.operator = _PodOperator(
            random_name_suffix=False,
            log_pod_spec_on_failure=False,
            **_described(pod, release_run, encryption),
            **options,
        )

    def start(self, context: Context) -> None:
        """Start the pod, or find the one of an earlier try, and wait for it; a pod that fails raises nothing.

        :raises TaskDeferred: it is waited for in the triggerer, and `resume` is to be called then.
        :raises SlipwayError: the cluster refuses the pod, or does not answer.
        """
        with self._failures(), _as_a_task_of_its_own(self.operator):
            self.operator.execute(context)

    def resume(self, context: Context, event: dict[str, Any]) -> None:
        """Go on with the trigger's event, in another process than `start`; raises what `start` raises."""
        with self._failures():
            self.operator.trigger_reentry(context, event)

    def kill(self) -> None:
        """Delete the pod that this process has started or found."""
        self.operator.on_kill()

    @property
    def failure(self) -> AirflowException | None:
        """Why the pod did not pass, in Airflow's words; None: it did, as far as its exit code says."""
        return self._failure

    def silent_end(self, wanted: str) -> SlipwayError:
        """Return why the pod has not left the result that was `wanted`: a limit, an image, or what may pass."""
        settings, operator = self._settings, self.operator
        limits = PodLimits(
            image=settings.image,
            memory=settings.resources.memory,
            disk=settings.disk_limit,
            scratch=settings.scratch_limit,
            deadline_s=_deadline_s(settings),
        )
        found = operator.remote_pod or operator.pod
        return silent_end(
            str(operator.name),
            found,
            limits,
            wanted=wanted,
            failure=_first_of(self._failure),
            warnings=lambda: self._warnings(found),
        )

    def _warnings(self, pod: k8s.V1Pod | None) -> list[str]:
        """Return the last warnings of the cluster about the pod, such as a volume that is not there."""
        if pod is None:
            return []
        try:
            events = self.operator.pod_manager.read_pod_events(pod).items
        except Exception as error:  # it only explains; without the right to read them there is less to say
            log.info("the events of the pod were not read: %s", type(error).__name__)
            return []
        messages = [f"{one.reason}: {one.message}" for one in events if one.type == "Warning"]
        return list(dict.fromkeys(messages))[-_WARNINGS:]

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Keep the failure of a pod for later, when its result is known; raise that of the cluster."""
        try:
            yield
        except AirflowException as error:
            self._failure = error
        except (ApiException, HTTPError) as error:
            operator = self.operator
            raise refused_or_away(str(operator.name), error, str(operator.kubernetes_conn_id)) from error


def _first_of(failure: BaseException | None) -> BaseException | None:
    """Return the failure during whose handling the others were raised: the provider's last one says only that the pod
    failed.
    """
    while isinstance(failure, AirflowException) and isinstance(failure.__context__, AirflowException):
        failure = failure.__context__
    return failure


@contextmanager
def _as_a_task_of_its_own(operator: KubernetesPodOperator) -> Iterator[None]:
    """Let the operator be executed as the task runner does: Airflow warns of one that another one executes."""
    token = ExecutorSafeguard.tracker.set(operator)
    try:
        yield
    finally:
        ExecutorSafeguard.tracker.reset(token)


def _described(pod: ReleasePod, release_run: ReleaseRun, encryption: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of `KubernetesPodOperator` that the release file and the step decide."""
    settings = pod.settings
    program, *arguments = pod.command()
    env_vars = variables(settings)
    if encryption:
        asked = json.dumps(dict(encryption), sort_keys=True)
        env_vars.append(k8s.V1EnvVar(name=S3_ENCRYPTION_VARIABLE, value=asked))
    mounted = volumes(settings)
    return {
        "name": _name(pod, release_run),
        "image": settings.image,
        "cmds": [program],
        "arguments": arguments,
        "labels": labels_of(pod, release_run),
        "startup_timeout_seconds": settings.startup_timeout_s,
        "schedule_timeout_seconds": settings.startup_timeout_s,
        "active_deadline_seconds": _deadline_s(settings),
        "service_account_name": settings.service_account,
        # The way to S3 needs none: EKS mounts the account's token for IAM as a volume of its own.
        "automount_service_account_token": False,
        "security_context": pod_security(),
        "container_security_context": container_security(),
        "node_selector": dict(settings.node_selector),
        "tolerations": [k8s.V1Toleration(**one.model_dump()) for one in settings.tolerations],
        **_placed(settings),
        "container_resources": k8s.V1ResourceRequirements(**settings.container_resources()),
        "env_vars": env_vars,
        "volumes": [volume for volume, _ in mounted],
        "volume_mounts": [mount for _, mount in mounted],
        "ports": [k8s.V1ContainerPort(name=name, container_port=port) for name, port in pod.ports().items()],
        # The event that ends the wait for a later measurement's pod brings this back.
        "trigger_kwargs": {"attempt": pod.attempt} if pod.attempt > 1 else None,
    }


def _placed(settings: PodSettings) -> dict[str, Any]:
    """Return what the release file says of nodes, priority and images; the rest the DAG may say (`pod_options`)."""
    said = {
        "affinity": None if settings.affinity is None else settings.affinity.to_kubernetes(),
        "priority_class_name": settings.priority_class,
        "runtime_class_name": settings.runtime_class,
        "image_pull_secrets": [k8s.V1LocalObjectReference(name) for name in settings.image_pull_secrets],
    }
    return {name: value for name, value in said.items() if value}


def _name(pod: ReleasePod, release_run: ReleaseRun) -> str:
    """Return the same name whenever the task is run again, so that it finds its pod.

    It is the pod's name on the cluster, which admits no underscore, so that messages name a pod that is there.
    """
    again = f"-{pod.attempt}" if pod.attempt > 1 else ""
    release_digest = hashlib.sha256(release_run.release_id.encode()).hexdigest()[:8]
    stage = pod.stage.replace("_", "-")
    return f"{stage}-{release_run.model[:36]}-{release_run.version}-{release_digest}{again}"


def _deadline_s(settings: PodSettings) -> int:
    """Return how long the pod may be there; the cluster counts from when a node was found, with the image's pull."""
    return max(settings.startup_timeout_s, int(PULL_LIMIT_S)) + settings.timeout_s + _LAST_WORD_S

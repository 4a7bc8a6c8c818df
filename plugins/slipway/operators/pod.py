"""A release's step that runs in a pod of its own and leaves a ``result.json`` in the object store."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
from airflow.sdk.exceptions import AirflowException, AirflowSkipException
from kubernetes.client import ApiException
from kubernetes.client import models as k8s
from urllib3.exceptions import HTTPError

from include.model_release.errors import SlipwayError
from slipway.failures import airflow_failures
from slipway.operators.base import ReleaseStep, recorded_stage
from slipway.pods.description import ReleasePod
from slipway.pods.failures import PodLimits, refused_or_away, silent_end
from slipway.pods.manifest import (
    PART_OF,
    PART_OF_LABEL,
    STAGE_LABEL,
    container_security,
    pod_security,
    variables,
    volumes,
)
from slipway.release_run import RELEASE_RUN_TEMPLATE, ReleaseRun

if TYPE_CHECKING:
    from airflow.sdk import Context

    from include.model_release.spec.parts import PodSettings

# A program that ends at its own limit still has this long to say so in its result.
_LAST_WORD_S = 60
# Tells the pod of a later measurement from those before it.
ATTEMPT_LABEL = "slipway.dev/attempt"
# boto's arguments, as JSON; `slipway_pod.storage.s3` reads it.
_ENCRYPTION_VARIABLE = "SLIPWAY_S3_ENCRYPTION"


class ReleasePodOperator(ReleaseStep, KubernetesPodOperator):
    """A `KubernetesPodOperator` whose pod is described by the release file.

    The pod's name is made of the stage, the model, the version and the release, so that a task which is run
    again finds its pod instead of starting a second one. The result comes from the object store, not from a
    sidecar: it is there too when the pod failed, and says why.

    A subclass says in `describe` which pod it is, and in `judge` what its result means.
    """

    template_fields: Sequence[str] = ("release", *KubernetesPodOperator.template_fields)

    def __init__(
        self, *, release: str = RELEASE_RUN_TEMPLATE, aws_conn_id: str = "aws_default", **kwargs: Any
    ) -> None:
        kwargs.setdefault("startup_check_interval_seconds", 1)
        super().__init__(random_name_suffix=False, log_pod_spec_on_failure=False, **kwargs)
        self.release = release
        self.aws_conn_id = aws_conn_id

    def describe(self, release_run: ReleaseRun) -> ReleasePod:
        """Return the pod of this step; the templates have been rendered by then."""
        raise NotImplementedError

    def judge(self, release_run: ReleaseRun, result: Mapping[str, Any]) -> None:
        """Read the result of a pod that passed, and keep what is evidence.

        :raises GateRefusedError: the result is below the release file's limits.
        """
        raise NotImplementedError

    def conclude(self, release_run: ReleaseRun, result: Mapping[str, Any]) -> None:
        """Say how the step ends; ``error`` of the result says why the pod did not pass, one without a result too.

        :raises SlipwayError: the pod did not pass, or its result was refused.
        """
        if result["error"] is not None:
            raise SlipwayError.from_dict(result["error"])
        self.judge(release_run, result)

    def execute(self, context: Context) -> Any:
        """Start the pod and wait for it."""
        release_run = self.release_run
        start = super().execute
        with airflow_failures():
            pod = self.describe(release_run)
            with self._recorded(pod):
                needless = pod.needless()
                if needless is not None:
                    raise AirflowSkipException(needless)
                # An earlier attempt's result says nothing about this one.
                self.store.delete(pod.result_key)
                self._fill_in(pod, release_run)
                return self._finished(pod, release_run, lambda: start(context))

    def trigger_reentry(self, context: Context, event: dict[str, Any]) -> Any:
        """Go on when the pod has ended."""
        release_run = self.release_run
        go_on = super().trigger_reentry
        with airflow_failures():
            pod = self.describe(release_run)
            with self._recorded(pod, resumed=True):
                self._fill_in(pod, release_run)
                return self._finished(pod, release_run, lambda: go_on(context, event))

    def _recorded(self, pod: ReleasePod, *, resumed: bool = False) -> AbstractContextManager[None]:
        """Return this stage in the record."""
        return recorded_stage(
            self.record,
            pod.stage,
            resumed=resumed,
            leaves_out=pod.leaves_out,
            manifest_sha256=pod.manifest_sha256,
        )

    def await_pod_start(self, pod: k8s.V1Pod) -> None:
        """Wait for the pod to begin; of one that does not, keep what it waits for."""
        try:
            super().await_pod_start(pod)
        except AirflowException:
            self.remote_pod = self.pod_manager.read_pod(pod)
            raise

    def _finished(self, pod: ReleasePod, release_run: ReleaseRun, run_pod: Callable[[], Any]) -> None:
        """Run or resume the pod, then let its result, not its exit code alone, say how it ended."""
        failure: AirflowException | None = None
        try:
            run_pod()
        except AirflowException as error:
            failure = error
        except (ApiException, HTTPError) as error:
            raise refused_or_away(str(self.name), error, str(self.kubernetes_conn_id)) from error
        result = self.store.read_json(pod.result_key) or {
            "outcome": "error",
            "error": self._silent_end(pod, failure).to_dict(),
        }
        try:
            self.conclude(release_run, result)
        except SlipwayError as error:
            if failure is None:
                raise
            raise error from failure

    def _silent_end(self, pod: ReleasePod, failure: AirflowException | None) -> SlipwayError:
        """Return why a pod has left no result: a limit, an image, or something that may pass."""
        settings = pod.settings
        limits = PodLimits(
            image=settings.image,
            memory=settings.resources.memory,
            disk=settings.disk_limit,
            scratch=settings.scratch_limit,
            deadline_s=_deadline_s(settings),
        )
        wanted = self.store.uri(pod.result_key)
        return silent_end(str(self.name), self.remote_pod or self.pod, limits, wanted=wanted, failure=failure)

    def _fill_in(self, pod: ReleasePod, release_run: ReleaseRun) -> None:
        """Give KubernetesPodOperator what it starts the pod with."""
        settings = pod.settings
        again = f"-{pod.attempt}" if pod.attempt > 1 else ""
        release_digest = hashlib.sha256(release_run.release_id.encode()).hexdigest()[:8]
        self.name = f"{pod.stage}-{release_run.model[:36]}-{release_run.version}-{release_digest}{again}"
        self.image = settings.image
        program, *arguments = pod.command()
        self.cmds = [program]
        self.arguments = arguments
        self.startup_timeout_seconds = self.schedule_timeout_seconds = settings.startup_timeout_s
        self.active_deadline_seconds = _deadline_s(settings)
        self.service_account_name = settings.service_account
        # The way to S3 needs none: EKS mounts the account's token for IAM as a volume of its own.
        self.automount_service_account_token = False
        self.security_context = pod_security()
        self.container_security_context = container_security()
        self.node_selector = dict(settings.node_selector)
        self.tolerations = [
            k8s.V1Toleration(**toleration.model_dump()) for toleration in settings.tolerations
        ]
        self.container_resources = k8s.V1ResourceRequirements(**settings.container_resources())
        self.env_vars = variables(settings)
        if self.store.encryption:
            asked = json.dumps(dict(self.store.encryption), sort_keys=True)
            self.env_vars.append(k8s.V1EnvVar(name=_ENCRYPTION_VARIABLE, value=asked))
        mounted = volumes(settings)
        self.volumes = [volume for volume, _ in mounted]
        self.volume_mounts = [mount for _, mount in mounted]
        self.labels = labels_of(pod, release_run)
        if ports := pod.ports():
            self.ports = [k8s.V1ContainerPort(name=name, container_port=port) for name, port in ports.items()]
        if pod.attempt > 1:
            # The event that ends the wait for the pod brings this back.
            self.trigger_kwargs = {"attempt": pod.attempt}


def labels_of(pod: ReleasePod, release_run: ReleaseRun) -> dict[str, str]:
    """Return the labels by which people, Services and NetworkPolicies find the pod."""
    later = {ATTEMPT_LABEL: str(pod.attempt)} if pod.attempt > 1 else {}
    return {
        PART_OF_LABEL: PART_OF,
        STAGE_LABEL: pod.kind,
        "slipway.dev/model": release_run.model,
        "slipway.dev/version": str(release_run.version),
        **pod.labels,
        **later,
    }


def _deadline_s(spec: PodSettings) -> int:
    """Return how long the pod may be there; the cluster counts from when a node was found, with the image's pull."""
    return spec.startup_timeout_s + spec.timeout_s + _LAST_WORD_S

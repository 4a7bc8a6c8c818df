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
    from include.model_release.spec.release_file import Benchmark, Conversion, MirrorComparison

# A program that ends at its own limit still has this long to say so in its result.
_LAST_WORD_S = 60
# boto's arguments, as JSON; `slipway_pod.storage.s3` reads it.
_ENCRYPTION_VARIABLE = "SLIPWAY_S3_ENCRYPTION"


class ReleasePodOperator(ReleaseStep, KubernetesPodOperator):
    """A `KubernetesPodOperator` whose pod is described by the release file.

    The pod's name is made of the stage, the model, the version and the release, so that a task which is run
    again finds its pod instead of starting a second one. The result comes from the object store, not from a
    sidecar: it is there too when the pod failed, and says why.

    A subclass gives `kind`, `stage`, `pod_spec`, `arguments_for`, `result_key` and `judge`, and where it wants
    `needless`, `keep`, `as_final` and `proves_manifest`.
    """

    kind: str
    """What sort of pod it is, by which a NetworkPolicy finds it; `stage` is its name in the record."""
    stage: str
    # Errors after which the release goes on without what this pod was to make.
    leaves_out: tuple[type[SlipwayError], ...] = ()

    template_fields: Sequence[str] = ("release", *KubernetesPodOperator.template_fields)

    def __init__(
        self, *, release: str = RELEASE_RUN_TEMPLATE, aws_conn_id: str = "aws_default", **kwargs: Any
    ) -> None:
        kwargs.setdefault("startup_check_interval_seconds", 1)
        super().__init__(random_name_suffix=False, log_pod_spec_on_failure=False, **kwargs)
        self.release = release
        self.aws_conn_id = aws_conn_id

    def pod_spec(self, release_run: ReleaseRun) -> Conversion | Benchmark | MirrorComparison:
        """The part of the release file that describes this pod."""
        raise NotImplementedError

    def arguments_for(self, release_run: ReleaseRun) -> list[str]:
        """The program and its arguments."""
        raise NotImplementedError

    def result_key(self, release_run: ReleaseRun) -> str:
        """Where the pod writes its ``result.json``."""
        raise NotImplementedError

    def judge(self, release_run: ReleaseRun, result: Mapping[str, Any]) -> None:
        """Reads the pod's result and keeps what is evidence.

        :raises GateRefusedError: the result is below the release file's limits.
        """
        raise NotImplementedError

    def proves_manifest(self) -> str | None:
        """Digest of the manifest whose version this stage proves, for the record; None before there is one."""
        return None

    def needless(self, release_run: ReleaseRun) -> str | None:
        """Why no pod is needed, since what it would make is there; None where it is not. The task is then skipped."""
        return None

    def keep(self, release_run: ReleaseRun, result: Mapping[str, Any]) -> None:
        """Keeps what is evidence whatever comes of it; called for a pod without a result too, with its `error`."""

    def as_final(self, error: SlipwayError) -> SlipwayError:
        """Why the pod has failed, as this step's own error: what is tried again and what is not follows from it."""
        return error

    def pod_labels(self, release_run: ReleaseRun) -> dict[str, str]:
        """By which people, Services and NetworkPolicies find the pod."""
        return {
            PART_OF_LABEL: PART_OF,
            STAGE_LABEL: self.kind,
            "slipway.dev/model": release_run.model,
            "slipway.dev/version": str(release_run.version),
        }

    def execute(self, context: Context) -> Any:
        """Starts the pod and waits for it."""
        release_run = self.release_run
        with airflow_failures(), self._recorded():
            needless = self.needless(release_run)
            if needless is not None:
                raise AirflowSkipException(needless)
            self.store.delete(
                self.result_key(release_run)
            )  # an earlier attempt's result says nothing about this
            self._describe_pod(release_run)
            return self._finished(release_run, lambda: super(ReleasePodOperator, self).execute(context))

    def trigger_reentry(self, context: Context, event: dict[str, Any]) -> Any:
        """Goes on when the pod has ended."""
        release_run = self.release_run
        with airflow_failures(), self._recorded(resumed=True):
            self._describe_pod(release_run)
            return self._finished(
                release_run, lambda: super(ReleasePodOperator, self).trigger_reentry(context, event)
            )

    def _recorded(self, *, resumed: bool = False) -> AbstractContextManager[None]:
        """This stage in the record."""
        return recorded_stage(
            self.record,
            self.stage,
            resumed=resumed,
            leaves_out=self.leaves_out,
            manifest_sha256=self.proves_manifest(),
        )

    def await_pod_start(self, pod: k8s.V1Pod) -> None:
        """Waits for the pod to begin; of one that does not, what it waits for is kept."""
        try:
            super().await_pod_start(pod)
        except AirflowException:
            self.remote_pod = self.pod_manager.read_pod(pod)
            raise

    def _finished(self, release_run: ReleaseRun, run_pod: Callable[[], Any]) -> None:
        """Runs or resumes the pod, then lets its result, not its exit code alone, say how it ended."""
        failure: AirflowException | None = None
        try:
            run_pod()
        except AirflowException as error:
            failure = error
        except (ApiException, HTTPError) as error:
            raise refused_or_away(str(self.name), error, str(self.kubernetes_conn_id)) from error
        result = self.store.read_json(self.result_key(release_run)) or {
            "outcome": "error",
            "error": self._silent_end(release_run, failure).to_dict(),
        }
        self.keep(release_run, result)
        if result["error"] is not None:
            raise self.as_final(SlipwayError.from_dict(result["error"])) from failure
        self.judge(release_run, result)

    def _silent_end(self, release_run: ReleaseRun, failure: AirflowException | None) -> SlipwayError:
        """Why a pod has left no result: a limit, an image, or something that may pass."""
        spec = self.pod_spec(release_run)
        limits = PodLimits(
            image=spec.image,
            memory=spec.resources.memory,
            disk=spec.disk_limit,
            scratch=spec.scratch_limit,
            deadline_s=_deadline_s(spec),
        )
        wanted = self.store.uri(self.result_key(release_run))
        pod = self.remote_pod or self.pod
        return silent_end(str(self.name), pod, limits, wanted=wanted, failure=failure)

    def _describe_pod(self, release_run: ReleaseRun) -> None:
        """Fills in the pod from the release file; the template engine has run by now."""
        spec = self.pod_spec(release_run)
        program, *arguments = self.arguments_for(release_run)
        release_digest = hashlib.sha256(release_run.release_id.encode()).hexdigest()[:8]
        self.name = f"{self.stage}-{release_run.model[:36]}-{release_run.version}-{release_digest}"
        self.image = spec.image
        self.cmds = [program]
        self.arguments = arguments
        self.startup_timeout_seconds = self.schedule_timeout_seconds = spec.startup_timeout_s
        self.active_deadline_seconds = _deadline_s(spec)
        self.service_account_name = spec.service_account
        # The way to S3 needs none: EKS mounts the account's token for IAM as a volume of its own.
        self.automount_service_account_token = False
        self.security_context = pod_security()
        self.container_security_context = container_security()
        self.node_selector = dict(spec.node_selector)
        self.tolerations = [k8s.V1Toleration(**toleration.model_dump()) for toleration in spec.tolerations]
        self.container_resources = k8s.V1ResourceRequirements(**spec.container_resources())
        self.env_vars = variables(spec)
        if self.store.encryption:
            asked = json.dumps(dict(self.store.encryption), sort_keys=True)
            self.env_vars.append(k8s.V1EnvVar(name=_ENCRYPTION_VARIABLE, value=asked))
        mounted = volumes(spec)
        self.volumes = [volume for volume, _ in mounted]
        self.volume_mounts = [mount for _, mount in mounted]
        self.labels = self.pod_labels(release_run)


def _deadline_s(spec: PodSettings) -> int:
    """How long the pod may be; the cluster counts from when a node was found, the image's pull included."""
    return spec.startup_timeout_s + spec.timeout_s + _LAST_WORD_S

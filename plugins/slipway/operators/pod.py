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

from include.model_release.errors import (
    ClusterUnavailableError,
    SlipwayError,
    TimedOutError,
    TransientError,
    UserError,
)
from slipway.failures import airflow_failures
from slipway.operators.base import ReleaseStep, recorded_stage
from slipway.ticket import TICKET_TEMPLATE, ReleaseTicket

if TYPE_CHECKING:
    from airflow.sdk import Context

    from include.model_release.spec import Benchmark, Conversion, Mirror
    from include.model_release.spec_parts import PodSettings, SecretKey

# A program that ends at its own limit still has this long to say so in its result.
_LAST_WORD_S = 60
# boto's arguments, as JSON; `slipway_pod.store` reads it.
_ENCRYPTION_VARIABLE = "SLIPWAY_S3_ENCRYPTION"
_SHARED_MEMORY, _SCRATCH = "shared-memory", "scratch"
_SHM_FOLDER = "/dev/shm"  # noqa: S108 - the pod's, not this process's
_SCRATCH_FOLDER = "/scratch"


class ReleasePodOperator(ReleaseStep, KubernetesPodOperator):
    """A `KubernetesPodOperator` whose pod is described by the release file.

    The pod's name is made of the stage, the model, the version and the release, so that a task which is run
    again finds its pod instead of starting a second one. The result comes from the object store, not from a
    sidecar: it is there too when the pod failed, and says why.

    A subclass gives `stage`, `pod_spec`, `arguments_for`, `result_key` and `judge`, and where it wants `needless`,
    `keep`, `as_final` and `proves_manifest`.
    """

    stage: str
    # Errors after which the release goes on without what this pod was to make.
    leaves_out: tuple[type[SlipwayError], ...] = ()

    template_fields: Sequence[str] = ("release", *KubernetesPodOperator.template_fields)

    def __init__(
        self, *, release: str = TICKET_TEMPLATE, aws_conn_id: str = "aws_default", **kwargs: Any
    ) -> None:
        kwargs.setdefault("startup_check_interval_seconds", 1)
        super().__init__(random_name_suffix=False, log_pod_spec_on_failure=False, **kwargs)
        self.release = release
        self.aws_conn_id = aws_conn_id

    def pod_spec(self, ticket: ReleaseTicket) -> Conversion | Benchmark | Mirror:
        """The part of the release file that describes this pod."""
        raise NotImplementedError

    def arguments_for(self, ticket: ReleaseTicket) -> list[str]:
        """The program and its arguments."""
        raise NotImplementedError

    def result_key(self, ticket: ReleaseTicket) -> str:
        """Where the pod writes its ``result.json``."""
        raise NotImplementedError

    def judge(self, ticket: ReleaseTicket, result: Mapping[str, Any]) -> None:
        """Reads the pod's result and keeps what is evidence.

        :raises GateRefusedError: the result is below the release file's limits.
        """
        raise NotImplementedError

    def proves_manifest(self) -> str | None:
        """Digest of the manifest whose version this stage proves, for the record; None before there is one."""
        return None

    def needless(self, ticket: ReleaseTicket) -> str | None:
        """Why no pod is needed, since what it would make is there; None where it is not. The task is then skipped."""
        return None

    def keep(self, ticket: ReleaseTicket, result: Mapping[str, Any]) -> None:
        """Keeps what is evidence whatever comes of it; called for a pod without a result too, with its `error`."""

    def as_final(self, error: SlipwayError) -> SlipwayError:
        """Why the pod has failed, as this step's own error: what is tried again and what is not follows from it."""
        return error

    def execute(self, context: Context) -> Any:
        """Starts the pod and waits for it."""
        ticket = self.ticket
        with airflow_failures(), self._recorded():
            needless = self.needless(ticket)
            if needless is not None:
                raise AirflowSkipException(needless)
            self.store.delete(self.result_key(ticket))  # an earlier attempt's result says nothing about this
            self._describe_pod(ticket)
            return self._finished(ticket, lambda: super(ReleasePodOperator, self).execute(context))

    def trigger_reentry(self, context: Context, event: dict[str, Any]) -> Any:
        """Goes on when the pod has ended."""
        ticket = self.ticket
        with airflow_failures(), self._recorded(resumed=True):
            self._describe_pod(ticket)
            return self._finished(
                ticket, lambda: super(ReleasePodOperator, self).trigger_reentry(context, event)
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

    def _finished(self, ticket: ReleaseTicket, run_pod: Callable[[], Any]) -> None:
        """Runs or resumes the pod, then lets its result, not its exit code alone, say how it ended."""
        failure: AirflowException | None = None
        try:
            run_pod()
        except AirflowException as error:
            failure = error
        except (ApiException, HTTPError) as error:
            raise ClusterUnavailableError(
                f"the cluster did not run the pod {self.name!r}",
                expected="an answer of the Kubernetes API",
                found=f"{type(error).__name__}: {str(error).splitlines()[0]}",
                remedy=f"check the API server and the connection {self.kubernetes_conn_id!r}",
            ) from error
        result = self.store.read_json(self.result_key(ticket)) or {
            "outcome": "error",
            "error": self._silent_end(ticket, failure).to_dict(),
        }
        self.keep(ticket, result)
        if result["error"] is not None:
            raise self.as_final(SlipwayError.from_dict(result["error"])) from failure
        self.judge(ticket, result)

    def _silent_end(self, ticket: ReleaseTicket, failure: AirflowException | None) -> SlipwayError:
        """Why a pod has left no result: its limits, which the cluster tells, or something that may pass."""
        memory, limit_s = self.pod_spec(ticket).resources.memory, self.active_deadline_seconds
        reasons = _reasons(self.remote_pod or self.pod)
        if "OOMKilled" in reasons:
            return UserError(
                f"the pod {self.name!r} was killed for its memory",
                expected=f"no more than `resources.memory: {memory}`",
                found="OOMKilled",
                remedy="raise it in the release file",
            )
        if "DeadlineExceeded" in reasons:
            return TimedOutError(
                f"the pod {self.name!r} did not end in time",
                expected=f"an end within {limit_s} s, its start included",
                found="DeadlineExceeded",
                remedy="raise `timeout_s` in the release file, or `startup_timeout_s` if the node or image came late",
            )
        return TransientError(
            f"the pod {self.name!r} ended without a result",
            expected=self.store.uri(self.result_key(ticket)),
            found=", ".join(sorted(reasons)) or str(failure or "none").splitlines()[0],
            remedy="read the pod's log and events above: evicted, or never started",
        )

    def _describe_pod(self, ticket: ReleaseTicket) -> None:
        """Fills in the pod from the release file; the template engine has run by now."""
        spec = self.pod_spec(ticket)
        program, *arguments = self.arguments_for(ticket)
        release_digest = hashlib.sha256(ticket.release_id.encode()).hexdigest()[:8]
        self.name = f"{self.stage}-{ticket.model[:36]}-{ticket.version}-{release_digest}"
        self.image = spec.image
        self.cmds = [program]
        self.arguments = arguments
        self.startup_timeout_seconds = self.schedule_timeout_seconds = spec.startup_timeout_s
        # The cluster counts from when a node was found, the image's pull included.
        self.active_deadline_seconds = spec.startup_timeout_s + spec.timeout_s + _LAST_WORD_S
        self.service_account_name = spec.service_account
        self.node_selector = dict(spec.node_selector)
        self.tolerations = [k8s.V1Toleration(**toleration.model_dump()) for toleration in spec.tolerations]
        self.container_resources = k8s.V1ResourceRequirements(**spec.resources.to_kubernetes())
        self.env_vars = [_from_secret(name, found) for name, found in spec.secret_env.items()]
        if self.store.encryption:
            asked = json.dumps(dict(self.store.encryption), sort_keys=True)
            self.env_vars.append(k8s.V1EnvVar(name=_ENCRYPTION_VARIABLE, value=asked))
        mounts = _mounts(spec)
        self.volumes = [volume for volume, _ in mounts]
        self.volume_mounts = [mount for _, mount in mounts]
        if spec.scratch_size is not None:
            self.env_vars.append(k8s.V1EnvVar(name="TMPDIR", value=_SCRATCH_FOLDER))
        self.labels = {
            "app.kubernetes.io/part-of": "slipway",
            "slipway.dev/model": ticket.model,
            "slipway.dev/version": str(ticket.version),
        }


def _from_secret(name: str, found: SecretKey) -> k8s.V1EnvVar:
    """A variable that the kubelet fills in, so that its value is in no manifest and no log."""
    reference = k8s.V1SecretKeySelector(name=found.secret, key=found.key)
    return k8s.V1EnvVar(name=name, value_from=k8s.V1EnvVarSource(secret_key_ref=reference))


def _mounts(spec: PodSettings) -> list[tuple[k8s.V1Volume, k8s.V1VolumeMount]]:
    """Shared memory, which the kubelet counts as the pod's memory, and scratch space on the node's disk."""
    wanted = (
        (_SHARED_MEMORY, _SHM_FOLDER, "Memory", spec.shm_size),
        (_SCRATCH, _SCRATCH_FOLDER, None, spec.scratch_size),
    )
    return [
        (
            k8s.V1Volume(name=name, empty_dir=k8s.V1EmptyDirVolumeSource(medium=medium, size_limit=size)),
            k8s.V1VolumeMount(name=name, mount_path=folder),
        )
        for name, folder, medium, size in wanted
        if size is not None
    ]


def _reasons(pod: k8s.V1Pod | None) -> set[str]:
    """Why the cluster says that a pod and its containers have ended."""
    status = None if pod is None else pod.status
    if status is None:
        return set()
    ended = [one.state.terminated for one in status.container_statuses or () if one.state is not None]
    return {one.reason for one in (status, *ended) if one is not None and one.reason} - {"Completed", "Error"}

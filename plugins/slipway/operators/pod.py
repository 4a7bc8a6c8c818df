"""A release's step that runs in a pod of its own and leaves a ``result.json`` in the object store."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from airflow.configuration import conf
from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowSkipException

from slipway.failures import airflow_failures
from slipway.operators.base import ReleaseStep, recorded_stage
from slipway.pods.description import ReleasePod
from slipway.release_run import RELEASE_RUN_TEMPLATE, ReleaseRun
from slipway_core.errors import SlipwayError
from slipway_core.gates.pod_report import RESULT_LIMIT_BYTES, pod_result

if TYPE_CHECKING:
    from airflow.sdk import Context

    from slipway.pods.execution import PodExecution


class ReleasePodOperator(ReleaseStep, BaseOperator):
    """One step of a release that runs in a pod, which the release file describes.

    Airflow's own `KubernetesPodOperator` runs the pod; it is made when the task runs, here and again when the task
    comes back from the triggerer. The pod's name is made of the stage, the model, the version and the release, so
    that a task which is run again finds its pod instead of starting a second one. The result comes from the object
    store, not from a sidecar: it is there too when the pod failed, and says why.

    A subclass says in `describe` which pod it is, and in `judge` what its result means.

    :param release: the release run, by default what the task ``admit`` returned (templated).
    :param aws_conn_id: the object store's connection.
    :param kubernetes_conn_id: the connection of the cluster that runs the pod (templated).
    :param namespace: the pod's namespace (templated); None: the connection's.
    :param deferrable: whether the pod is waited for in the triggerer.
    :param poll_interval: how often the triggerer looks at the pod, in seconds.
    :param pod_options: further arguments of `KubernetesPodOperator` (templated), such as ``annotations``. What the
        release file or the step decides cannot be said here.
    """

    template_fields: Sequence[str] = ("release", "kubernetes_conn_id", "namespace", "pod_options")

    def __init__(
        self,
        *,
        release: str = RELEASE_RUN_TEMPLATE,
        aws_conn_id: str = "aws_default",
        kubernetes_conn_id: str = "kubernetes_default",
        namespace: str | None = None,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        poll_interval: float = 2,
        pod_options: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.release = release
        self.aws_conn_id = aws_conn_id
        self.kubernetes_conn_id = kubernetes_conn_id
        self.namespace = namespace
        self.deferrable = deferrable
        self.poll_interval = poll_interval
        self.pod_options = pod_options
        self._execution: PodExecution | None = None
        self.notes: list[str] = []

    def describe(self, release_run: ReleaseRun) -> ReleasePod:
        """Return the pod of this step; the templates have been rendered by then."""
        raise NotImplementedError

    def prepare(self, release_run: ReleaseRun) -> None:
        """Write what the pod is to find, before it is started; nothing by default.

        Called when the stage has begun and again when the task is run again, not when it comes back from the triggerer.
        """

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
        with airflow_failures(self.page):
            self.require_admitted()
            pod = self.describe(release_run)
            with self._recorded(pod):
                needless = pod.needless()
                if needless is not None:
                    raise AirflowSkipException(needless)
                self.prepare(release_run)
                # An earlier attempt's result says nothing about this one.
                self.store.delete(pod.result_key)
                self._finish(pod, release_run, lambda execution: execution.start(context))

    def trigger_reentry(self, context: Context, event: dict[str, Any]) -> Any:
        """Go on when the pod has ended; `KubernetesPodOperator` defers to this name."""
        release_run = self.release_run
        with airflow_failures(self.page):
            self.require_admitted()
            pod = self.describe(release_run)
            with self._recorded(pod, resumed=True):
                self._finish(pod, release_run, lambda execution: execution.resume(context, event))

    def on_kill(self) -> None:
        """Delete the pod; the triggerer does it for a task that is deferred."""
        if self._execution is not None:
            self._execution.kill()

    def execution_of(self, pod: ReleasePod, release_run: ReleaseRun) -> PodExecution:
        """Return the pod as `KubernetesPodOperator` runs it; the same in every process that the task runs in."""
        # Late: two Kubernetes clients come with it, and reading the DAG files needs neither.
        from slipway.pods.execution import PodExecution

        return PodExecution(
            pod,
            release_run,
            encryption=self.store.encryption,
            task_id=self.task_id,
            execution_timeout=self.execution_timeout,
            kubernetes_conn_id=self.kubernetes_conn_id,
            namespace=self.namespace,
            deferrable=self.deferrable,
            poll_interval=self.poll_interval,
            **(self.pod_options or {}),
        )

    def _recorded(self, pod: ReleasePod, *, resumed: bool = False) -> AbstractContextManager[None]:
        """Return this stage in the record."""
        return recorded_stage(
            self.record,
            pod.stage,
            resumed=resumed,
            leaves_out=pod.leaves_out,
            manifest_sha256=pod.manifest_sha256,
            notes=self.notes,
        )

    def _finish(self, pod: ReleasePod, release_run: ReleaseRun, run: Callable[[PodExecution], None]) -> None:
        """Start or resume the pod, then let its result, not its exit code alone, say how it ended."""
        execution = self._execution = self.execution_of(pod, release_run)
        run(execution)
        uri = self.store.uri(pod.result_key)
        try:
            found = self.store.read_json(pod.result_key, most_bytes=RESULT_LIMIT_BYTES)
            if found is None:
                found = {"outcome": "error", "error": execution.silent_end(uri).to_dict()}
            self.conclude(release_run, pod_result(found, uri))
        except SlipwayError as error:
            if execution.failure is None:
                raise
            raise error from execution.failure

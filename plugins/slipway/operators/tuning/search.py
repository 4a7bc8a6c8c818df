"""The tasks of a tuning that measure: the search, and the comparison of its best with what there was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from slipway.hooks.triton import TritonHook
from slipway.operators.base import attempt_of
from slipway.operators.tuning.base import TuningStep
from slipway.pods.description import ReleasePod
from slipway.tuning.confirmation import confirm
from slipway.tuning.search import SettingSearch
from slipway.tuning.staged import trial_names, unload_models
from slipway_core.errors import SlipwayError
from slipway_core.tuning.choice import choose_best
from slipway_core.tuning.objective import Objective

if TYPE_CHECKING:
    from airflow.sdk import Context

    from slipway.operators.tuning.pods import PodMeasure
    from slipway.pods.execution import PodExecution

# Airflow gives a task that is killed a minute by default.
_KILLED_LIMIT_S = 20.0


class MeasuringStep(TuningStep):
    """A step that loads trials on staging and measures them in pods, one after the other.

    The worker waits for each pod: between two of them it asks Optuna and loads, which takes less time than to come back
    from the triggerer. When the task is killed, its pod is deleted and its trial is unloaded; what a task leaves that
    had no time for it, the next run of `prepare` unloads.

    :param kubernetes_conn_id: the connection of the cluster that runs the pods (templated).
    :param namespace: the pods' namespace (templated); None: the connection's.
    :param poll_interval: how often a pod is looked at, in seconds.
    :param pod_options: further arguments of `KubernetesPodOperator` (templated).
    """

    template_fields: Sequence[str] = ("release", "kubernetes_conn_id", "namespace", "pod_options")

    def __init__(
        self,
        *,
        kubernetes_conn_id: str = "kubernetes_default",
        namespace: str | None = None,
        poll_interval: float = 1,
        pod_options: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.kubernetes_conn_id = kubernetes_conn_id
        self.namespace = namespace
        self.poll_interval = poll_interval
        self.pod_options = pod_options
        self._measure: PodMeasure | None = None

    def measure(self, context: Context) -> PodMeasure:
        """Return what measures a trial that is loaded."""
        # Late: two Kubernetes clients come with it, and reading the DAG files needs neither.
        from slipway.operators.tuning.pods import PodMeasure

        self._measure = PodMeasure(
            context,
            self.release_run,
            self.store,
            self.evidence.prefix,
            TritonHook(self.triton_conn_id).grpc_address,
            self._execution,
            attempt_of(context),
        )
        return self._measure

    def on_kill(self) -> None:
        """Delete the pod and unload the trial."""
        try:
            if self._measure is not None:
                self._measure.kill()
        finally:
            try:
                hook = TritonHook(self.triton_conn_id, _KILLED_LIMIT_S)
                unload_models(hook, trial_names(self.release_run.model), _KILLED_LIMIT_S)
            except SlipwayError as error:
                self.log.warning("a trial is still loaded on staging: %s", error)

    def _execution(self, pod: ReleasePod) -> PodExecution:
        from slipway.pods.execution import PodExecution

        return PodExecution(
            pod,
            self.release_run,
            encryption=self.store.encryption,
            task_id=self.task_id,
            execution_timeout=self.execution_timeout,
            kubernetes_conn_id=self.kubernetes_conn_id,
            namespace=self.namespace,
            deferrable=False,
            poll_interval=self.poll_interval,
            # A task has many pods, and Airflow keeps the name of one: a later try would take it for another one's.
            **{"durable": False, **(self.pod_options or {})},
        )


class SearchSettingsOperator(MeasuringStep):
    """Tries settings until the budget is spent, or each was tried.

    Triton's defaults come first and once more at the end, the present setting second; what follows Optuna suggests.
    Run again after it was killed, it goes on with the trial that it was at.

    :returns: how many trials there are.
    """

    def run(self, context: Context) -> int:
        """Search."""
        search = SettingSearch(self.plan, self.evidence, self.staged(), self.measure(context))
        return len(search.run())


class ConfirmSettingOperator(MeasuringStep):
    """Measures the best setting in turns with Triton's defaults, and with the present setting.

    :returns: how many comparisons there are.
    """

    def run(self, context: Context) -> int:
        """Compare; nothing where no setting keeps the service level."""
        plan = self.plan
        best = choose_best(self.evidence.trials(), Objective(plan.tuning, plan.slo), plan.present)
        if best is None:
            self.log.warning("no measured setting keeps the service level")
            return 0
        self.log.info("the best is trial %s: %s", best.number, best.setting.label())
        return len(confirm(plan, self.evidence, self.staged(), self.measure(context), best.setting))

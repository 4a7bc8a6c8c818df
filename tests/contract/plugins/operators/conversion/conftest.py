"""Pods that are emulated: a test says what result the converter leaves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException

from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.convert import ConvertModelOperator
from slipway.pods.description import ReleasePod
from slipway.pods.execution import PodExecution
from slipway.release_run import ReleaseRun
from tests.support.release.conversion import Pods


@pytest.fixture
def pods(monkeypatch: pytest.MonkeyPatch, store: ModelStoreHook) -> Pods:
    """Emulates pods: what the given function returns is the result that the converter leaves; None: it leaves none.

    `ended` is the pod as the cluster shows it in the end.
    """

    made = ConvertModelOperator.execution_of

    def emulate(
        result_of: Callable[[ConvertModelOperator], dict[str, Any] | None], ended: Any = None
    ) -> list[str]:
        ran: list[str] = []

        def execution_of(
            operator: ConvertModelOperator, pod: ReleasePod, release_run: ReleaseRun
        ) -> PodExecution:
            def run(context: Any) -> None:
                ran.append(operator.variant)
                execution.operator.remote_pod = ended
                result = result_of(operator)
                if result is not None:
                    store.write_json(pod.result_key, result)
                if result is None or result["error"] is not None:
                    raise AirflowException("Pod returned a failure.")

            execution = made(operator, pod, release_run)
            monkeypatch.setattr(execution.operator, "execute", run)
            return execution

        monkeypatch.setattr(ConvertModelOperator, "execution_of", execution_of)
        return ran

    return emulate

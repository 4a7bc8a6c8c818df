"""Pods that are emulated: a test says what result the converter leaves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
from airflow.sdk.exceptions import AirflowException
from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.convert import ConvertModelOperator

from tests.support.release.conversion import Pods


@pytest.fixture
def pods(monkeypatch: pytest.MonkeyPatch, store: ModelStoreHook) -> Pods:
    """Emulates pods: what the given function returns is the result that the converter leaves; None: it leaves none."""

    def emulate(result_of: Callable[[ConvertModelOperator], dict[str, Any] | None]) -> list[str]:
        ran: list[str] = []

        def run(operator: ConvertModelOperator, context: Any) -> None:
            ran.append(operator.variant)
            result = result_of(operator)
            if result is not None:
                store.write_json(operator.describe(operator.release_run).result_key, result)
            if result is None or result["error"] is not None:
                raise AirflowException("Pod returned a failure.")

        monkeypatch.setattr(KubernetesPodOperator, "execute", run)
        return ran

    return emulate

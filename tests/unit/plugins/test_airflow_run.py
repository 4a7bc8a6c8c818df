"""Who has started a run: a person by hand, or nobody."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.api.datamodels._generated import DagRunType

from slipway.airflow_run import person_of_run, triggered_by


def context(name: str | None, run_type: Any) -> Any:
    """A task's context in a run of this type."""
    return {"dag_run": SimpleNamespace(triggering_user_name=name, run_type=run_type)}


@pytest.mark.parametrize("run_type", list(DagRunType), ids=lambda one: one.value)
def test_only_a_run_by_hand_has_a_person(run_type: DagRunType) -> None:
    """A run that another run, a schedule, an asset or a backfill has started is nobody's, under whatever name."""
    wanted = "alice" if run_type is DagRunType.MANUAL else None
    assert triggered_by(context("alice", run_type)) == wanted
    assert triggered_by(context("alice", run_type.value)) == wanted
    assert person_of_run("alice", run_type.value) == wanted


def test_a_run_by_hand_of_nobody_known_has_no_person() -> None:
    """Where Airflow gives no name there is none."""
    for name in (None, ""):
        assert triggered_by(context(name, DagRunType.MANUAL)) is None
    assert triggered_by({}) is None  # type: ignore[typeddict-item]

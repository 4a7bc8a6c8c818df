"""The workflows of revalidation: each day, all models within bounds, and a page whatever became of them."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.exceptions import ParamValidationError
from jinja2.sandbox import SandboxedEnvironment

from slipway_core.spec.run_overrides import FINDING_PARAMETERS, REVALIDATION_PARAMETERS
from tests.support.dags.workflows import FINDING, REVALIDATION, ROLLBACK, ancestors, fill_in


def test_the_page_comes_last_whatever_happened(bag: DagBag) -> None:
    """A model whose task has failed keeps no other's result from the page."""
    dag = bag.dags[REVALIDATION]
    assert {"list_models", "revalidate", "name_rollbacks", "start_rollback"} == ancestors(dag, "show")
    assert {dag.get_task(one).trigger_rule.value for one in ("show", "name_rollbacks")} == {"all_done"}
    assert dag.get_task("start_rollback").partial_kwargs["trigger_dag_id"] == ROLLBACK  # type: ignore[union-attr]
    ti = SimpleNamespace(xcom_pull=lambda task_ids: ["digits"])
    rendered = SandboxedEnvironment().from_string(dag.get_task("show").models).render(ti=ti)  # type: ignore[union-attr]
    assert json.loads(rendered) == ["digits"]


def test_models_are_looked_at_side_by_side_within_bounds(bag: DagBag) -> None:
    """One task for each model, some at once; one run at a time, each day unless told otherwise."""
    dag = bag.dags[REVALIDATION]
    task: Any = dag.get_task("revalidate")
    assert task.is_mapped
    assert 1 <= task.partial_kwargs["max_active_tis_per_dagrun"] <= 8
    assert dag.max_active_runs == 1
    assert dag.timetable.expression == "0 5 * * *"  # type: ignore[attr-defined]


def test_a_run_is_for_one_model_or_for_all(bag: DagBag) -> None:
    """A model must be one with a release file."""
    dag = bag.dags[REVALIDATION]
    assert set(dag.params) == set(REVALIDATION_PARAMETERS)
    fill_in(dag, {})
    fill_in(dag, {"model": "digits"})
    with pytest.raises(ParamValidationError):
        fill_in(dag, {"model": "no-such-model"})


def test_a_finding_is_closed_with_a_reason(bag: DagBag) -> None:
    """Model, finding and why must be given."""
    dag = bag.dags[FINDING]
    assert dag.task_ids == ["close"]
    assert set(dag.params) == set(FINDING_PARAMETERS)
    fill_in(dag, {"model": "digits", "finding": "3-published", "reason": "known"})
    for form in ({"model": "digits", "finding": "3-published"}, {"model": "digits", "reason": "known"}):
        with pytest.raises(ParamValidationError):
            fill_in(dag, form)

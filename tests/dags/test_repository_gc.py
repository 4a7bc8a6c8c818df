"""The workflows of retention: nothing is deleted before a page was shown, and by default nothing at all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.exceptions import ParamValidationError
from jinja2.sandbox import SandboxedEnvironment

from slipway_core.spec.run_overrides import GC_PARAMETERS, PIN_PARAMETERS
from tests.support.dags.workflows import DAGS, GC, PIN, ROOT, ancestors, fill_in


def test_tasks_are_in_order(bag: DagBag) -> None:
    """Deleting comes after the plan, the page and the agreement; the result is shown whatever became of them."""
    dag = bag.dags[GC]
    order = ["list_models", "plan", "show_plan", "approve", "delete", "show_result"]
    assert set(dag.task_ids) == set(order)
    for number, task_id in enumerate(order):
        assert ancestors(dag, task_id) == set(order[:number])
    rules = {task.task_id: task.trigger_rule.value for task in dag.tasks}
    shown_anyway = {name for name, rule in rules.items() if rule == "all_done"}
    assert shown_anyway == {"show_plan", "show_result"}
    assert rules["approve"] == rules["delete"] == "all_success"


def test_models_run_side_by_side_within_bounds(bag: DagBag) -> None:
    """One task for each model, some at once; and one run at a time."""
    dag = bag.dags[GC]
    assert dag.max_active_runs == 1
    for task_id in ("plan", "delete"):
        task: Any = dag.get_task(task_id)
        assert task.is_mapped
        assert 1 <= task.partial_kwargs["max_active_tis_per_dagrun"] <= 8


def test_a_run_is_a_dry_run_unless_told_otherwise(bag: DagBag) -> None:
    """The schedule's, too."""
    dag = bag.dags[GC]
    assert dag.params["dry_run"] is True
    assert dag.timetable.expression == "0 3 * * 0"  # type: ignore[attr-defined]
    assert set(dag.params) == set(GC_PARAMETERS)
    fill_in(dag, {"models": ["digits"], "dry_run": False})
    with pytest.raises(ParamValidationError):
        fill_in(dag, {"dry_run": "no"})


@pytest.mark.parametrize(("value", "expected"), [("false", False), ("true", True), ("0", True), ("", True)])
def test_the_schedule_deletes_where_a_setting_says_so(value: str, expected: bool) -> None:
    """Only the one word switches the dry run off."""
    program = (
        "import runpy, sys; found = runpy.run_path(sys.argv[1]);"
        "print('RESULT', found['PARAMS']['dry_run'].value, found['STORE']['aws_conn_id'])"
    )
    paths = os.pathsep.join([str(ROOT / "include"), str(ROOT / "plugins")])
    environment = {"PYTHONPATH": paths, "SLIPWAY_GC_DRY_RUN": value, "SLIPWAY_GC_AWS_CONN_ID": "collector"}
    done = subprocess.run(
        [sys.executable, "-c", program, str(DAGS / f"{GC}.py")],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert f"RESULT {expected} collector" in done.stdout, done.stderr


def test_what_is_deleted_is_what_was_shown(bag: DagBag) -> None:
    """The digest of the plan goes from the page to the agreement, the deletion and the result."""
    dag = bag.dags[GC]
    shown = {"plan_sha256": "d" * 64, "versions": 2, "size": "1 GiB", "page": "s3://b/p"}
    answers = {"show_plan": shown, "list_models": ["digits"]}
    ti = SimpleNamespace(xcom_pull=lambda task_ids: answers[task_ids])

    def rendered(template: str) -> str:
        return SandboxedEnvironment().from_string(template).render(ti=ti)

    delete: Any = dag.get_task("delete")
    assert rendered(delete.partial_kwargs["plan_sha256"]) == "d" * 64
    assert rendered(dag.get_task("show_result").plan_sha256) == "d" * 64  # type: ignore[union-attr]
    assert json.loads(rendered(dag.get_task("approve").shown)) == shown  # type: ignore[union-attr]
    assert json.loads(rendered(dag.get_task("show_plan").models)) == ["digits"]  # type: ignore[union-attr]


def test_a_pin_needs_a_reason(bag: DagBag) -> None:
    """Model, version and why must be given."""
    dag = bag.dags[PIN]
    fill_in(dag, {"model": "digits", "version": 3, "reason": "an audit"})
    for form in (
        {"model": "digits", "version": 3},
        {"model": "digits", "version": 0, "reason": "an audit"},
        {"model": "digits", "version": 3, "reason": "an audit", "action": "delete"},
    ):
        with pytest.raises(ParamValidationError):
            fill_in(dag, form)
    assert set(dag.params) == set(PIN_PARAMETERS)

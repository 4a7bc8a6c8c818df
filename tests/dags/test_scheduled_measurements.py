"""The workflows of what release files schedule: one starts, and one measures the live version on staging."""

from __future__ import annotations

from pathlib import Path

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.exceptions import ParamValidationError

from slipway.dag_header import has_schedule
from slipway.pools import STAGING_POOL
from slipway_core.spec.run_overrides import BENCHMARK_PARAMETERS
from tests.support.dags.workflows import BENCHMARK, SCHEDULED, TUNING, ancestors, fill_in


def test_each_list_starts_its_own_workflow(bag: DagBag) -> None:
    """Benchmarks and tunings are listed and started apart: one that cannot be listed does not stop the others."""
    dag = bag.dags[SCHEDULED]
    for part, started in (("benchmark", BENCHMARK), ("tuning", TUNING)):
        listed = dag.get_task(f"list_{part}s")
        assert (listed.part, listed.starts) == (part, started)  # type: ignore[union-attr]
        task = dag.get_task(f"start_{part}")
        assert task.upstream_task_ids == {f"list_{part}s"}
        assert task.partial_kwargs["trigger_dag_id"] == started  # type: ignore[union-attr]
        assert task.partial_kwargs["skip_when_already_exists"] is True  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "has"),
    [
        ("model: digits\nbenchmark:\n  schedule: 0 3 * * 0\n", True),
        ("model: digits\ntuning: {schedule: '0 3 * * 0'}\n", True),
        ("model: digits\nbenchmark:\n  requests: 100 # schedule: none\n", False),
    ],
)
def test_without_a_schedule_nothing_runs(tmp_path: Path, text: str, has: bool) -> None:
    """The text of the release files decides whether the workflow has a schedule of its own."""
    (tmp_path / "digits.yaml").write_text(text)
    assert has_schedule(tmp_path) is has


def test_a_version_stays_on_staging_only_while_it_is_measured(bag: DagBag) -> None:
    """It holds the staging server's slot, one run at a time, and is unloaded whatever happened."""
    dag = bag.dags[BENCHMARK]
    assert {one.task_id for one in dag.tasks if one.pool == STAGING_POOL.name} == {"measure"}
    assert dag.get_task("unload").is_teardown
    assert ancestors(dag, "unload") == {"prepare", "measure"}
    assert dag.max_active_runs == 1
    assert dag.schedule is None


def test_the_form_needs_a_model(bag: DagBag) -> None:
    """Without a version the live one is measured."""
    dag = bag.dags[BENCHMARK]
    assert set(dag.params) == set(BENCHMARK_PARAMETERS)
    fill_in(dag, {"model": "digits"})
    with pytest.raises(ParamValidationError):
        fill_in(dag, {"version": 1})

"""The workflow that syncs with a model registry: it costs nothing where no release file has one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.exceptions import ParamValidationError

from slipway_core.spec.run_overrides import SYNC_PARAMETERS
from tests.support.dags.workflows import DAGS, ROOT, SYNC, ancestors, fill_in

SECTION = "registry:\n  mlflow: {registered_model: Digits}\n"
PROGRAM = """
import runpy, sys
found = runpy.run_path(sys.argv[1])["registry_sync"]()
print("SCHEDULE", getattr(found.timetable, "expression", None), found.timetable.can_be_scheduled)
late = [name for name in ("slipway.hooks.http_access", "slipway.registry_bridge", "boto3") if name in sys.modules]
print("IMPORTED", late)
"""


def parsed(folder: Path, **variables: str) -> str:
    """Read the DAG's file in a process of its own, with the release files of a folder."""
    paths = os.pathsep.join([str(ROOT / "include"), str(ROOT / "plugins")])
    environment = {"PYTHONPATH": paths, "SLIPWAY_RELEASES_DIR": str(folder), **variables}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(DAGS / f"{SYNC}.py")],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_without_a_registry_nothing_is_scheduled(bag: DagBag) -> None:
    """The project's own release files have none: a run happens only where somebody starts one."""
    assert not bag.dags[SYNC].timetable.can_be_scheduled


@pytest.mark.parametrize(
    ("variables", "cron"),
    [({}, "*/5 * * * *"), ({"SLIPWAY_REGISTRY_SYNC_CRON": "*/2 * * * *"}, "*/2 * * * *")],
    ids=["default", "as an environment variable says"],
)
def test_a_release_file_with_the_section_schedules_it(
    tmp_path: Path, variables: dict[str, str], cron: str
) -> None:
    """And reading the DAG's file imports nothing that talks to a registry or a store."""
    (tmp_path / "digits.yaml").write_text(SECTION)
    told = parsed(tmp_path, **variables)
    assert f"SCHEDULE {cron} True" in told
    assert "IMPORTED []" in told


def test_models_are_synced_side_by_side_within_bounds(bag: DagBag) -> None:
    """One task for each; one run at a time, so that no two move the same alias."""
    dag = bag.dags[SYNC]
    assert dag.max_active_runs == 1
    assert set(dag.task_ids) == {"list_models", "sync"}
    assert ancestors(dag, "sync") == {"list_models"}
    task: Any = dag.get_task("sync")
    assert task.is_mapped
    assert 1 <= task.partial_kwargs["max_active_tis_per_dagrun"] <= 8


def test_the_form_takes_one_model_or_none(bag: DagBag) -> None:
    """Of those that have a release file."""
    dag = bag.dags[SYNC]
    assert set(dag.params) == set(SYNC_PARAMETERS)
    fill_in(dag, {})
    fill_in(dag, {"model": "digits"})
    for wrong in ("no-such-model", "../digits", 5):
        with pytest.raises(ParamValidationError):
            fill_in(dag, {"model": wrong})

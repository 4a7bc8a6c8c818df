"""The workflow fleet_watch: it costs nothing where there is no fleet."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from airflow.dag_processing.dagbag import DagBag

from tests.support.dags.workflows import DAGS, FLEET_WATCH, ROOT

PROGRAM = """
import runpy, sys
found = runpy.run_path(sys.argv[1])["fleet_watch"]()
print("SCHEDULE", getattr(found.timetable, "expression", None), found.timetable.can_be_scheduled)
"""


def test_without_a_fleet_nothing_is_scheduled(bag: DagBag) -> None:
    """The project has no fleet's file of its own: a run happens only where somebody starts one."""
    dag = bag.dags[FLEET_WATCH]
    assert not dag.timetable.can_be_scheduled
    assert set(dag.task_ids) == {"list_fleets", "watch"}
    assert dag.get_task("watch").upstream_task_ids == {"list_fleets"}


def test_fleets_file_schedules_it(tmp_path: Path) -> None:
    """By the environment variable, or every five minutes."""
    (tmp_path / "edge.yaml").write_text("fleet: edge\nmodel: digits\nconnections: [a]\n")
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "include"), str(ROOT / "plugins")]),
        "SLIPWAY_FLEETS_DIR": str(tmp_path),
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(DAGS / f"{FLEET_WATCH}.py")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "SCHEDULE */5 * * * * True" in done.stdout

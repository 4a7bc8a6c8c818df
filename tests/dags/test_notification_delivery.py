"""The workflow that tells people: it runs by the outbox alone, one run at a time, and loads no library to be parsed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from airflow.dag_processing.dagbag import DagBag
from airflow.serialization.serialized_objects import DagSerialization

from slipway.triggers.outbox import OutboxTrigger
from tests.support.dags.workflows import DAGS, DELIVERY, ROOT


def test_it_runs_when_a_notice_is_due_and_at_no_other_time(bag: DagBag) -> None:
    """Its only asset has one watcher; a schedule would start runs where nobody is told."""
    dag = bag.dags[DELIVERY]
    (asset,) = dag.timetable.asset_condition.objects  # type: ignore[attr-defined]
    (watcher,) = asset.watchers
    assert type(watcher.trigger) is OutboxTrigger


def test_two_runs_never_send_the_same_notices(bag: DagBag) -> None:
    """One run at a time; what it misses, the trigger tells again."""
    assert bag.dags[DELIVERY].max_active_runs == 1


def test_a_run_ends_before_airflow_ends_it(bag: DagBag) -> None:
    """The deadline of all messages, and the limit of the last one, lie well within the task's."""
    from slipway.notifiers.delivery import DEADLINE_S
    from slipway.notifiers.notifier import LIMIT_S

    limit = bag.dags[DELIVERY].get_task("deliver").execution_timeout
    assert limit is not None
    assert limit.total_seconds() > DEADLINE_S + LIMIT_S + 60


def test_its_watcher_survives_the_database(bag: DagBag) -> None:
    """What is stored of it holds no secret, and makes the same trigger again."""
    stored: Any = DagSerialization.to_dict(bag.dags[DELIVERY])
    assert "OutboxTrigger" in json.dumps(stored)
    assert "password" not in json.dumps(stored)


def test_parsing_loads_no_library_that_sends() -> None:
    """DAG files are parsed often: Apprise, the webhooks' library and Jinja2's templates come when something is sent."""
    program = "import json, sys, runpy; runpy.run_path(sys.argv[1]); print('RESULT', json.dumps(sorted(sys.modules)))"
    paths = os.pathsep.join([str(ROOT / "include"), str(ROOT / "plugins")])
    done = subprocess.run(
        [sys.executable, "-c", program, str(DAGS / f"{DELIVERY}.py")],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("RESULT")]
    modules = json.loads(line.removeprefix("RESULT"))
    for name in ("apprise", "standardwebhooks", "slipway.notifiers.channels.apprise"):
        assert name not in modules

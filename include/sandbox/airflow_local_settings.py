"""Lies in the sandbox's AIRFLOW_HOME/config, where each of Airflow's processes imports it at its start.

Two things that cannot be said in airflow.cfg: how SQLite is opened, and what the scheduler imports ahead of
time. The
LocalExecutor forks a process for each task: what the scheduler has imported, no task imports again.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

from sqlalchemy import event
from sqlalchemy.engine import Engine

# Several processes write: wait for each other rather than fail with "database is locked".
SQLITE_CONNECT_ARGS = {"timeout": 30}

# Third-party only: this project's own modules are read anew by every task, so that a change needs no restart.
PREIMPORTED = (
    "airflow.sdk.execution_time.supervisor",
    "airflow.sdk.execution_time.task_runner",
    "airflow.providers.amazon.aws.hooks.s3",
    "airflow.providers.amazon.aws.hooks.sqs",
    "airflow.providers.cncf.kubernetes.operators.pod",
    "airflow.providers.common.messaging.triggers.msg_queue",
    "airflow.providers.standard.operators.trigger_dagrun",
    "great_expectations",
    "kubernetes.client",
    "numpy",
    "pydantic",
    "tritonclient.http",
    "yaml",
)


@event.listens_for(Engine, "connect")
def _open_sqlite(connection: Any, _record: Any) -> None:
    # The database is rebuilt by every start of the sandbox: it need not survive a power cut.
    if "sqlite" in type(connection).__module__:
        cursor = connection.cursor()
        cursor.execute("PRAGMA synchronous=OFF")
        cursor.close()


def _preimport() -> None:
    for name in PREIMPORTED:
        try:
            importlib.import_module(name)
        except ImportError as error:
            print(f"{name} is not imported ahead of time: {error}", file=sys.stderr)


if sys.argv[1:2] == ["scheduler"] and os.environ.get("SLIPWAY_PREIMPORT", "1") != "0":
    _preimport()

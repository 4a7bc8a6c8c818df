"""Lies in the sandbox's AIRFLOW_HOME/config, where each of Airflow's processes imports it at its start.

Three things that cannot be said in airflow.cfg: how SQLite is opened, in which thread the API server writes its
audit log, and what the scheduler and the DAG processor import and read ahead of time. The LocalExecutor forks a process
for each task, and the DAG processor one for each file: what the parent has read, no child reads again.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sqlalchemy import event
from sqlalchemy.engine import Engine

# Several processes write: wait for each other rather than fail with "database is locked".
SQLITE_CONNECT_ARGS = {"timeout": 30}

# What the DAGs' tasks import and reading the DAG files needs in part: a second for each process.
LIBRARIES = (
    "airflow.providers.amazon.aws.hooks.s3",
    "airflow.providers.amazon.aws.hooks.sqs",
    "airflow.providers.common.messaging.triggers.msg_queue",
    "airflow.providers.standard.operators.trigger_dagrun",
    "airflow.sdk.execution_time.supervisor",
    "airflow.sdk.execution_time.task_runner",
    "pydantic",
    "yaml",
)
# What only tasks import. Such libraries are imported late in the sources, so they are named here.
IN_TASKS = (
    "great_expectations",
    "slipway_kubernetes.client",
    "matplotlib.figure",
    "numpy",
    "slipway.metrics.sources.scrape",
    "slipway.pods.execution",
    "tritonclient.grpc",
    "tritonclient.http",
)
# All modules of these packages are imported, too. So a change in plugins/ or include/ takes effect in tasks at the next
# start, as it does wherever Airflow's plugins are changed.
PACKAGES_IN_TASKS = ("slipway.operators", "slipway.triggers")
# What almost every task reads. Their validators are only built at their first use, which would be once in each task.
READ_IN_TASKS = {
    "slipway_core.spec.release_file": "ReleaseSpec",
    "slipway_core.gates.validation.kinds.classification": "ClassificationValidation",
    "slipway_core.metrics.sources.scrape": "ScrapedMetrics",
    "slipway_core.spec.conversion.targets.onnx": "OnnxConversion",
    "slipway.release_run": "ReleaseRun",
}


@event.listens_for(Engine, "connect")
def _open_sqlite(connection: Any, _record: Any) -> None:
    # The database is rebuilt by every start of the sandbox: it need not survive a power cut.
    if "sqlite" in type(connection).__module__:
        cursor = connection.cursor()
        cursor.execute("PRAGMA synchronous=OFF")
        cursor.close()


class _Entries:
    """Stands in for the session to which the audit log is written."""

    def __init__(self) -> None:
        self._entries: list[Any] = []

    def add(self, entry: Any) -> None:
        self._entries.append(entry)

    def commit(self) -> None:
        """Leave it to `write`."""

    def write(self, session: Any) -> None:
        if self._entries:
            session.add_all(self._entries)
            session.commit()


def _write_the_audit_log_in_a_thread() -> None:
    """Have the audit log written in a thread: Airflow writes it from its API server's event loop.

    With SQLite that write waits for another request's, whose session is ended by the event loop, which waits: two
    requests at the same moment hold up the whole server until the lock times out.
    """
    from airflow.api_fastapi.logging import decorators
    from starlette.concurrency import run_in_threadpool

    original = decorators.action_logging

    def action_logging(event: str | None = None) -> Any:
        log_action = original(event)

        @functools.wraps(log_action)
        async def log_in_a_thread(request: Any, session: Any, user: Any) -> None:
            entries = _Entries()
            await log_action(request, entries, user)
            await run_in_threadpool(entries.write, session)

        # The names in its annotations are those of Airflow's module.
        log_in_a_thread.__signature__ = inspect.signature(log_action, eval_str=True)  # type: ignore[attr-defined]
        return log_in_a_thread

    decorators.action_logging = action_logging


def _preimport(names: Iterable[str]) -> None:
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError as error:
            print(f"{name} is not imported ahead of time: {error}", file=sys.stderr)


def _modules(packages: Iterable[str]) -> Iterator[str]:
    for name in packages:
        package = importlib.import_module(name)
        yield from (module.name for module in pkgutil.walk_packages(package.__path__, f"{name}."))


def _build_validators(models: Mapping[str, str]) -> None:
    for module, name in models.items():
        try:
            getattr(importlib.import_module(module), name).model_rebuild()
        except ImportError as error:
            print(f"{name} is not built ahead of time: {error}", file=sys.stderr)


if sys.argv[1:2] == ["dag-processor"]:
    _preimport(LIBRARIES)

if sys.argv[1:2] == ["scheduler"]:
    _preimport((*LIBRARIES, *IN_TASKS, *_modules(PACKAGES_IN_TASKS)))
    _build_validators(READ_IN_TASKS)
    importlib.import_module("slipway.hooks.s3_connection").read_descriptions_ahead()

if sys.argv[1:2] == ["api-server"]:
    _write_the_audit_log_in_a_thread()

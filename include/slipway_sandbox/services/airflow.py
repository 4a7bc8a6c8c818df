"""Airflow for the sandbox: its configuration, its database, its four components, its health.

Four separate components on loopback, never `airflow standalone`: that one's log servers listen on all
interfaces.
"""

from __future__ import annotations

import configparser
import hashlib
import json
import os
import re
import shutil
import sqlite3
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from slipway_airflow_api.access import Access
from slipway_airflow_api.session import Session
from slipway_core.errors import SlipwayError
from slipway_sandbox.host.child_process import program_path
from slipway_sandbox.host.files import replace_file
from slipway_sandbox.host.ports import LOOPBACK
from slipway_sandbox.host.settings import PROJECT_ROOT, SandboxSettings, sandbox_environment

MIGRATION_TIMEOUT_S = 300
COMPONENTS = ("scheduler", "triggerer", "dag_processor")
# How many tasks run at once: each is a process of 150 MiB or so, and a laptop has few cores.
PARALLELISM = 8

# What releases need of Airflow wherever it runs; docker-compose.yaml and docs/settings.md have the same, by a test.
NEEDED_OPTIONS: Mapping[str, Mapping[str, str]] = {
    "core": {
        # A paused intake finds no version, and a paused release does not start.
        "dags_are_paused_at_creation": "False",
        # On a busy machine the DAGs take longer to import than 30 s, and a release would lose its DAG half-way.
        "dagbag_import_timeout": "180",
    },
    "dag_processor": {
        # Above the import's own limit, which tells which file it was.
        "dag_file_processor_timeout": "240",
    },
    "scheduler": {
        # How soon a lost process is noticed: 300 s by default.
        "task_instance_heartbeat_timeout": "60",
    },
    # Until a triggerer counts as dead nobody takes over its canaries, whose leases run on
    # (include/slipway_core/rollout/lease_terms.py says how the two must fit).
    "triggerer": {"job_heartbeat_sec": "2", "triggerer_health_check_threshold": "15"},
    "workers": {
        # On a busy machine an answer may take longer than the default of 5 s, and a report that was taken but is sent
        # again makes Airflow run the task again.
        "execution_api_timeout": "30",
        # A supervisor may notice the end of its task only at its next heartbeat. If the trigger of a task that has
        # deferred fires before, the scheduler takes the task for dead and runs it again.
        "min_heartbeat_interval": "1",
    },
}

# A DAG file that has changed is read at once, one that has not after this time: what it reads may have changed.
DAG_FILES_READ_AGAIN_S = 60

# How long the scheduler rests when it found nothing to do. One task follows another so much sooner than with Airflow's
# own second; each look costs some milliseconds for every run that is open.
SCHEDULER_RESTS_S = 0.2

LOCAL_SETTINGS = Path(__file__).with_name("airflow_local_settings.py")


class AirflowError(Exception):
    """Airflow cannot be set up or asked; the message says what was expected, found, and what to do."""


_IMPORTS_AIRFLOW = re.compile(r"^(from|import) airflow\b", re.MULTILINE)


@dataclass(frozen=True)
class Health:
    """What Airflow says of itself.

    `dags` counts the DAGs it has read, `import_errors` the files it could not (both 0 unless all is
    healthy), `files` those that lie in the folder of DAGs, one file a workflow.
    """

    unhealthy: tuple[str, ...]
    dags: int
    import_errors: int
    files: int

    @property
    def is_healthy(self) -> bool:
        """Whether all components are alive."""
        return not self.unhealthy

    @property
    def has_read_all(self) -> bool:
        """Whether every file of the folder of DAGs was read, well or not: before, a workflow may be missing."""
        return self.is_healthy and self.dags + self.import_errors >= self.files


def component_commands(settings: SandboxSettings) -> dict[str, list[str]]:
    """Return the command line of each component, by its name under the supervisor."""
    airflow = program_path("airflow")
    api = [airflow, "api-server", "--host", LOOPBACK, "--port", str(settings.ports.airflow), "--workers", "1"]
    return {
        "airflow-api-server": api,
        "airflow-scheduler": [airflow, "scheduler", "--skip-serve-logs"],
        "airflow-dag-processor": [airflow, "dag-processor"],
        "airflow-triggerer": [airflow, "triggerer", "--skip-serve-logs"],
    }


def configuration(settings: SandboxSettings, dags_folder: Path) -> dict[str, dict[str, str]]:
    """Return the sections and options of `airflow.cfg` that differ from Airflow's own defaults."""
    home = settings.airflow_home
    own = {
        "core": {
            "dags_folder": str(dags_folder),
            "plugins_folder": str(PROJECT_ROOT / "plugins"),
            "executor": "LocalExecutor",
            "parallelism": str(PARALLELISM),
            "load_examples": "False",
            "execution_api_server_url": f"{settings.airflow_url}/execution/",
            # Two people, since some things one person alone may not do.
            "simple_auth_manager_users": f"{settings.airflow_user}:admin,{settings.airflow_colleague}:admin",
            "simple_auth_manager_passwords_file": str(home / "passwords.json"),
            "fernet_key": settings.secrets.fernet_key,
            # The default asks the resolver for a full name, which takes seconds where there is none.
            "hostname_callable": "socket.gethostname",
            "min_serialized_dag_update_interval": "5",
        },
        "database": {
            "sql_alchemy_conn": f"sqlite:///{home / 'airflow.db'}",
            "sql_alchemy_connect_args": "airflow_local_settings.SQLITE_CONNECT_ARGS",
        },
        "api": {
            "host": LOOPBACK,
            "port": str(settings.ports.airflow),
            "base_url": settings.airflow_url,
            "workers": "1",
            "secret_key": settings.secrets.api_secret,
            "instance_name": "Slipway sandbox",
        },
        "api_auth": {"jwt_secret": settings.secrets.jwt_secret},
        "logging": {
            "base_log_folder": str(settings.log_dir / "airflow"),
            "dag_processor_child_process_log_directory": str(settings.log_dir / "airflow" / "dag_processor"),
            "colored_console_log": "False",
            # A line in every task's log, which says nothing about the task.
            "namespace_levels": "airflow.providers.amazon.aws.utils.connection_wrapper=WARNING",
        },
        "scheduler": {
            "scheduler_idle_sleep_time": str(SCHEDULER_RESTS_S),
            "scheduler_heartbeat_sec": "2",
            "job_heartbeat_sec": "2",
            "trigger_timeout_check_interval": "5",
            "orphaned_tasks_check_interval": "30",
        },
        "triggerer": {"capacity": "100"},
        "dag_processor": {
            "refresh_interval": "10",
            "min_file_process_interval": str(DAG_FILES_READ_AGAIN_S),
            "parsing_processes": "1",
            "print_stats_interval": "300",
        },
    }
    sections = dict.fromkeys((*own, *NEEDED_OPTIONS))
    return {name: {**own.get(name, {}), **NEEDED_OPTIONS.get(name, {})} for name in sections}


def airflow_environment(
    settings: SandboxSettings, inherited: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Return the environment in which the components, and any `airflow` command for this sandbox, run."""
    return sandbox_environment(settings, inherited) | {
        "AIRFLOW_HOME": str(settings.airflow_home),
        "AIRFLOW_CONFIG": str(settings.airflow_home / "airflow.cfg"),
        "GX_ANALYTICS_ENABLED": "False",
        # Tasks are small; without this, each process keeps a pool of threads with their buffers for linear
        # algebra.
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
    }


def write_home(settings: SandboxSettings, dags_folder: Path) -> None:
    """Write AIRFLOW_HOME.

    Configuration and password (readable by the owner only), local settings, empty database.
    """
    home = settings.airflow_home
    lines: list[str] = []
    for section, options in configuration(settings, dags_folder).items():
        lines.append(f"[{section}]")
        # The file is read with interpolation: a percent sign is written twice.
        lines.extend(f"{name} = {value.replace('%', '%%')}" for name, value in options.items())
        lines.append("")
    replace_file(home / "airflow.cfg", "\n".join(lines), private=True)
    replace_file(
        home / "passwords.json",
        json.dumps(
            dict.fromkeys((settings.airflow_user, settings.airflow_colleague), settings.airflow_password)
        )
        + "\n",
        private=True,
    )
    (home / "config").mkdir(exist_ok=True)
    shutil.copyfile(LOCAL_SETTINGS, home / "config" / "airflow_local_settings.py")
    shutil.copyfile(database_template(settings.images_dir.parent), home / "airflow.db")


def database_template(folder: Path) -> Path:
    """Return an empty, migrated database of this Airflow; made once below `folder`, then copied.

    Raises AirflowError.
    """
    identity = f"{version('apache-airflow')} {version('apache-airflow-core')} {version('sqlalchemy')} 1"
    path = folder / "airflow-database" / f"{hashlib.sha256(identity.encode()).hexdigest()[:12]}.db"
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(f".{os.getpid()}")
    _migrate(fresh)
    # Kept by the file itself from now on: readers do not wait for the writer.
    with sqlite3.connect(fresh) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    fresh.replace(path)
    return path


def _migrate(database: Path) -> None:
    home = database.with_suffix(".home")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "PYTHON"))}
    environment = kept | {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{database}",
    }
    command = [program_path("airflow"), "db", "migrate"]
    try:
        answer = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=MIGRATION_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise AirflowError(
            f"`airflow db migrate` did not end. Expected an answer within {MIGRATION_TIMEOUT_S} s; try "
            "again on a calmer machine."
        ) from None
    finally:
        shutil.rmtree(home, ignore_errors=True)
    if answer.returncode != 0:
        raise AirflowError(
            f"`airflow db migrate` failed with exit code {answer.returncode}. Expected an empty database "
            f"at {database}; "
            f"found: {answer.stderr.strip()[-800:]}. Run `make clean`, then `make setup`."
        )


def access_token(base_url: str, user: str, password: str, timeout_s: float = 10.0) -> str:
    """Return an access token for the REST API at `base_url`.

    :raises SlipwayError: the user is refused, or the API does not answer.
    """
    return Session(Access(base_url, user, password, timeout_s=timeout_s)).token


def read_health(settings: SandboxSettings, timeout_s: float = 10.0) -> Health | None:
    """Return how Airflow is, or None while its API does not answer."""
    session = Session(
        Access(settings.airflow_url, settings.airflow_user, settings.airflow_password, timeout_s=timeout_s)
    )
    try:
        monitor = _get(session, "/api/v2/monitor/health")
        unhealthy = [
            one for one in ("metadatabase", *COMPONENTS) if monitor.get(one, {}).get("status") != "healthy"
        ]
        if unhealthy:
            return Health(tuple(unhealthy), 0, 0, 0)
        dags = _get(session, "/api/v2/dags?limit=1")
        errors = _get(session, "/api/v2/importErrors?limit=1")
    except (SlipwayError, ValueError):
        return None
    return Health((), int(dags["total_entries"]), int(errors["total_entries"]), _count_dag_files(settings))


def _count_dag_files(settings: SandboxSettings) -> int:
    written = configparser.ConfigParser()
    written.read(settings.airflow_home / "airflow.cfg", encoding="utf-8")
    return count_dag_files(Path(written.get("core", "dags_folder")))


def count_dag_files(folder: Path) -> int:
    """Return how many files of a folder make a DAG: one that imports nothing of Airflow only checks something."""
    return sum(_IMPORTS_AIRFLOW.search(path.read_text("utf-8")) is not None for path in folder.glob("*.py"))


def _get(session: Session, path: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(session.get(path))
    return document

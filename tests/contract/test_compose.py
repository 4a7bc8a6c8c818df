from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from slipway_sandbox.services.airflow import NEEDED_OPTIONS

ROOT = Path(__file__).resolve().parents[2]
COMPOSE = ROOT / "docker-compose.yaml"
AIRFLOW_SERVICES = {"api-server", "scheduler", "dag-processor", "triggerer", "worker"}


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))
    return document


def validate(path: Path) -> subprocess.CompletedProcess[str]:
    """The Compose specification's own schema, as the package check-jsonschema carries it."""
    checker = Path(sys.executable).with_name("check-jsonschema")
    command = [str(checker), "--builtin-schema", "vendor.compose-spec", str(path)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_the_file_follows_the_compose_specification() -> None:
    """docker-compose.yaml is valid by the Compose specification's JSON schema."""
    answer = validate(COMPOSE)
    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_the_schema_refuses_a_wrong_file(tmp_path: Path) -> None:
    """The check above can fail: a key that Compose does not know is refused."""
    wrong = tmp_path / "docker-compose.yaml"
    wrong.write_text(
        COMPOSE.read_text(encoding="utf-8").replace(
            "    image: ${SLIPWAY_POSTGRES", "    imagee: ${SLIPWAY_POSTGRES"
        )
    )
    answer = validate(wrong)
    assert answer.returncode == 1
    assert "imagee" in answer.stdout


def test_it_is_airflow_as_its_users_expect_it(compose: dict[str, Any]) -> None:
    """It runs Celery with PostgreSQL and Redis, each component alone, the project mounted and on the path."""
    services = compose["services"]
    assert services.keys() == AIRFLOW_SERVICES | {"postgres", "redis", "init"}
    for name in AIRFLOW_SERVICES:
        assert services[name]["environment"]["AIRFLOW__CORE__EXECUTOR"] == "CeleryExecutor"
        assert services[name]["environment"]["PYTHONPATH"] == "/opt/airflow/include"
        mounted = {volume.split(":")[0] for volume in services[name]["volumes"]}
        assert {"./dags", "./plugins", "./include"} <= mounted


def test_one_service_builds_the_image_that_all_run(compose: dict[str, Any]) -> None:
    """The image is built once, by the service that all others wait for, and never asked of a registry."""
    services = compose["services"]
    assert [name for name, service in services.items() if "build" in service] == ["init"]
    ours = {name: services[name] for name in (*AIRFLOW_SERVICES, "init")}
    assert len({service["image"] for service in ours.values()}) == 1
    assert {service["pull_policy"] for service in ours.values()} == {"never"}
    # The image's own entrypoint makes an entry for the user id that `user` names.
    assert [name for name, service in ours.items() if "entrypoint" in service] == []


def test_airflow_has_the_options_that_releases_need(compose: dict[str, Any]) -> None:
    """Each of them has the value that it has in the sandbox, and docs/settings.md gives the same."""
    needed = {
        (section, option): value
        for section, options in NEEDED_OPTIONS.items()
        for option, value in options.items()
    }
    for name in AIRFLOW_SERVICES:
        environment = compose["services"][name]["environment"]
        found = {pair: environment.get("AIRFLOW__{}__{}".format(*pair).upper()) for pair in needed}
        assert found == needed, name
    table = (
        (ROOT / "docs" / "settings.md").read_text(encoding="utf-8").partition("## Airflow's own options")[2]
    )
    rows = re.findall(r"^\| `\[(\w+)\] (\w+)` \| (\S+) \|", table, re.MULTILINE)
    assert {(section, option): value for section, option, value in rows} == needed


def test_a_manifest_says_who_published_it(compose: dict[str, Any]) -> None:
    """The project's version is mounted and its commit passed on, for a container has no git history."""
    for name in AIRFLOW_SERVICES:
        service = compose["services"][name]
        assert "./pyproject.toml:/opt/airflow/pyproject.toml:ro" in service["volumes"]
        assert service["environment"]["SLIPWAY_COMMIT"] == "${SLIPWAY_COMMIT:-}"


def test_bytecode_is_kept_though_the_project_is_read_only(compose: dict[str, Any]) -> None:
    """It goes to a volume that all services share, into a folder of the image that its user may write to."""
    services = compose["services"]
    for name in AIRFLOW_SERVICES:
        folder = services[name]["environment"]["PYTHONPYCACHEPREFIX"]
        assert f"bytecode:{folder}" in services[name]["volumes"]
        assert f"mkdir -p {folder} && chmod g+rwx {folder}" in services["init"]["build"]["dockerfile_inline"]
    assert "bytecode" in compose["volumes"]


def test_a_worker_has_few_tasks_and_time_to_end_them(compose: dict[str, Any]) -> None:
    """A worker takes no more tasks than a small machine carries, and is not killed after Docker's ten seconds."""
    worker = compose["services"]["worker"]
    concurrency = worker["environment"]["AIRFLOW__CELERY__WORKER_CONCURRENCY"]
    assert concurrency == "${SLIPWAY_WORKER_CONCURRENCY:-4}"
    assert worker["stop_grace_period"] == "120s"


def test_database_and_broker_are_healthy_when_they_can_be_used(compose: dict[str, Any]) -> None:
    """PostgreSQL is asked by TCP, where it does not answer while it makes its database.

    Redis is no root process and gets signals itself, and its password is on no command line.
    """
    postgres, redis = compose["services"]["postgres"], compose["services"]["redis"]
    asked = postgres["healthcheck"]["test"]
    assert asked[:4] == ["CMD", "pg_isready", "--host", "127.0.0.1"]
    assert {"--username", "--dbname"} <= set(asked)
    assert redis["user"] == "redis"
    script = redis["command"][-1]
    assert script.startswith("exec redis-server -")
    assert "$$REDIS_PASSWORD" in script


def test_every_lasting_service_has_a_health_check(compose: dict[str, Any]) -> None:
    """Compose can tell for each service whether it works; only `init` ends by itself."""
    without = {name for name, service in compose["services"].items() if "healthcheck" not in service}
    assert without == {"init"}


def test_no_health_check_imports_airflow(compose: dict[str, Any]) -> None:
    """A check is a request over HTTP, or a ping by Celery alone, so that a busy machine makes nobody unhealthy."""
    for name in AIRFLOW_SERVICES:
        asked = compose["services"][name]["healthcheck"]["test"]
        program = "celery inspect ping" if name == "worker" else "curl"
        assert program in " ".join(asked), name
        assert not re.search(r"\bairflow |--app", " ".join(asked)), name


def test_services_wait_for_what_they_need(compose: dict[str, Any]) -> None:
    """Airflow starts when database and broker are healthy and the database is migrated."""
    for name in AIRFLOW_SERVICES:
        needs = {need: how["condition"] for need, how in compose["services"][name]["depends_on"].items()}
        assert needs == {
            "postgres": "service_healthy",
            "redis": "service_healthy",
            "init": "service_completed_successfully",
        }


def test_every_secret_comes_from_the_environment_and_has_no_default() -> None:
    """A secret that is not set stops Compose with its name.

    No value for one is in the file or in the example.
    """
    text = COMPOSE.read_text(encoding="utf-8")
    used = re.findall(r"\$\{(SLIPWAY_\w*(?:PASSWORD|KEY|SECRET)\w*)(:?[^}]*)\}", text)
    assert len({name for name, _ in used}) == 6
    assert {rest for _, rest in used} == {":?set it in .env"}
    example = (ROOT / ".env.example").read_text(encoding="utf-8")
    for name, _ in used:
        assert re.search(rf"^{name}=$", example, re.MULTILINE), name


SECRETS = {
    "AIRFLOW__CORE__FERNET_KEY": {"init", "api-server", "scheduler", "dag-processor", "triggerer"},
    "AIRFLOW__API__SECRET_KEY": {"init", "api-server", "triggerer", "worker"},
    "AIRFLOW__API_AUTH__JWT_SECRET": {"api-server", "scheduler"},
    "AIRFLOW__CELERY__BROKER_URL": {"scheduler", "worker"},
    "AIRFLOW__CELERY__RESULT_BACKEND": {"scheduler", "worker"},
    "AIRFLOW_CONN_AWS_DEFAULT": {"api-server", "triggerer", "worker"},
    "AIRFLOW_CONN_MLFLOW_DEFAULT": {"api-server", "triggerer", "worker"},
    "SLIPWAY_ADMIN_PASSWORD": {"init"},
    "POSTGRES_PASSWORD": {"postgres"},
    "REDIS_PASSWORD": {"redis"},
}


@pytest.mark.parametrize("name", SECRETS)
def test_each_service_has_the_secrets_that_it_needs(compose: dict[str, Any], name: str) -> None:
    """No container gets another one's: a task has no key for tokens, and no password of the administrator."""
    services = compose["services"]
    assert {one for one, service in services.items() if name in service["environment"]} == SECRETS[name]


def test_no_container_is_given_the_whole_file(compose: dict[str, Any]) -> None:
    """Compose alone reads .env; what talks to others may have a file of more connections."""
    given = {name: service.get("env_file", []) for name, service in compose["services"].items()}
    assert {name for name, files in given.items() if files} == {"api-server", "triggerer", "worker"}
    assert {file["path"] for files in given.values() for file in files} == {"connections.env"}


def test_what_the_example_names_reaches_who_reads_it(compose: dict[str, Any]) -> None:
    """Each connection and setting of the example that Airflow reads is passed on to the workers by its name."""
    example = (ROOT / ".env.example").read_text(encoding="utf-8")
    named = set(re.findall(r"^(?:# )?(AIRFLOW_(?:CONN|VAR)_\w+|SLIPWAY_\w+)=", example, re.MULTILINE))
    interpolated = set(re.findall(r"(?<!\$)\$\{(\w+)", COMPOSE.read_text(encoding="utf-8")))
    worker = compose["services"]["worker"]["environment"]
    assert named - interpolated - worker.keys() == {"AIRFLOW_CONN_SLACK_DEFAULT"}
    passed_on = {name for name, value in worker.items() if value is None}
    assert passed_on <= named


def test_only_the_ui_is_published_and_only_on_loopback(compose: dict[str, Any]) -> None:
    """No port is open to other machines."""
    published = {
        name: service["ports"] for name, service in compose["services"].items() if "ports" in service
    }
    assert published.keys() == {"api-server"}
    assert all(port.startswith("127.0.0.1:") for port in published["api-server"])


def test_the_image_is_of_the_airflow_that_is_pinned(compose: dict[str, Any]) -> None:
    """The base image carries the Airflow version of requirements.txt."""
    pinned = re.search(
        r"^apache-airflow==(\S+)", (ROOT / "requirements.txt").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert pinned is not None
    build = compose["services"]["init"]["build"]
    assert build["args"]["BASE_IMAGE"].endswith(f":-apache/airflow:{pinned[1]}-python3.11}}")
    assert build["dockerfile_inline"].startswith("ARG BASE_IMAGE\nFROM $$BASE_IMAGE\n")


def test_every_image_can_be_pinned_by_digest(compose: dict[str, Any]) -> None:
    """Each image that others build is named by a variable with a tag as its default, in the example as well."""
    example = (ROOT / ".env.example").read_text(encoding="utf-8")
    services = compose["services"]
    named = [services[name]["image"] for name in ("postgres", "redis")]
    named.append(services["init"]["build"]["args"]["BASE_IMAGE"])
    for image in named:
        variable = re.fullmatch(r"\$\{(SLIPWAY_\w+):-[a-z/]+:[\w.-]+\}", image)
        assert variable, image
        assert f"# {variable[1]}=" in example


def test_the_example_names_every_variable(compose: dict[str, Any]) -> None:
    """Whatever the file or docs/settings.md reads from the environment stands in `.env.example`."""
    example = (ROOT / ".env.example").read_text(encoding="utf-8")
    read = set(re.findall(r"(?<!\$)\$\{(\w+)", COMPOSE.read_text(encoding="utf-8")))
    settings = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    talks_to = settings.partition("## What Airflow talks to")[2].partition("\n## ")[0]
    read |= {f"AIRFLOW_CONN_{name.upper()}" for name in re.findall(r"^\| connection `(\w+)`", talks_to, re.M)}
    read |= {f"AIRFLOW_VAR_{name.upper()}" for name in re.findall(r"^\| variable `(\w+)`", talks_to, re.M)}
    read |= set(re.findall(r"^\| env `(\w+)`", talks_to, re.MULTILINE)) - {"PYTHONPATH"}
    assert {name for name in read if not re.search(rf"^(# )?{name}=", example, re.MULTILINE)} == set()


def test_a_busy_machine_does_not_lose_a_dag(compose: dict[str, Any]) -> None:
    """Importing the DAGs may take minutes before Airflow calls it an error, and the process is given longer still."""
    for name in AIRFLOW_SERVICES:
        environment = compose["services"][name]["environment"]
        limit_s = int(environment["AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT"])
        assert 120 <= limit_s < int(environment["AIRFLOW__DAG_PROCESSOR__DAG_FILE_PROCESSOR_TIMEOUT"])


def test_a_busy_machine_is_given_time_for_the_first_start(compose: dict[str, Any]) -> None:
    """Nothing is unhealthy in its first ten minutes: where two processors had 26 programs, a worker took five."""
    for name in AIRFLOW_SERVICES:
        assert compose["services"][name]["healthcheck"]["start_period"] == "600s", name

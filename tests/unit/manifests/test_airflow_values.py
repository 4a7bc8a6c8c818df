"""include/charts/airflow-values: values for the official Airflow chart, as the project and its Airflow have them."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml
from airflow.configuration import retrieve_configuration_description

from slipway_sandbox.host.settings import PROJECT_ROOT
from slipway_sandbox.services.airflow import NEEDED_OPTIONS
from tests.support.chart.files import default_values

FOLDER = PROJECT_ROOT / "include" / "charts" / "airflow-values"
FILES = sorted(FOLDER.glob("*.yaml"))
COMMON: dict[str, Any] = yaml.safe_load((FOLDER / "values.yaml").read_text(encoding="utf-8"))
COMPOSE: dict[str, Any] = yaml.safe_load((PROJECT_ROOT / "docker-compose.yaml").read_text(encoding="utf-8"))
DOCKERFILE = (FOLDER / "Dockerfile").read_text(encoding="utf-8")
ENVIRONMENT = {one["name"]: one["value"] for one in COMMON["env"]}
# Its provider is in the official image; this environment does not have it.
_OF_OTHER_PROVIDERS = {"celery": {"worker_concurrency"}}


def values(path: Any) -> dict[str, Any]:
    """Return the values of a file."""
    found: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_option_is_known_to_the_installed_airflow(path: Any) -> None:
    """Each section and option below `config` is one of Airflow's or of a provider's, and its value is a text."""
    known = {name: set(part["options"]) for name, part in retrieve_configuration_description().items()}
    for section, options in values(path).get("config", {}).items():
        assert set(options) <= known.get(section, set()) | _OF_OTHER_PROVIDERS.get(section, set()), section
        assert all(isinstance(value, str) for value in options.values())


def test_airflow_has_the_options_that_releases_need() -> None:
    """Each with the value that it has in the sandbox."""
    assert {name: COMMON["config"][name] for name in NEEDED_OPTIONS} == NEEDED_OPTIONS


def test_the_accounts_are_those_that_get_rights_from_the_other_chart() -> None:
    """Workers and triggerer act in the cluster; the API server does not, and has an account of its own."""
    accounts = {
        name: COMMON[name]["serviceAccount"]["name"] for name in ("workers", "triggerer", "apiServer")
    }
    subjects = {one["name"] for one in default_values()["airflow"]["subjects"]}
    assert {accounts["workers"], accounts["triggerer"]} == subjects
    assert accounts["apiServer"] not in subjects


def test_connections_name_what_the_other_chart_installs() -> None:
    """The namespace of pods, and the staging Triton's Service and ports."""
    cluster = json.loads(ENVIRONMENT["AIRFLOW_CONN_KUBERNETES_DEFAULT"])
    assert cluster["extra"] == {
        "in_cluster": True,
        "namespace": default_values()["teams"][0]["podsNamespace"],
    }
    staging = json.loads(ENVIRONMENT["AIRFLOW_CONN_TRITON_STAGING"])
    assert (staging["host"].split(".")[0], staging["port"], staging["extra"]["grpc_port"]) == (
        "triton-staging",
        8000,
        8001,
    )


def test_no_secret_stands_in_a_file() -> None:
    """Passwords and keys come from Secrets that are named; no user is made with a password that everybody knows."""
    for path in FILES:
        assert not re.search(
            r"(?i)password|passwd|\bpass:", re.sub(r"#.*", "", path.read_text(encoding="utf-8"))
        )
    assert COMMON["createUserJob"] == {"enabled": False}
    assert {"fernetKeySecretName", "apiSecretKeySecretName", "jwtSecretName"} <= COMMON.keys()


def test_the_image_has_what_the_compose_file_builds_and_mounts() -> None:
    """The same base and packages, and as a copy what Compose mounts."""
    build = COMPOSE["services"]["init"]["build"]
    lines = [
        line.strip() for line in build["dockerfile_inline"].replace("$$", "$").splitlines() if line.strip()
    ]
    assert [line for line in lines[2:] if line not in map(str.strip, DOCKERFILE.splitlines())] == []
    (base,) = re.findall(r"^ARG BASE_IMAGE=(\S+)$", DOCKERFILE, re.MULTILINE)
    assert build["args"]["BASE_IMAGE"].endswith(f":-{base}}}")
    assert base == f"apache/airflow:{COMMON['airflowVersion']}-python3.11"
    mounted = {
        volume.split(":")[0].removeprefix("./")
        for volume in COMPOSE["services"]["worker"]["volumes"]
        if volume.startswith("./")
    }
    copied = {
        name.rstrip("/") for name in re.findall(r"^COPY --chown=airflow:0 (\S+) ", DOCKERFILE, re.MULTILINE)
    }
    assert copied == mounted
    environment = COMPOSE["services"]["worker"]["environment"]
    for name in ("PYTHONPATH", "PYTHONPYCACHEPREFIX"):
        assert f"{name}={environment[name]}" in DOCKERFILE
        assert ENVIRONMENT[name] == environment[name]


def test_the_builder_is_sent_what_the_image_copies() -> None:
    """The ignore file beside the Dockerfile lets each of these in, and everything else stays out."""
    ignored = (FOLDER / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    sent = {line.removeprefix("!") for line in ignored if line.startswith("!")}
    copied = {
        name.rstrip("/") for name in re.findall(r"^COPY (?:--chown=\S+ )?(\S+) ", DOCKERFILE, re.MULTILINE)
    }
    assert "*" in ignored
    assert sent == copied


def test_executors_differ_as_their_files_say() -> None:
    """Celery's workers start no pods by Airflow's own chart; the scheduler of KubernetesExecutor must."""
    celery, kubernetes = (values(FOLDER / f"{name}.yaml") for name in ("celery", "kubernetes"))
    assert (celery["executor"], celery["allowPodLaunching"]) == ("CeleryExecutor", False)
    assert (kubernetes["executor"], kubernetes["allowPodLaunching"]) == ("KubernetesExecutor", True)
    assert kubernetes["redis"] == {"enabled": False}

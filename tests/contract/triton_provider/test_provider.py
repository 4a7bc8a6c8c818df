"""The provider's wheel, installed without Slipway: Airflow's own manager and API server know the connection type."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from slipway_sandbox.host.ports import LOOPBACK, free_port
from slipway_sandbox.host.settings import PROJECT_ROOT
from slipway_sandbox.services.triton import TritonServer
from tests.support.triton_provider.alone import run_alone

pytestmark = pytest.mark.timeout(1200)

TOKEN = "token-that-nobody-may-see"


@pytest.fixture(scope="module")
def told(alone: Path, triton: TritonServer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What Airflow says: of the type, and of a test of each of four connections."""

    def body(port: int, **extra: Any) -> dict[str, Any]:
        return {
            "connection_id": "a_triton",
            "conn_type": "triton",
            "host": LOOPBACK,
            "port": port,
            "password": TOKEN,
            "extra": json.dumps(extra),
        }

    ports = triton.ports
    bodies = [
        body(ports.http, grpc_port=ports.grpc, headers={"X-Team": "vision"}),
        body(ports.grpc, protocol="grpc"),
        body(free_port(), timeout_s=2),
        body(ports.http, protocol="carrier pigeon"),
    ]
    home = tmp_path_factory.mktemp("provider")
    found, log = run_alone(alone, home, "provider_program.py", [json.dumps(bodies)])
    return {**found, "log": log}


def names_us(line: str) -> bool:
    """Whether a line speaks of this provider; a file's path in it holds whatever the checkout's folder is called."""
    for folder in (PROJECT_ROOT, Path(sys.prefix), Path(sys.prefix).resolve()):
        line = line.replace(str(folder), "")
    return "triton" in re.sub(r"\S*/\S*", "", line)


def test_providers_manager_knows_hook_and_link(told: dict[str, Any]) -> None:
    """The entry point makes Airflow know the provider with its hook and its tasks' link, and complain of nothing."""
    assert told["provider"] == "0.1.0"
    assert told["hook"] == "airflow_provider_triton.hooks.triton.TritonHook"
    assert "airflow_provider_triton.links.TritonServerLink" in told["links"]
    assert not [line for line in told["log"].splitlines() if "warning" in line.lower() and names_us(line)]


def test_form_has_the_fields(told: dict[str, Any]) -> None:
    """The API server describes the connection's form: its fields, the token under its name, what is hidden."""
    (form,) = told["form"]
    assert form["hook_name"] == "Triton Inference Server"
    assert {"protocol", "grpc_port", "ssl", "ca", "client_cert", "client_key", "headers", "timeout_s"} <= set(
        form["extra_fields"]
    )
    assert form["extra_fields"]["protocol"]["schema"]["enum"] == ["http", "grpc", None]
    assert form["extra_fields"]["ssl"]["schema"]["title"] == "TLS"
    assert form["standard_fields"]["password"]["title"] == "Bearer token"
    assert form["standard_fields"]["host"]["placeholder"] == "triton-staging.models"
    assert form["standard_fields"]["login"]["hidden"]


@pytest.mark.parametrize("number", [0, 1], ids=["both protocols", "gRPC alone"])
def test_connection_test_passes(told: dict[str, Any], number: int) -> None:
    """Airflow's button "Test" asks the real server, over the protocols that the connection names."""
    test = told["tests"][number]
    assert test["status"] == 200
    assert test["answer"]["status"] is True
    assert "triton 2." in test["answer"]["message"]
    assert test["answer"]["message"].endswith("answers and is ready")


@pytest.mark.parametrize(
    ("number", "words"), [(2, "did not answer"), (3, "protocol")], ids=["nobody listens", "wrong field"]
)
def test_connection_test_says_what_is_wrong(told: dict[str, Any], number: int, words: str) -> None:
    """A test that fails says why, and does not show the token."""
    test = told["tests"][number]
    assert test["answer"]["status"] is False
    assert words in test["answer"]["message"]
    assert TOKEN not in str(told)

from __future__ import annotations

import json
import socket
import stat
from dataclasses import fields
from pathlib import Path

import pytest

from slipway_sandbox.host.preflight import PORT_VARIABLES
from slipway_sandbox.host.settings import (
    Ports,
    SandboxSettings,
    SettingsError,
    choose_ports,
    connection_environment,
    sandbox_environment,
)
from slipway_sandbox.lifecycle import cluster_configuration


@pytest.fixture
def settings(tmp_path: Path) -> SandboxSettings:
    return SandboxSettings.prepare(tmp_path, {})


def test_every_port_has_a_variable() -> None:
    """The variables that preflight knows are those of the ports there are."""
    assert list(PORT_VARIABLES) == [field.name for field in fields(Ports)]


def test_free_ports_are_taken_by_default() -> None:
    """Without any wish each part gets a port of its own that nobody listens on."""
    ports = choose_ports({}).as_dict().values()
    assert len(set(ports)) == len(PORT_VARIABLES)
    for port in ports:
        with socket.create_server(("127.0.0.1", port)):
            pass


def test_pinned_ports_are_kept_and_others_stay_as_they_were() -> None:
    """A pinned port wins over the last one; the others are those of the last start while they are free."""
    last = choose_ports({})
    wanted = choose_ports({}).airflow
    ports = choose_ports({"SLIPWAY_PORT_AIRFLOW": str(wanted)}, last)
    assert ports.airflow == wanted
    assert ports.object_store == last.object_store


def test_a_port_that_somebody_took_meanwhile_is_replaced() -> None:
    """A port of the last start that is taken now gives way to a free one."""
    last = choose_ports({})
    with socket.create_server(("127.0.0.1", last.cluster)):
        assert choose_ports({}, last).cluster != last.cluster


def test_a_busy_pinned_port_is_refused_by_name() -> None:
    """A pinned port that is in use is an error that names the port and the variable."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(SettingsError, match=f"Port {port} .SLIPWAY_PORT_INGRESS. is in use"):
            choose_ports({"SLIPWAY_PORT_INGRESS": str(port)})


@pytest.mark.parametrize("text", ["0", "-1", "70000", "8080x", "８０８０"])
def test_what_is_no_port_is_refused(text: str) -> None:
    """Anything but a number from 1024 to 65535 is an error that shows what was given."""
    with pytest.raises(SettingsError, match="SLIPWAY_PORT_CLUSTER"):
        choose_ports({"SLIPWAY_PORT_CLUSTER": text})


def test_settings_survive_being_saved_and_only_the_owner_can_read_them(settings: SandboxSettings) -> None:
    """What is saved is what is loaded, in a file without rights for others."""
    path = settings.save()
    assert SandboxSettings.load(settings.root) == settings
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_secrets_are_random_and_stay(tmp_path: Path, settings: SandboxSettings) -> None:
    """Two sandboxes share no secret; one keeps its own from start to start."""
    settings.save()
    assert SandboxSettings.prepare(settings.root, {}).secrets == settings.secrets
    assert SandboxSettings.prepare(tmp_path / "other", {}).secrets != settings.secrets
    assert settings.airflow_password not in repr(settings)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"ports": 1}', "no json"])
def test_a_damaged_file_is_an_error_with_a_remedy(settings: SandboxSettings, text: str) -> None:
    """A settings file that cannot be understood is named, and a new start replaces it."""
    settings.save().write_text(text)
    with pytest.raises(SettingsError, match="make down"):
        SandboxSettings.load(settings.root)
    SandboxSettings.prepare(settings.root, {})


def test_no_sandbox_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    """Where nothing was started the message says how to start it."""
    with pytest.raises(SettingsError, match="make up"):
        SandboxSettings.load(tmp_path)


def test_connections_are_what_airflow_reads(settings: SandboxSettings) -> None:
    """Each connection is JSON that Airflow parses to the sandbox's addresses."""
    from airflow.sdk import Connection

    environment = connection_environment(settings)
    found = {
        name: Connection.from_json(value, conn_id=name.removeprefix("AIRFLOW_CONN_").lower())
        for name, value in environment.items()
        if name.startswith("AIRFLOW_CONN_")
    }
    assert found["AIRFLOW_CONN_AWS_DEFAULT"].extra_dejson["endpoint_url"] == settings.object_store_url
    triton = found["AIRFLOW_CONN_TRITON_STAGING"]
    assert (triton.host, triton.port) == ("127.0.0.1", settings.ports.staging_http)
    assert triton.extra_dejson == {"grpc_port": settings.ports.staging_grpc}
    assert found["AIRFLOW_CONN_KUBERNETES_DEFAULT"].extra_dejson["kube_config_path"] == str(
        settings.kubeconfig
    )
    assert found["AIRFLOW_CONN_SLIPWAY_METRICS"].port == settings.ports.router_admin
    assert found["AIRFLOW_CONN_SLIPWAY_INGRESS"].port == settings.ports.ingress
    mirror = found["AIRFLOW_CONN_SLIPWAY_MIRROR"]
    assert (mirror.host, mirror.port) == ("127.0.0.1", settings.ports.mirror_http)
    assert mirror.extra_dejson == {"grpc_port": settings.ports.mirror_grpc}


def test_the_router_mirrors_to_where_the_comparer_listens(settings: SandboxSettings) -> None:
    """The emulated cluster is told the ports that the connection tells the comparer."""
    kserve = cluster_configuration(settings)["kserve"]
    assert isinstance(kserve, dict)
    assert kserve["mirror"] == {
        "http_port": settings.ports.mirror_http,
        "grpc_port": settings.ports.mirror_grpc,
    }


def test_what_the_caller_has_set_for_a_real_cloud_does_not_get_in(settings: SandboxSettings) -> None:
    """Credentials, kubeconfigs and Airflow settings of the caller never reach the sandbox's processes."""
    caller = {
        "AWS_PROFILE": "production",
        "AWS_ACCESS_KEY_ID": "AKIA",
        "KUBECONFIG": "/home/me/.kube/config",
        "AIRFLOW__CORE__EXECUTOR": "CeleryExecutor",
        "PYTHONHOME": "/somewhere",
        "NO_PROXY": "example.org",
        "HOME": "/home/me",
        "PATH": "/usr/bin",
    }
    environment = sandbox_environment(settings, caller)
    assert environment["HOME"] == "/home/me"
    assert environment["PATH"].endswith(":/usr/bin")
    assert environment["NO_PROXY"] == "example.org,127.0.0.1,localhost"
    assert environment["AWS_ACCESS_KEY_ID"] == settings.access_key
    assert environment["SLIPWAY_SANDBOX"] == str(settings.root)
    left = {"AWS_PROFILE", "KUBECONFIG", "AIRFLOW__CORE__EXECUTOR", "PYTHONHOME"} & environment.keys()
    assert left == set()
    assert "AKIA" not in json.dumps(environment)

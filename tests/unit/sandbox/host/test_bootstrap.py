"""The project's own environment: what is installed, and in which order."""

from __future__ import annotations

from pathlib import Path

import pytest

from slipway_sandbox.host import bootstrap


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that would run."""
    ran: list[list[str]] = []
    monkeypatch.setattr(bootstrap, "run", lambda command, _remedy, **_variables: ran.append(command))
    return ran


def test_the_project_is_installed_in_place_without_the_network(
    commands: list[list[str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its build uses what is installed already; what the wheel leaves out is on the environment's path."""
    packages = tmp_path / "environment" / "lib" / "python3.11" / "site-packages"
    packages.mkdir(parents=True)
    monkeypatch.setattr(bootstrap, "PROJECT_ROOT", tmp_path)
    monkeypatch.setattr(bootstrap, "ENVIRONMENT", tmp_path / "environment")
    provider = tmp_path / "provider"
    monkeypatch.setattr(bootstrap, "PROVIDER", provider)
    metadata = provider / "airflow_provider_triton.egg-info"
    metadata.mkdir(parents=True)
    bootstrap.install_project()
    assert (packages / "slipway_checkout.pth").read_text() == f"{tmp_path / 'include'}\n"
    [command] = commands
    assert command[1:3] == ["pip", "install"]
    assert {"--offline", "--no-deps", "--no-build-isolation"} <= set(command)
    assert command[-4:] == ["--editable", str(tmp_path), "--editable", str(provider)]
    assert not metadata.exists()


def test_what_removes_packages_comes_before_what_installs_the_project(
    commands: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`uv pip sync` removes what the requirements do not name."""
    monkeypatch.setattr(bootstrap, "is_usable", lambda _interpreter: True)
    monkeypatch.setattr(bootstrap.shutil, "rmtree", lambda *_, **__: None)
    bootstrap.make_from(
        bootstrap.preflight.choose_interpreter(bootstrap.preflight.inspect_machine(None).interpreters)
    )
    assert [command[2] for command in commands] == ["sync", "install"]


def test_an_environment_is_out_of_date_when_the_projects_entry_points_change(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """pyproject.toml counts as the requirements do."""
    before = bootstrap.requirements_digest()
    changed = tmp_path / "pyproject.toml"
    changed.write_text(bootstrap.PROJECT_FILE.read_text() + "\n")
    monkeypatch.setattr(bootstrap, "PROJECT_FILE", changed)
    assert bootstrap.requirements_digest() != before


def test_the_build_backend_is_among_the_pinned_packages() -> None:
    """Without the network nothing else could be had."""
    assert "setuptools==" in bootstrap.requirement("setuptools")

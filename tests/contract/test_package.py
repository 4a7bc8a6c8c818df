"""The project as a package: installed into an environment of its own, it brings a command that works."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.pods.onnx_models import classifier

ROOT = Path(__file__).parents[2]
UV = Path(sys.executable).with_name("uv")
INSTALL = ["pip", "install", "--quiet", "--offline", "--no-deps", "--no-build-isolation", "--python"]
# What the wheel is built of; the build leaves folders behind, which are none of the project's.
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "include", "plugins")


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources."""
    folder = tmp_path_factory.mktemp("clone")
    for name in SOURCES:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, folder / name)
    return folder


@pytest.fixture(scope="module", params=["in place", "as a wheel"])
def environment(
    request: pytest.FixtureRequest, clone: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """A fresh environment with the project installed; the libraries are those of the tests' own environment."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=True)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    (packages / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    how = ["--editable", str(clone)] if request.param == "in place" else [str(clone)]
    done = subprocess.run(
        [UV, *INSTALL, folder / "bin" / "python", *how],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    yield folder
    shutil.rmtree(clone / "build", ignore_errors=True)


@pytest.fixture(scope="module")
def triton_provider(clone: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the provider that the extra `airflow` names, installed from its sources."""
    folder = tmp_path_factory.mktemp("triton_provider")
    source = clone / "plugins" / "airflow_provider_triton"
    done = subprocess.run(
        [UV, *INSTALL, sys.executable, "--target", folder, str(source)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


def called(environment: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Call the installed command from a folder that has nothing to do with the project."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SLIPWAY"))}
    return subprocess.run(
        [environment / "bin" / "slipway", *arguments],
        env=kept | {"HOME": str(environment), **variables},
        cwd=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_command_is_there_and_helps(environment: Path) -> None:
    """`slipway --help`, from anywhere, without any variable."""
    done = called(environment, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "rollback" in done.stdout


def test_a_release_file_is_checked_and_a_model_begun(environment: Path, tmp_path: Path) -> None:
    """What needs no server works right away, data files of the packages included."""
    (tmp_path / "m.onnx").write_bytes(classifier())
    into = ["--into", str(tmp_path), "--golden", str(tmp_path / "golden.npz")]
    begun = called(environment, "init", "pets", "--onnx", str(tmp_path / "m.onnx"), *into)
    assert begun.returncode == 0, begun.stderr
    linted = called(environment, "lint", str(tmp_path / "pets.yaml"))
    assert (linted.returncode, "fine: pets" in linted.stdout) == (0, True)


def test_a_project_with_a_package_include_of_its_own_works_beside_it(
    environment: Path, triton_provider: Path, tmp_path: Path
) -> None:
    """Astronomer's projects have an `include/`: neither it nor Slipway's packages hide the other.

    Operators need the Triton provider beside Slipway; the command does not.
    """
    package = tmp_path / "project" / "include"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "own.py").write_text("ANSWER = 42\n")
    (tmp_path / "pets.yaml").write_text("model: pets\nsource: {format: onnx}\n")
    path = str(package.parent)
    helped = called(environment, "--help", PYTHONPATH=path)
    assert (helped.returncode, helped.stderr) == (0, "")
    linted = called(environment, "lint", str(tmp_path / "pets.yaml"), PYTHONPATH=path)
    assert (linted.returncode, "fine: pets" in linted.stdout) == (0, True), linted.stderr
    operators = "slipway.operators.admission.admit, slipway.operators.convert"
    program = f"import include.own, {operators}; print(include.own.ANSWER)"
    done = subprocess.run(
        [environment / "bin" / "python", "-c", program],
        cwd=tmp_path,
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.pathsep.join([path, str(triton_provider)]),
            "AIRFLOW_HOME": str(tmp_path / "airflow"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        },
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["42"]), done.stderr


def test_without_configuration_the_next_step_is_told(environment: Path) -> None:
    """Exit code 2, and no traceback."""
    done = called(environment, "list")
    assert done.returncode == 2
    assert "SLIPWAY_AIRFLOW_URL" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_packages_hold_their_data_and_nothing_of_the_sandbox(environment: Path) -> None:
    """Templates and styles come along; tests, DAGs, the sandbox and the Triton provider do not."""
    program = (
        "import importlib.util; print(importlib.util.find_spec('airflow_provider_triton')); "
        "import slipway, slipway_core.reports as reports; from pathlib import Path; "
        "print(len(list(Path(reports.__file__).parent.rglob('*.j2')))); "
        "print((Path(slipway.__file__).parent / 'cli' / 'main.py').is_file())"
    )
    done = subprocess.run(
        [environment / "bin" / "python", "-c", program],
        cwd=environment,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    provider, templates, has_main = done.stdout.split()
    assert provider == "None", "the command needs no Triton provider"
    assert int(templates) == len(list((ROOT / "include/slipway_core/reports").rglob("*.j2")))
    assert has_main == "True"
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(environment)}))
    if (packages / "slipway").is_dir():
        assert not (packages / "slipway_sandbox").exists()
        assert not {"tests", "dags", "benchmarks"} & {one.name for one in packages.iterdir()}

from __future__ import annotations

import socket
import sys
from collections.abc import Mapping
from dataclasses import replace

import pytest

from slipway_sandbox.host.preflight import (
    Interpreter,
    Machine,
    Problem,
    check_machine,
    choose_interpreter,
    inspect_interpreter,
    main,
    port_is_free,
)

GOOD_PYTHON = Interpreter("/usr/bin/python3.11", "3.11.7", "/usr/lib/libpython3.11.so.1.0", True, True)
GOOD_MACHINE = Machine("Linux", "x86_64", (2, 36), (GOOD_PYTHON,), 50.0, 8.0, {}, lambda port: True)


def problems(machine: Machine) -> list[Problem]:
    return [finding for finding in check_machine(machine) if finding.problem]


def only_problem(machine: Machine) -> Problem:
    found = problems(machine)
    assert len(found) == 1, found
    return found[0]


def test_a_good_machine_has_no_problems() -> None:
    """Nothing stands in the way on a Debian 12 with Python 3.11."""
    assert problems(GOOD_MACHINE) == []


@pytest.mark.parametrize(
    ("system", "architecture", "words"),
    [
        ("Darwin", "arm64", "macOS"),
        ("Windows", "AMD64", "Windows"),
        ("Linux", "aarch64", "aarch64"),
    ],
)
def test_other_platforms_are_named_with_a_remedy(system: str, architecture: str, words: str) -> None:
    """A platform that cannot run it is named in one sentence, and nothing else about it is looked at."""
    finding = only_problem(replace(GOOD_MACHINE, system=system, architecture=architecture, glibc=None))
    assert finding.fatal
    assert words in str(finding.problem)


@pytest.mark.parametrize("glibc", [(2, 31), (2, 34), None])
def test_an_old_or_missing_glibc_stops_the_set_up(glibc: tuple[int, int] | None) -> None:
    """A C library that Triton cannot use is named together with the version it needs."""
    finding = only_problem(replace(GOOD_MACHINE, glibc=glibc))
    assert finding.fatal
    assert "2.35" in str(finding.problem)


def test_a_python_of_another_version_is_not_enough() -> None:
    """Where there is only another Python, it is shown and the remedy names the versions that work."""
    other = replace(GOOD_PYTHON, version="3.13.1")
    finding = only_problem(replace(GOOD_MACHINE, interpreters=(other,)))
    assert finding.fatal
    assert "3.13.1" in str(finding.problem)
    assert "3.11 or 3.12" in str(finding.problem)


def test_a_python_without_its_library_is_a_note_for_uv_may_bring_one() -> None:
    """A missing libpython does not stop the set-up, but says what happens and which package helps."""
    bare = replace(GOOD_PYTHON, libpython=None)
    finding = only_problem(replace(GOOD_MACHINE, interpreters=(bare,)))
    assert not finding.fatal
    assert "install the package libpython3.11" in str(finding.problem)


def test_a_python_that_cannot_make_environments_names_the_package() -> None:
    """Without ensurepip and pip the remedy is the package that brings venv."""
    bare = replace(GOOD_PYTHON, has_venv=False, has_pip=False)
    finding = only_problem(replace(GOOD_MACHINE, interpreters=(bare,)))
    assert finding.fatal
    assert "python3.11-venv" in str(finding.problem)


def test_an_interpreter_with_its_library_is_preferred() -> None:
    """The first Python with a shared library is taken, or else the first that makes environments."""
    bare = replace(GOOD_PYTHON, executable="/a", libpython=None)
    whole = replace(GOOD_PYTHON, executable="/b", version="3.12.3")
    unfit = replace(GOOD_PYTHON, executable="/c", version="3.10.9")
    assert choose_interpreter((unfit, bare, whole)) == whole
    assert choose_interpreter((unfit, bare)) == bare
    assert choose_interpreter((unfit,)) is None


def test_too_little_disk_stops_and_little_memory_is_noted() -> None:
    """Disk is needed; memory is only advised."""
    assert only_problem(replace(GOOD_MACHINE, free_disk_gb=1.2)).fatal
    assert not only_problem(replace(GOOD_MACHINE, memory_gb=1.0)).fatal


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"SLIPWAY_PORT_AIRFLOW": "http"}, "is not a port"),
        ({"SLIPWAY_PORT_AIRFLOW": "80"}, "is not a port"),
        ({"SLIPWAY_PORT_AIRFLOW": "65536"}, "is not a port"),
        ({"SLIPWAY_PORT_AIRFLOW": "9000", "SLIPWAY_PORT_CLUSTER": "9000"}, "given twice"),
        ({"SLIPWAY_PORT_AIRFLOW": "8080"}, "Port 8080 (SLIPWAY_PORT_AIRFLOW) is in use"),
    ],
)
def test_a_port_that_cannot_be_had_is_named_with_its_variable(
    environment: Mapping[str, str], words: str
) -> None:
    """A pinned port that is no port, taken, or given twice is a problem that names port and variable."""
    machine = replace(GOOD_MACHINE, environment=environment, port_is_free=lambda port: port != 8080)
    finding = only_problem(machine)
    assert finding.fatal
    assert words in str(finding.problem)
    assert "SLIPWAY_PORT_AIRFLOW" in str(finding.problem)


def test_a_listening_port_is_not_free() -> None:
    """A port on which somebody listens is seen as taken, and is free again afterwards."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert not port_is_free(port)
    assert port_is_free(port)


def test_this_interpreter_describes_itself() -> None:
    """An interpreter is asked by running it; what does not run is passed over."""
    found = inspect_interpreter(sys.executable)
    assert found is not None
    assert found.minor == "{}.{}".format(*sys.version_info[:2])
    assert inspect_interpreter("/bin/false") is None
    assert inspect_interpreter("/does/not/exist") is None


def test_a_named_python_that_does_not_exist_stops(capsys: pytest.CaptureFixture[str]) -> None:
    """`--python` with something that is no Python ends with exit code 1 and says so."""
    assert main(["--python", "/does/not/exist"]) == 1
    assert "No Python 3.11 or 3.12" in capsys.readouterr().out

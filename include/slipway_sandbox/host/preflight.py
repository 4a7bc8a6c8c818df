"""Says whether this machine can run Slipway, before anything is installed.

Needs nothing but Python 3.9's standard library. Each thing that stands in the way is one sentence with its
remedy.

    PYTHONPATH=include python3 -m slipway_sandbox.host.preflight [--json]

The exit code is 0 when nothing stands in the way.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import socket
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Callable, Mapping

PROJECT_ROOT = Path(__file__).resolve().parents[3]

GLIBC_MINIMUM = (2, 35)
PYTHON_VERSIONS = ("3.12", "3.11")
FREE_DISK_MINIMUM_GB = 4.0
MEMORY_MINIMUM_GB = 3.0
PROBE_TIMEOUT_S = 30

# Each port of the sandbox and the environment variable that pins it; a port that is not pinned is a free one.
PORT_VARIABLES = {
    "object_store": "SLIPWAY_PORT_OBJECT_STORE",
    "cluster": "SLIPWAY_PORT_CLUSTER",
    "ingress": "SLIPWAY_PORT_INGRESS",
    "router_admin": "SLIPWAY_PORT_ROUTER_ADMIN",
    "staging_http": "SLIPWAY_PORT_STAGING_HTTP",
    "staging_grpc": "SLIPWAY_PORT_STAGING_GRPC",
    "staging_metrics": "SLIPWAY_PORT_STAGING_METRICS",
    "mirror_http": "SLIPWAY_PORT_MIRROR_HTTP",
    "mirror_grpc": "SLIPWAY_PORT_MIRROR_GRPC",
    "airflow": "SLIPWAY_PORT_AIRFLOW",
}

# Run in each interpreter that is considered: what a sandbox needs to know about it.
PROBE = """
import json, os, platform, sys, sysconfig
from importlib.util import find_spec
get = sysconfig.get_config_var
name = "libpython%d.%d.so.1.0" % sys.version_info[:2]
folders = [get("LIBDIR"), os.path.join(get("LIBDIR") or "", get("MULTIARCH") or ""), get("LIBPL"),
           os.path.join(sys.base_prefix, "lib"), "/usr/lib/x86_64-linux-gnu", "/lib/x86_64-linux-gnu",
           "/usr/lib64"]
found = [os.path.join(f, name) for f in folders if f and os.path.exists(os.path.join(f, name))]
print(json.dumps({"executable": sys.executable, "version": platform.python_version(),
                  "implementation": platform.python_implementation(),
                  "libpython": found[0] if found else None, "libpython_name": name,
                  "has_venv": find_spec("venv") is not None and find_spec("ensurepip") is not None,
                  "has_pip": find_spec("pip") is not None}))
"""


@dataclass(frozen=True)
class Interpreter:
    """A Python that was found.

    Its version "3.11.7", the path of its shared library or None, how it can make environments.
    """

    executable: str
    version: str
    libpython: str | None
    has_venv: bool
    has_pip: bool

    @property
    def minor(self) -> str:
        """The part that decides compatibility: 3.11 of 3.11.7."""
        return ".".join(self.version.split(".")[:2])

    @property
    def can_make_environment(self) -> bool:
        """Whether an environment with pip can be made without installing anything on the machine."""
        return self.has_venv or self.has_pip


@dataclass(frozen=True)
class Problem:
    """One thing that was looked at.

    `problem` is a sentence with its remedy, or None; `fatal` ones stop the set-up.
    """

    name: str
    found: str
    problem: str | None = None
    fatal: bool = True


@dataclass(frozen=True)
class Machine:
    """What the checks need to know of the machine.

    Separate from them so that they can be tested with values.
    """

    system: str
    architecture: str
    glibc: tuple[int, int] | None
    interpreters: tuple[Interpreter, ...]
    free_disk_gb: float
    memory_gb: float | None
    environment: Mapping[str, str]
    port_is_free: Callable[[int], bool]


def check_machine(machine: Machine) -> list[Problem]:
    """Return all findings, in the order in which a person would fix them."""
    findings = [_check_platform(machine)]
    if findings[0].problem is None:
        findings.append(_check_glibc(machine))
        findings.extend(_check_python(machine))
    findings.append(_check_disk(machine))
    findings.append(_check_memory(machine))
    findings.extend(_check_ports(machine))
    return findings


def choose_interpreter(interpreters: tuple[Interpreter, ...]) -> Interpreter | None:
    """Return the best one that can make an environment.

    With its shared library if possible, in the order they were found.
    """
    usable = [i for i in interpreters if i.minor in PYTHON_VERSIONS and i.can_make_environment]
    with_library = [i for i in usable if i.libpython]
    return next(iter(with_library or usable), None)


def _check_platform(machine: Machine) -> Problem:
    found = f"{machine.system} {machine.architecture}"
    if machine.system == "Darwin":
        problem = (
            "macOS is not supported: Triton's server is built for Linux only; run this in a Linux x86-64 "
            "virtual machine."
        )
    elif machine.system != "Linux":
        problem = (
            f"{machine.system} is not supported: run this on Linux x86-64 (WSL 2 with Ubuntu 22.04 or "
            "later works too)."
        )
    elif machine.architecture not in ("x86_64", "amd64"):
        problem = (
            f"Processor {machine.architecture} is not supported: the pinned load generator exists for "
            "x86-64 only; use such a machine."
        )
    else:
        return Problem("platform", found)
    return Problem("platform", found, problem)


def _check_glibc(machine: Machine) -> Problem:
    need = "%d.%d" % GLIBC_MINIMUM
    if machine.glibc is not None and machine.glibc >= GLIBC_MINIMUM:
        return Problem("glibc", "%d.%d" % machine.glibc)
    if machine.glibc is None:
        found = "none"
        problem = (
            f"The C library is not glibc: Triton's server needs glibc {need} or later; use Debian 12, "
            "Ubuntu 22.04 or later."
        )
    else:
        found = "%d.%d" % machine.glibc
        problem = (
            f"glibc {found} is too old: Triton's server needs {need} or later; use Debian 12, Ubuntu "
            "22.04 or later."
        )
    return Problem("glibc", found, problem)


def _check_python(machine: Machine) -> list[Problem]:
    chosen = choose_interpreter(machine.interpreters)
    fitting = [i for i in machine.interpreters if i.minor in PYTHON_VERSIONS]
    if chosen is not None:
        found = f"{chosen.version} at {chosen.executable}"
        if chosen.libpython:
            return [Problem("python", found), Problem("libpython", chosen.libpython)]
        problem = (
            f"Python {chosen.version} at {chosen.executable} comes without its shared library "
            f"(libpython{chosen.minor}.so.1.0), "
            f"which Triton's Python backend needs: uv is asked to bring a Python that has it; if it cannot, "
            f"install the package libpython{chosen.minor}."
        )
        return [Problem("python", found), Problem("libpython", "none", problem, fatal=False)]
    if fitting:
        one = fitting[0]
        problem = (
            f"Python {one.version} at {one.executable} has neither venv with ensurepip nor pip: "
            f"install the package python{one.minor}-venv (on Debian and Ubuntu: apt-get install "
            f"python{one.minor}-venv)."
        )
        return [Problem("python", one.version, problem)]
    seen = ", ".join(f"{i.version} at {i.executable}" for i in machine.interpreters) or "none"
    problem = (
        f"No Python 3.11 or 3.12 on PATH (found: {seen}): install one, or name it with `make … "
        "PYTHON=/path/to/python3.11`."
    )
    return [Problem("python", seen, problem)]


def _check_disk(machine: Machine) -> Problem:
    found = f"{machine.free_disk_gb:.1f} GB free"
    problem = None
    if machine.free_disk_gb < FREE_DISK_MINIMUM_GB:
        problem = (
            f"Only {found} on the project's disk: setup needs {FREE_DISK_MINIMUM_GB:.0f} GB; free some "
            "space or move the project."
        )
    return Problem("disk", found, problem)


def _check_memory(machine: Machine) -> Problem:
    if machine.memory_gb is None:
        return Problem("memory", "unknown")
    found = f"{machine.memory_gb:.1f} GB available"
    problem = None
    if machine.memory_gb < MEMORY_MINIMUM_GB:
        problem = (
            f"Only {found}: Airflow, three Tritons and the rest use up to {MEMORY_MINIMUM_GB:.0f} GB; "
            "close something if it gets slow."
        )
    return Problem("memory", found, problem, fatal=False)


def _check_ports(machine: Machine) -> list[Problem]:
    findings = []
    pinned: dict[int, str] = {}
    for variable in PORT_VARIABLES.values():
        text = machine.environment.get(variable, "").strip()
        if not text:
            continue
        problem = None
        port = int(text) if text.isascii() and text.isdigit() else 0
        if not 1024 <= port <= 65535:
            problem = (
                f"{variable}={text} is not a port: give a number from 1024 to 65535, or unset it and a "
                "free port is taken."
            )
        elif port in pinned:
            problem = (
                f"Port {port} is given twice, by {pinned[port]} and {variable}: give each its own, or "
                "unset one."
            )
        elif not machine.port_is_free(port):
            problem = (
                f"Port {port} ({variable}) is in use on 127.0.0.1: end what listens there, give another, "
                f"or unset {variable} and a free port is taken."
            )
        pinned[port] = variable
        findings.append(Problem("port", f"{variable}={text}", problem))
    return findings


def port_is_free(port: int) -> bool:
    """Return whether a server could listen on 127.0.0.1:port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def inspect_interpreter(command: str) -> Interpreter | None:
    """Return what a Python says of itself, or None when it does not run or is not CPython."""
    try:
        answer = subprocess.run(
            [command, "-I", "-c", PROBE], capture_output=True, text=True, timeout=PROBE_TIMEOUT_S, check=False
        )
        facts = json.loads(answer.stdout) if answer.returncode == 0 else None
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return None
    if facts is None or facts["implementation"] != "CPython":
        return None
    return Interpreter(
        facts["executable"], facts["version"], facts["libpython"], facts["has_venv"], facts["has_pip"]
    )


def find_interpreters(preferred: str | None = None) -> tuple[Interpreter, ...]:
    """Return the Pythons on this machine that answer.

    The preferred one, or else python3, python3.12, python3.11 and this one.
    """
    names = (
        [preferred] if preferred else ["python3", *(f"python{v}" for v in PYTHON_VERSIONS), sys.executable]
    )
    paths = [path for path in (shutil.which(name) for name in names) if path]
    found = [i for i in (inspect_interpreter(path) for path in dict.fromkeys(paths)) if i]
    return tuple({i.executable: i for i in found}.values())


def inspect_machine(preferred_python: str | None = None) -> Machine:
    """Return the machine this runs on."""
    library, version = platform.libc_ver()
    numbers = version.split(".")[:2]
    glibc = (int(numbers[0]), int(numbers[1])) if library == "glibc" and len(numbers) == 2 else None
    return Machine(
        system=platform.system(),
        architecture=platform.machine(),
        glibc=glibc,
        interpreters=find_interpreters(preferred_python),
        free_disk_gb=shutil.disk_usage(PROJECT_ROOT).free / 1e9,
        memory_gb=_memory_available_gb(),
        environment=os.environ,
        port_is_free=port_is_free,
    )


def _memory_available_gb() -> float | None:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024 / 1e9
    return None


def report(findings: list[Problem]) -> int:
    """Print the findings; return the exit code: 1 when something fatal stands in the way."""
    for finding in findings:
        mark = "ok  " if finding.problem is None else ("STOP" if finding.fatal else "note")
        print(f"  {mark} {finding.name:<10} {finding.problem or finding.found}")
    return 1 if any(f.problem and f.fatal for f in findings) else 0


def main(arguments: list[str] | None = None) -> int:
    """Check this machine and print what was found."""
    parser = argparse.ArgumentParser(
        description="Checks whether this machine can run Slipway; installs nothing."
    )
    parser.add_argument("--python", help="the Python to use, instead of those found on PATH")
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    options = parser.parse_args(arguments)
    machine = inspect_machine(options.python)
    findings = check_machine(machine)
    if not options.json:
        return report(findings)
    print(json.dumps([asdict(f) for f in findings], indent=2))
    return 1 if any(f.problem and f.fatal for f in findings) else 0


if __name__ == "__main__":
    sys.exit(main())

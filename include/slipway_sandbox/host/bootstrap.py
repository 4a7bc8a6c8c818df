"""Makes the project's own environment, `.venv`, from nothing but a Python.

    python3 -m slipway_sandbox.host.bootstrap [--python /path/to/python3.11]

Preflight first. Then an environment with uv in it (brought by pip, at the version and hashes of
requirements-dev.txt), and from there on everything by `uv pip sync --require-hashes`. Last the project itself and its
Triton provider, in place: that makes the command `slipway`, and Airflow knows the connection type `triton`. What is
there and up to date is left alone.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from slipway_sandbox.host import preflight

PROJECT_ROOT = preflight.PROJECT_ROOT
REQUIREMENTS = PROJECT_ROOT / "requirements-dev.txt"
PROJECT_FILE = PROJECT_ROOT / "pyproject.toml"
PROVIDER = PROJECT_ROOT / "plugins" / "airflow_provider_triton"
ENVIRONMENT = PROJECT_ROOT / ".venv"
STAMP = ENVIRONMENT / "slipway.stamp"
MANAGED_PYTHON = "3.11"


class BootstrapError(Exception):
    """The environment could not be made; the message says what to do."""


def requirements_digest() -> str:
    """Return a digest that changes when anything that is installed changes."""
    installed = (REQUIREMENTS, PROJECT_FILE, PROVIDER / "pyproject.toml")
    return hashlib.sha256(b"".join(file.read_bytes() for file in installed)).hexdigest()


def is_current() -> bool:
    """Return whether the environment is there, works, and is what requirements-dev.txt and pyproject.toml say."""
    try:
        stamped = STAMP.read_text(encoding="ascii").strip() == requirements_digest()
    except OSError:
        return False
    return stamped and preflight.inspect_interpreter(str(ENVIRONMENT / "bin" / "python")) is not None


def is_usable(interpreter: preflight.Interpreter) -> bool:
    """Return whether the environment only needs other packages: it works, has uv, and a Python like this one."""
    found = preflight.inspect_interpreter(str(ENVIRONMENT / "bin" / "python"))
    if found is None or found.libpython is None or not (ENVIRONMENT / "bin" / "uv").exists():
        return False
    return found.minor == interpreter.minor or interpreter.libpython is None


def requirement(name: str) -> str:
    """Return the lines of one package, with its hashes, as they stand in requirements-dev.txt."""
    lines = iter(REQUIREMENTS.read_text(encoding="utf-8").splitlines())
    for line in lines:
        if line.startswith(f"{name}=="):
            taken = [line]
            while taken[-1].endswith("\\"):
                taken.append(next(lines))
            return "\n".join(taken) + "\n"
    raise BootstrapError(
        f"{REQUIREMENTS} does not pin {name}; restore that file, or run `make requirements`."
    )


def run(command: list[str], remedy: str, **variables: str) -> None:
    """Run a command, its output visible; raises BootstrapError with the remedy when it fails."""
    outcome = subprocess.run(command, env={**os.environ, **variables}, check=False)
    if outcome.returncode != 0:
        raise BootstrapError(
            f"`{' '.join(command[:4])} …` failed with exit code {outcome.returncode}. {remedy}"
        )


def make_environment(interpreter: preflight.Interpreter) -> None:
    """Make an empty environment with uv in it."""
    remedy = "Look at the lines above; is the package index reachable?"
    with tempfile.TemporaryDirectory(prefix="slipway-") as folder:
        pinned = Path(folder) / "uv.txt"
        pinned.write_text(requirement("uv"), encoding="utf-8")
        install = ["install", "--quiet", "--require-hashes", "--disable-pip-version-check", "-r", str(pinned)]
        if interpreter.has_venv:
            run([interpreter.executable, "-m", "venv", "--clear", str(ENVIRONMENT)], remedy)
            run([str(ENVIRONMENT / "bin" / "python"), "-m", "pip", *install], remedy)
        else:
            # Debian ships venv without ensurepip; where pip itself is there, it can serve the environment
            # from outside.
            run([interpreter.executable, "-m", "venv", "--clear", "--without-pip", str(ENVIRONMENT)], remedy)
            run([interpreter.executable, "-m", "pip", "--python", str(ENVIRONMENT), *install], remedy)


def bring_python() -> None:
    """Replace the environment by one of a Python that uv brings, which has its shared library.

    Raises BootstrapError.
    """
    remedy = (
        f"uv could not bring Python {MANAGED_PYTHON}: install the package libpython{MANAGED_PYTHON} "
        f"(on Debian and Ubuntu: apt-get install libpython{MANAGED_PYTHON}), or name another Python with "
        "PYTHON=."
    )
    with tempfile.TemporaryDirectory(prefix="slipway-") as folder:
        uv = shutil.copy2(ENVIRONMENT / "bin" / "uv", folder)
        pythons = str(PROJECT_ROOT / ".sandbox" / "python")
        run([uv, "python", "install", "--no-bin", MANAGED_PYTHON], remedy, UV_PYTHON_INSTALL_DIR=pythons)
        command = [
            uv,
            "venv",
            "--quiet",
            "--clear",
            "--managed-python",
            "--python",
            MANAGED_PYTHON,
            str(ENVIRONMENT),
        ]
        run(command, remedy, UV_PYTHON_INSTALL_DIR=pythons)
        python = str(ENVIRONMENT / "bin" / "python")
        pinned = Path(folder) / "uv.txt"
        pinned.write_text(requirement("uv"), encoding="utf-8")
        run(
            [uv, "pip", "install", "--quiet", "--python", python, "--require-hashes", "-r", str(pinned)],
            remedy,
        )
    found = preflight.inspect_interpreter(python)
    if found is None or found.libpython is None:
        raise BootstrapError(f"The Python that uv brought has no shared library either. {remedy}")


def synchronise() -> None:
    """Install what requirements-dev.txt pins, and removes what it does not."""
    python = str(ENVIRONMENT / "bin" / "python")
    uv = str(ENVIRONMENT / "bin" / "uv")
    command = [uv, "pip", "sync", "--require-hashes", "--python", python, str(REQUIREMENTS)]
    run(command, "Look at the lines above; is the package index reachable?")


def install_project() -> None:
    """Install the project and its Triton provider where they lie, without dependencies: nothing is downloaded."""
    python = str(ENVIRONMENT / "bin" / "python")
    uv = str(ENVIRONMENT / "bin" / "uv")
    in_place = [
        "--no-deps",
        "--no-build-isolation",
        "--editable",
        str(PROJECT_ROOT),
        "--editable",
        str(PROVIDER),
    ]
    run(
        [uv, "pip", "install", "--quiet", "--offline", "--python", python, *in_place],
        "Look at the lines above; each pyproject.toml must be the project's own.",
    )
    # What the wheel leaves out: `python -m slipway_sandbox…`, which errors name, works in a checkout from any folder.
    for packages in (ENVIRONMENT / "lib").glob("python3*/site-packages"):
        (packages / "slipway_checkout.pth").write_text(f"{PROJECT_ROOT / 'include'}\n", encoding="utf-8")
    # The environment has the metadata now; a second copy beside the source would only grow old.
    shutil.rmtree(PROVIDER / "airflow_provider_triton.egg-info", ignore_errors=True)


def make_from(interpreter: preflight.Interpreter | None) -> None:
    """Make the whole environment; raises BootstrapError."""
    if interpreter is None:
        raise BootstrapError("No Python found to create an environment with; see the preflight above.")
    if is_usable(interpreter):
        print("Environment .venv brought up to date")
    else:
        print(f"Environment .venv from Python {interpreter.version}")
        make_environment(interpreter)
        if interpreter.libpython is None:
            bring_python()
    synchronise()
    install_project()


def main(arguments: list[str] | None = None) -> int:
    """Make the environment unless it is current; return the exit code."""
    parser = argparse.ArgumentParser(description="Makes Slipway's environment in .venv.")
    parser.add_argument("--python", default="", help="the Python to use, instead of those found on PATH")
    options = parser.parse_args(arguments)
    if is_current():
        STAMP.touch()
        return 0
    started = time.monotonic()
    print("Preflight")
    machine = preflight.inspect_machine(options.python or None)
    if code := preflight.report(preflight.check_machine(machine)):
        return code
    try:
        make_from(preflight.choose_interpreter(machine.interpreters))
    except BootstrapError as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    STAMP.write_text(requirements_digest() + "\n", encoding="ascii")
    print(f"Environment ready in {time.monotonic() - started:.0f} s.")
    return 0


if __name__ == "__main__":
    sys.exit(main())

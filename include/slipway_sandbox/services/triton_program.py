"""The program `tritonserver` of an emulated pod, whose image has Triton's as its base on a cluster.

It becomes the wheel's server, with the arguments that the pod gives and those that this server needs to run here.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from slipway_core.errors import SlipwayError
from slipway_sandbox.services.shell_names import ShellNames
from slipway_sandbox.services.triton_install import TritonInstall

_FOLDERS = ("--model-repository", "--model-store")


def main() -> None:
    """Become the server; end with code 1 where it is not set up."""
    try:
        # The images lie beside each other: that of the pod, whose Python runs this, and that of the server.
        install = TritonInstall.found(Path(sys.prefix).parent / "triton")
    except SlipwayError as error:
        raise SystemExit(f"tritonserver: {error}") from error
    names = ShellNames()
    directory = names.name(install.directory)
    options = [
        f"--backend-directory={directory}/backends",
        f"--cache-directory={directory}/caches",
        "--disable-auto-complete-config",
        "--allow-gpu-metrics=false",
    ]
    program = f"{directory}/bin/tritonserver"
    argv = [program, *(_named(word, names) for word in sys.argv[1:]), *options]
    environment = install.environment(os.environ, names.name)
    names.inherit()
    os.execve(program, argv, environment)  # noqa: S606


def _named(word: str, names: ShellNames) -> str:
    """Return an argument, with the folder that it may name under a name for Triton."""
    option, equals, value = word.partition("=")
    return f"{option}={names.name(value)}" if equals and option in _FOLDERS and "://" not in value else word

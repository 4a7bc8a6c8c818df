"""The program `tritonserver` of an emulated pod, whose image has Triton's as its base on a cluster.

It becomes the wheel's server, with the arguments that the pod gives and those that this server needs to run here.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from include.model_release.errors import SlipwayError
from include.sandbox.services.triton_install import TritonInstall


def main() -> None:
    """Become the server; end with code 1 where it is not set up."""
    try:
        # The images lie beside each other: that of the pod, whose Python runs this, and that of the server.
        install = TritonInstall.found(Path(sys.prefix).parent / "triton")
    except SlipwayError as error:
        raise SystemExit(f"tritonserver: {error}") from error
    program = str(install.directory / "bin" / "tritonserver")
    options = [
        f"--backend-directory={install.directory / 'backends'}",
        f"--cache-directory={install.directory / 'caches'}",
        "--disable-auto-complete-config",
        "--allow-gpu-metrics=false",
    ]
    os.execve(program, [program, *sys.argv[1:], *options], install.environment(os.environ))  # noqa: S606

"""A pod's program as a process of this machine, with its image's environment, that may write to its volume alone."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence

from benchmarks.sandbox import PROJECT_ROOT
from slipway_sandbox.cluster.node.container_process import BASE_IMAGE
from slipway_sandbox.host.child_process import end_with_parent
from slipway_sandbox.host.images import IMAGE_VARIABLES, build_image, image_name

POD_LIMIT_S = 600
_SCRIPTS = PROJECT_ROOT / "include" / "pod_scripts"
_READ_ONLY = PROJECT_ROOT / "include" / "slipway_sandbox" / "cluster" / "node" / "read_only.py"


def run_pod(image: str, command: Sequence[str], credentials: Mapping[str, str]) -> str:
    """Run the program with its arguments to its end; return the last of what it printed.

    :param image: a reference, such as slipway/onnx:0.1.0.
    :raises subprocess.TimeoutExpired: it did not end within `POD_LIMIT_S`.
    """
    home = build_image(image_name(image), report=lambda *_: None)
    program, *arguments = command
    with tempfile.TemporaryDirectory(prefix="slipway-pod-") as scratch:
        # The smoke test's servers keep what they share below /tmp, as where a volume is mounted there.
        writable = [scratch, tempfile.gettempdir()]
        done = subprocess.run(
            [
                sys.executable,
                "-I",
                "-S",
                str(_READ_ONLY),
                *writable,
                "--",
                str(_SCRIPTS / program),
                *arguments,
            ],
            env={
                **IMAGE_VARIABLES,
                **credentials,
                "PATH": os.pathsep.join([str(_SCRIPTS), str(home / "bin"), str(BASE_IMAGE), os.defpath]),
                "TMPDIR": scratch,
                "HOME": scratch,
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=POD_LIMIT_S,
            preexec_fn=end_with_parent,
        )
    return (done.stdout + done.stderr)[-2000:]


def train(image: str, program: str, *arguments: str) -> None:
    """Run a program of `training/` with an image's Python.

    :raises subprocess.CalledProcessError: it fails.
    """
    script = PROJECT_ROOT / "benchmarks" / "good_models" / "training" / program
    home = build_image(image, report=lambda *_: None)
    subprocess.run(
        [str(home / "bin" / "python"), "-W", "ignore", str(script), *arguments],
        check=True,
        capture_output=True,
        text=True,
        timeout=POD_LIMIT_S,
        preexec_fn=end_with_parent,
    )

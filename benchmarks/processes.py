"""Programs that benchmarks start, each in a process of its own, and S3 as they reach it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.figure import MeasureError
from benchmarks.sandbox import PROJECT_ROOT, own_environment
from slipway_sandbox.host.ports import LOOPBACK

_LIMIT_S = 900
_PYTHONPATH = ":".join(
    str(PROJECT_ROOT / folder) for folder in ("", "plugins", "include", "include/pod_scripts")
)
_IN_MEMORY = "/dev/shm"  # noqa: S108 - where moto keeps the bytes
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "slipway-bench",
    "AWS_SECRET_ACCESS_KEY": "slipway-bench",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}


def run(command: list[str], stdin: str = "") -> str:
    """Return what the command prints; MeasureError with its end when it fails."""
    try:
        done = subprocess.run(
            command,
            env=own_environment({**CREDENTIALS, "PYTHONPATH": _PYTHONPATH}),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MeasureError(f"{Path(command[0]).name} could not be run: {error}") from error
    if done.returncode != 0:
        raise MeasureError(f"{Path(command[0]).name} failed:\n{(done.stderr or done.stdout)[-1500:]}")
    return done.stdout


@contextmanager
def server(command: list[str]) -> Iterator[str]:
    """Give the address of a program that prints its port and serves until it is ended."""
    program = subprocess.Popen(
        command,
        env=own_environment({**CREDENTIALS, "TMPDIR": _IN_MEMORY, "PYTHONPATH": _PYTHONPATH}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert program.stdout is not None
        yield f"http://{LOOPBACK}:{int(program.stdout.readline())}"
    except ValueError as error:
        raise MeasureError(f"{command[-1]} did not start: {error}") from error
    finally:
        program.kill()
        program.communicate()


def s3_client(endpoint: str, config: Any = None) -> Any:
    """Return a client of the server at this address.

    :param config: botocore's; None: its defaults.
    """
    import boto3

    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name=CREDENTIALS["AWS_DEFAULT_REGION"],
        aws_access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
        config=config,
    )


def peak_mib() -> float:
    """Return the most memory that this process has held, in MiB.

    From `VmHWM`, see proc(5): `ru_maxrss` of a process that was started by a larger one is that one's.
    """
    status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024

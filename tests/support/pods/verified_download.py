"""How the tests run the verifying storage initializer: as KServe does, over an S3 of its own that can be stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from slipway_core.publishing.manifest import FileEntry, Manifest
from slipway_core.tensors import ModelSignature
from slipway_sandbox.host.ports import LOOPBACK, free_port

POD_SCRIPTS = Path(__file__).resolve().parents[3] / "include" / "pod_scripts"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "slipway-test", "AWS_SECRET_ACCESS_KEY": "slipway-test"}
BUCKET = "served"
RUN_LIMIT_S = 120


@dataclass
class Initializer:
    """Runs `verify_repository.py SOURCE DESTINATION` with the image's Python and what the pod's environment holds."""

    image: Path
    endpoint: str
    destination: Path
    settings: dict[str, str] = field(default_factory=dict)

    def environment(self) -> dict[str, str]:
        """What the container's processes see."""
        path = os.pathsep.join([str(POD_SCRIPTS), str(self.image / "bin"), os.defpath])
        region = {"AWS_ENDPOINT_URL": self.endpoint, "AWS_DEFAULT_REGION": "us-east-1"}
        return {"PATH": path, **CREDENTIALS, **region, **self.settings}

    def start(self, source: str) -> subprocess.Popen[str]:
        """Starts it."""
        program = str(POD_SCRIPTS / "verify_repository.py")
        return subprocess.Popen(
            [program, source, str(self.destination)],
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, source: str) -> tuple[int, str]:
        """Runs it to its end; returns the exit code and what it said on standard error."""
        process = self.start(source)
        try:
            _, output = process.communicate(timeout=RUN_LIMIT_S)
        finally:
            process.kill()
        return process.returncode, output

    def files(self) -> dict[str, bytes]:
        """What a server would find: every file but hidden ones."""
        found = {}
        for path in self.destination.rglob("*"):
            name = path.relative_to(self.destination).as_posix()
            if path.is_file() and not name.startswith("."):
                found[name] = path.read_bytes()
        return found

    def staged(self) -> int:
        """How many files lie in the hidden folder."""
        return sum(1 for path in (self.destination / ".slipway-staged").rglob("*") if path.is_file())


@contextmanager
def own_s3(folder: Path) -> Iterator[tuple[str, subprocess.Popen[bytes], Any]]:
    """An S3 as a process of its own: its address, the process, a client, and a bucket."""
    port = free_port()
    with (folder / "s3.log").open("wb") as log:
        command = [sys.executable, "-m", "moto.server", "-H", LOOPBACK, "-p", str(port)]
        process = subprocess.Popen(command, stdout=log, stderr=log)
    endpoint = f"http://{LOOPBACK}:{port}"
    client = boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id="slipway-test",
        aws_secret_access_key="slipway-test",
        config=Config(retries={"total_max_attempts": 30, "mode": "standard"}),
    )
    try:
        client.create_bucket(Bucket=BUCKET)
        yield endpoint, process, client
    finally:
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait(60)


def put_version(client: Any, contents: dict[str, bytes]) -> str:
    """Put version 1 of digits into the bucket, unsigned; return its storageUri."""
    files = {"digits/config.pbtxt": b'name: "digits"', **contents}
    for path, content in files.items():
        client.put_object(Bucket=BUCKET, Key=f"models/digits/1/repository/{path}", Body=content)
    manifest = Manifest.model_validate(
        {
            "model": "digits",
            "version": 1,
            "created_at": "2026-01-02T00:00:00Z",
            "files": {path: FileEntry.of(content) for path, content in files.items()},
            "config_sha256": "0" * 64,
            "signature": ModelSignature(inputs=(), outputs=()),
        }
    )
    client.put_object(Bucket=BUCKET, Key="models/digits/1/manifest.json", Body=manifest.to_bytes())
    return f"s3://{BUCKET}/models/digits/1/repository"

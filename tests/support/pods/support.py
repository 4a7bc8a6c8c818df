"""What the tests of the pods' programs share: an S3 with shorthands, and how a pod's program is run."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from slipway_core.publishing.conversion_result import parse_converted
from slipway_sandbox.cluster.node.container_process import BASE_IMAGE
from slipway_sandbox.host.images import IMAGE_VARIABLES

PROJECT_ROOT = Path(__file__).resolve().parents[3]
POD_SCRIPTS = PROJECT_ROOT / "include" / "pod_scripts"
READ_ONLY = PROJECT_ROOT / "include" / "slipway_sandbox" / "cluster" / "node" / "read_only.py"
BUCKET = "slipway"
RUN_LIMIT_S = 150


def npz(**arrays: Any) -> bytes:
    """The arrays as the content of an .npz."""
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def train(image: Path, program: str, folder: Path) -> None:
    """Runs a program of `training/` with an image's Python: it writes models and golden sets to a folder."""
    script = Path(__file__).parent / "training" / program
    command = [str(image / "bin" / "python"), "-W", "ignore", str(script), str(folder)]
    subprocess.run(command, check=True, capture_output=True, timeout=RUN_LIMIT_S)


@dataclass
class PodRun:
    """How a pod's program ended, and the result it left, if any."""

    exit_code: int
    stdout: str
    stderr: str
    result: dict[str, Any] | None

    @property
    def error(self) -> dict[str, Any]:
        assert self.result is not None, self.stderr
        error = self.result["error"]
        assert isinstance(error, dict)
        return error


@dataclass
class ObjectStore:
    """An S3 and its address, with shorthands for what tests put there and read."""

    endpoint: str
    client: Any = field(repr=False)

    def url(self, key: str) -> str:
        return f"s3://{BUCKET}/{key}"

    def put(self, key: str, body: bytes) -> str:
        self.client.put_object(Bucket=BUCKET, Key=key, Body=body)
        return self.url(key)

    def put_arrays(self, key: str, **arrays: Any) -> str:
        return self.put(key, npz(**arrays))

    def read(self, key: str) -> bytes:
        return bytes(self.client.get_object(Bucket=BUCKET, Key=key)["Body"].read())

    def put_folder(self, prefix: str, folder: Path) -> str:
        """Puts every file of a folder under a prefix; returns the prefix's address."""
        for path in folder.iterdir():
            if path.is_file():
                self.put(f"{prefix}/{path.name}", path.read_bytes())
        return self.url(prefix)

    def keys(self, prefix: str) -> set[str]:
        answer = self.client.list_objects_v2(Bucket=BUCKET, Prefix=f"{prefix}/")
        return {entry["Key"].removeprefix(f"{prefix}/") for entry in answer.get("Contents", [])}


def check_software_list(run: PodRun, store: ObjectStore, prefix: str, package: str) -> None:
    """The list of the image's packages lies beside the result, which knows its digest, and in no model repository."""
    listed = store.read(f"{prefix}/sbom.json")
    assert run.result is not None
    digest = hashlib.sha256(listed).hexdigest()
    assert run.result["files"] == [{"file": "sbom.json", "size_bytes": len(listed), "sha256": digest}]
    document = json.loads(listed)
    assert document["bomFormat"] == "CycloneDX"
    assert package in {component["name"] for component in document["components"]}
    model = next(iter(run.result["repository"]["configs"]))
    places = parse_converted(run.result, model, 7).places
    assert {f"repository/{path}" for path in store.keys(f"{prefix}/repository")} == set(places.values())


@dataclass
class Pod:
    """Runs a program of `include/pod_scripts` as its container would: with AWS_* and the image's PATH."""

    image: Path
    store: ObjectStore
    # Folders in which a test's own stand-ins for tools, or what a model does, may leave traces.
    writable: tuple[Path, ...] = ()

    def environment(self, endpoint: str | None = None) -> dict[str, str]:
        """What the container's processes see."""
        return {
            "PATH": os.pathsep.join([str(POD_SCRIPTS), str(self.image / "bin"), str(BASE_IMAGE), os.defpath]),
            "HOME": os.environ.get("HOME", "/"),
            **IMAGE_VARIABLES,
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": endpoint or self.store.endpoint,
        }

    def train(self, program: str, folder: Path) -> None:
        """Runs a program of `training/` with the image's Python."""
        train(self.image, program, folder)

    def run(self, script: str, *arguments: str, prefix: str, endpoint: str | None = None) -> PodRun:
        """Runs it to its end with `--destination` under `prefix`, and reads the result it left there.

        As in the cluster it may write to its volume for temporary files, and nowhere else.
        """
        command = [str(POD_SCRIPTS / script), *arguments, "--destination", self.store.url(prefix)]
        with tempfile.TemporaryDirectory() as scratch:
            writable = [scratch, *map(str, self.writable)]
            done = subprocess.run(
                [sys.executable, "-I", "-S", str(READ_ONLY), *writable, "--", *command],
                env={**self.environment(endpoint), "TMPDIR": scratch, "HOME": scratch},
                capture_output=True,
                text=True,
                check=False,
                timeout=RUN_LIMIT_S,
            )
        written = "result.json" in self.store.keys(prefix)
        result = json.loads(self.store.read(f"{prefix}/result.json")) if written else None
        return PodRun(done.returncode, done.stdout, done.stderr, result)

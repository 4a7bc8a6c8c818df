"""`slipway sample` and `slipway upload`, as a process of their own that writes to the store."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slipway.hooks.s3_store import ModelStoreHook
from tests.support.store.connections import CREDENTIALS, make_bucket, own_connection
from tests.support.store.moto_server import moto_server

LIMIT_S = 240
Slipway = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """moto's S3."""
    with moto_server() as one:
        yield one


@pytest.fixture
def store(endpoint: str, request: pytest.FixtureRequest) -> Iterator[ModelStoreHook]:
    """A bucket of the test's own."""
    name = request.node.name.replace("_", "-")[:63].rstrip("-")
    with own_connection(endpoint) as conn_id:
        yield ModelStoreHook(make_bucket(endpoint, name), conn_id)


@pytest.fixture
def slipway(endpoint: str, store: ModelStoreHook, tmp_path: Path) -> Slipway:
    """The command, as a person without any configuration calls it."""
    program = "import sys; from slipway.cli.main import run; sys.exit(run(sys.argv[1:]))"
    settings = {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": CREDENTIALS["login"],
        "AWS_SECRET_ACCESS_KEY": CREDENTIALS["password"],
        "SLIPWAY_BUCKET": store.bucket,
    }

    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", program, *arguments],
            env={**os.environ, **settings, "HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )

    return call


def test_a_sample_is_the_next_version(slipway: Slipway, store: ModelStoreHook) -> None:
    """It takes the number after the highest that was ever used, and says what comes next and what to expect."""
    store.write("records/digits/7/0000000000-x.json", b"{}")
    done = slipway("sample", "broken")
    assert (done.returncode, done.stderr) == (0, "")
    assert "digits version 8 was uploaded" in done.stdout
    assert "slipway get digits -w" in done.stdout
    assert "the conversion refuses it" in done.stdout
    ready = json.loads(store.require("incoming/digits/8/ready.json", remedy=""))
    assert (ready["version"], ready["start"], set(ready["files"])) == (
        8,
        "automatic",
        {"model.onnx", "golden.npz"},
    )


def test_a_sample_can_be_written_to_a_folder(slipway: Slipway, tmp_path: Path, store: ModelStoreHook) -> None:
    """Nothing is uploaded then."""
    done = slipway("sample", "wrong", "--to", "here")
    assert done.returncode == 0, done.stderr
    assert {path.name for path in (tmp_path / "here").iterdir()} == {"model.onnx", "golden.npz", "ready.json"}
    assert store.entries("incoming/") == []


def test_an_upload_lands_once(slipway: Slipway, tmp_path: Path, store: ModelStoreHook) -> None:
    """The digests are those of the files; a version that has landed is not replaced, and the next number is named."""
    (tmp_path / "model.onnx").write_bytes(b"a model")
    (tmp_path / "golden.npz").write_bytes(b"rows")
    done = slipway("upload", "churn", "2", "model.onnx", "golden.npz", "--accuracy", "0.5", "--by-hand")
    assert done.returncode == 0, done.stderr
    assert "slipway release churn 2 --wait" in done.stdout
    ready = json.loads(store.require("incoming/churn/2/ready.json", remedy=""))
    assert ready["accuracy"] == 0.5
    assert store.read("incoming/churn/2/model.onnx") == b"a model"
    again = slipway("upload", "churn", "2", "model.onnx")
    assert again.returncode == 2
    assert "version 2 of 'churn' was uploaded before" in again.stderr
    assert "upload it as version 3" in again.stderr


def test_two_files_of_one_name_are_refused(slipway: Slipway, tmp_path: Path, store: ModelStoreHook) -> None:
    """One would replace the other below the version's folder."""
    (tmp_path / "a").mkdir()
    for place in (tmp_path, tmp_path / "a"):
        (place / "model.onnx").write_bytes(b"a model")
    done = slipway("upload", "churn", "2", "model.onnx", "a/model.onnx")
    assert done.returncode == 2
    assert "two of the files have the same name" in done.stderr
    assert store.entries("") == []

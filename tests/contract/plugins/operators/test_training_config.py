"""Training's own config.pbtxt: what it names is published with it, and a real Triton serves what was published."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.http as triton_http

from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.publish import PublishModelOperator
from slipway.operators.staging import PrepareStagingOperator
from slipway.registry.registry import ModelRegistry
from slipway.registry.verification import verify_version
from slipway.release_run import ReleaseRun
from slipway_core.errors import InputMissingError, ModelInvalidError
from slipway_core.publishing.manifest import Manifest
from slipway_core.spec.release_file import parse_release_spec
from slipway_sandbox.services.triton import TritonPorts, TritonServer
from tests.support.serving.models import table_model
from tests.support.serving.triton_install import triton_install
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(600)

CONTEXT: Any = {}
TABLE = "model: table\nsource: {format: onnx}\n"
SCALE = "model: scale\nsource: {format: python}\nconversion: {target: python}\n"
LABELS = b"cat\ndog\n"
ROW = np.array([3, 1], dtype="<f4").tobytes()
BASE = """
max_batch_size: 8
input { name: "x" data_type: TYPE_FP32 dims: 2 }
output { name: "y" data_type: TYPE_FP32 dims: 2 label_filename: "labels.txt" }
model_warmup {
  name: "row" batch_size: 1
  inputs { key: "x" value { data_type: TYPE_FP32 dims: 2 input_data_file: "row.bin" } }
}
"""
SIGNATURE = {
    "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 2]}],
    "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, 2]}],
}


def land(store: ModelStoreHook, model: str, files: dict[str, bytes]) -> None:
    """Training leaves these files, the golden set and, last, ready.json."""
    golden = io.BytesIO()
    np.savez(golden, x=np.array([[1, 2]], dtype=np.float32), label=np.zeros(1, np.int64))
    whole = {**files, "golden.npz": golden.getvalue()}
    for name, body in whole.items():
        store.write(f"incoming/{model}/1/{name}", body)
    digests = {name: hashlib.sha256(body).hexdigest() for name, body in whole.items()}
    store.write_json(f"incoming/{model}/1/ready.json", {"model": model, "version": 1, "files": digests})


def convert(store: ModelStoreHook, model: str, files: dict[str, bytes], result: dict[str, Any]) -> None:
    """The converter leaves these files and its result."""
    for name, body in files.items():
        store.write(f"work/{model}/1/convert/{name}", body)
    store.write_json(f"work/{model}/1/convert/result.json", {"signature": SIGNATURE, **result})


def convert_table(store: ModelStoreHook) -> None:
    """The converter leaves one ONNX file."""
    body = table_model(2.0)
    convert(store, "table", {"model.onnx": body}, {"model": described("file", "model.onnx", body)})


def described(key: str, name: str, body: bytes) -> dict[str, Any]:
    """A file as a converter's result has it."""
    return {key: name, "size_bytes": len(body), "sha256": hashlib.sha256(body).hexdigest()}


def publish(store: ModelStoreHook, release_file: str) -> Manifest:
    """Publish version 1 as the DAG does."""
    release_run = release_run_of(store, release_file)
    PublishModelOperator(task_id="publish", release=release_run.model_dump_json()).run(CONTEXT)
    return ModelRegistry(store).require(release_run.model, 1)


def release_run_of(store: ModelStoreHook, release_file: str) -> ReleaseRun:
    """The release of version 1, before which nothing is live."""
    spec = parse_release_spec(release_file, "release.yaml")
    return ReleaseRun(
        release_id="manual__1", model=spec.model, version=1, bucket=store.bucket, spec=spec, stable=None
    )


@contextmanager
def served(store: ModelStoreHook, model: str, folder: Path) -> Iterator[triton_http.InferenceServerClient]:
    """A Triton over the published repository, as an InferenceService's storageUri names it."""
    ports = TritonPorts.free()
    server = TritonServer(
        triton_install(),
        f"s3://{store.client.meta.endpoint_url}/{store.bucket}/models/{model}/1/repository",
        ports,
        environment={
            "AWS_ACCESS_KEY_ID": "slipway-test",
            "AWS_SECRET_ACCESS_KEY": "slipway-test",
            "AWS_DEFAULT_REGION": "us-east-1",
        },
        log_path=folder / "triton.log",
        exit_timeout_s=1,
    )
    server.start()
    try:
        server.wait_ready(60)
        with triton_http.InferenceServerClient(f"127.0.0.1:{ports.http}") as client:
            yield client
    finally:
        server.stop()


def inference_count(client: triton_http.InferenceServerClient) -> int:
    """Return how many rows the server counts as answered."""
    (statistics,) = client.get_inference_statistics("table")["model_stats"]
    return int(statistics["inference_count"])


def test_a_classifier_answers_with_its_labels(store: ModelStoreHook, tmp_path: Path) -> None:
    """Labels and warm-up data that config.pbtxt names are published; Triton loads them and answers with the labels."""
    land(
        store,
        "table",
        {"model.onnx": b"", "config.pbtxt": BASE.encode(), "labels.txt": LABELS, "warmup/row.bin": ROW},
    )
    convert_table(store)
    manifest = publish(store, TABLE)
    assert set(manifest.files) == {
        *("table/config.pbtxt", "table/1/model.onnx", "table/labels.txt", "table/warmup/row.bin")
    }
    assert verify_version(store, "table", 1) == []
    row = triton_http.InferInput("x", [1, 2], "FP32")
    row.set_data_from_numpy(np.array([[1, 4]], dtype=np.float32))
    with served(store, "table", tmp_path) as client:
        answer = client.infer("table", [row], outputs=[triton_http.InferRequestedOutput("y", class_count=2)])
        assert answer.as_numpy("y").tolist() == [[b"8.000000:1:dog", b"2.000000:0:cat"]]
        # A request is counted after it was answered.
        wait_until(lambda: inference_count(client) >= 2, "the warm-up to be counted too")


@pytest.mark.parametrize(
    ("missing", "field"),
    [
        ("labels.txt", r"output\[0\]\.label_filename"),
        ("warmup/row.bin", r"model_warmup\[0\]\.inputs\[x\]\.input_data_file"),
    ],
)
def test_what_is_named_and_not_there_is_told(store: ModelStoreHook, missing: str, field: str) -> None:
    """The field and the object that is missing are named, and nothing is published."""
    files = {"model.onnx": b"", "config.pbtxt": BASE.encode(), "labels.txt": LABELS, "warmup/row.bin": ROW}
    del files[missing]
    land(store, "table", files)
    convert_table(store)
    with pytest.raises(InputMissingError, match=rf"`{field}` names a file.*incoming/table/1/{missing}"):
        publish(store, TABLE)
    assert store.entries("models/") == []


def test_what_the_release_file_replaces_need_not_be_there(store: ModelStoreHook) -> None:
    """Data of warm-ups that are removed or replaced is not asked for."""
    for version, warmup in enumerate(("null", "[{name: golden}]")):
        model = f"table-{version}"
        land(store, model, {"model.onnx": b"", "config.pbtxt": BASE.encode(), "labels.txt": LABELS})
        body = table_model(2.0)
        convert(store, model, {"model.onnx": body}, {"model": described("file", "model.onnx", body)})
        release_file = TABLE.replace("table", model) + f"serving: {{warmup: {warmup}}}\n"
        names = {path.removeprefix(f"{model}/") for path in publish(store, release_file).files}
        made = {"warmup/golden.0.bin"} if version else set()
        assert names == {"config.pbtxt", "1/model.onnx", "labels.txt"} | made


def passed_through(store: ModelStoreHook, files: dict[str, bytes], config: str) -> None:
    """What the converter of Python models leaves: the folder's files in the version's own, and the configuration."""
    listed = [described("path", f"scale/1/{name}", body) for name, body in files.items()]
    convert(
        store,
        "scale",
        {f"repository/scale/1/{name}": body for name, body in files.items()},
        {"repository": {"files": listed, "configs": {"scale": config}}},
    )
    land(store, "scale", {"config.pbtxt": config.encode(), **files})


def test_a_python_models_files_lie_where_triton_looks(store: ModelStoreHook) -> None:
    """What a converter passed through into the version's folder is published beside config.pbtxt too."""
    config = f'backend: "python" {BASE}'
    passed_through(store, {"model.py": b"", "labels.txt": LABELS, "warmup/row.bin": ROW}, config)
    manifest = publish(store, SCALE)
    assert {"scale/labels.txt", "scale/warmup/row.bin", "scale/1/model.py"} <= set(manifest.files)
    assert store.read("models/scale/1/repository/scale/warmup/row.bin") == ROW


def test_a_member_brings_what_it_names(store: ModelStoreHook) -> None:
    """A member of an ensemble whose labels are not in the repository is refused by its name."""
    top = """platform: "ensemble" max_batch_size: 8
      input { name: "x" data_type: TYPE_FP32 dims: 2 } output { name: "y" data_type: TYPE_FP32 dims: 2 }
      ensemble_scheduling { step { model_name: "m" model_version: -1
        input_map { key: "x" value: "x" } output_map { key: "y" value: "y" } } }"""
    configs = {"top": top, "m": 'backend: "python" output { name: "y" label_filename: "labels.txt" }'}
    files = [described("path", "m/1/model.py", b"")]
    convert(store, "top", {}, {"repository": {"files": files, "configs": configs}})
    land(store, "top", {})
    release_file = "model: top\nsource: {format: repository}\nconversion: {target: ensemble}\n"
    with pytest.raises(
        InputMissingError, match=r"config\.pbtxt of m: `output\[0\]\.label_filename`.*m/labels\.txt"
    ):
        publish(store, release_file)


STATEFUL = 'backend: "python" max_batch_size: 8 sequence_batching { direct { } }'


def test_a_model_with_sequences_is_not_published(store: ModelStoreHook) -> None:
    """Its own configuration's or a member's: refused before a byte is written, since a canary would tear them apart."""
    passed_through(store, {"model.py": b""}, f"{STATEFUL} {BASE.replace('max_batch_size: 8', '')}")
    with pytest.raises(
        ModelInvalidError, match=r"config\.pbtxt of scale: `sequence_batching` cannot be released"
    ):
        publish(store, SCALE)
    top = """platform: "ensemble" max_batch_size: 8
      input { name: "x" data_type: TYPE_FP32 dims: 2 } output { name: "y" data_type: TYPE_FP32 dims: 2 }
      ensemble_scheduling { step { model_name: "m" model_version: -1
        input_map { key: "x" value: "x" } output_map { key: "y" value: "y" } } }"""
    files = [described("path", "m/1/model.py", b"")]
    convert(store, "top", {}, {"repository": {"files": files, "configs": {"top": top, "m": STATEFUL}}})
    land(store, "top", {})
    with pytest.raises(
        ModelInvalidError, match=r"config\.pbtxt of m: `sequence_batching` cannot be released"
    ):
        publish(store, "model: top\nsource: {format: repository}\nconversion: {target: ensemble}\n")
    assert store.entries("models/") == []


def test_a_published_model_with_sequences_is_not_staged(
    store: ModelStoreHook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that was published before such models were refused is refused as a candidate; nothing is copied."""
    config = f"{STATEFUL} {BASE.replace('max_batch_size: 8', '')}"
    passed_through(store, {"model.py": b"", "labels.txt": LABELS, "warmup/row.bin": ROW}, config)
    with monkeypatch.context() as before:
        before.setattr("slipway.operators.publish.require_no_sequences", lambda configs: None)
        publish(store, SCALE)
    prepare = PrepareStagingOperator(
        task_id="prepare", release=release_run_of(store, SCALE).model_dump_json()
    )
    with pytest.raises(ModelInvalidError, match="`sequence_batching` cannot be released"):
        prepare.run(CONTEXT)
    assert store.entries("staging/") == []

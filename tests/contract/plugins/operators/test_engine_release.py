"""An engine is published with what it was built on, and goes to staging only where it fits."""

from __future__ import annotations

import hashlib
import io
import json
from typing import Any

import numpy as np
import pytest

from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.convert import ChooseVariantOperator
from slipway.operators.publish import PublishModelOperator
from slipway.operators.staging import PrepareStagingOperator
from slipway.registry.registry import ModelRegistry
from slipway.release_record.record import ReleaseRecord
from slipway.release_run import ReleaseRun, StableVersion
from slipway_core.errors import GateRefusedError, LoadRefusedError, ModelInvalidError
from slipway_core.publishing.manifest import Manifest
from slipway_core.record.kinds import StageFinished
from slipway_core.spec.release_file import apply_overrides, parse_release_spec

_SPEC = parse_release_spec("model: ranker\nsource: {}\n", "ranker.yaml")
_BASE = "max_batch_size: 16 instance_group { kind: KIND_GPU } optimization { cuda { graphs: true } }"
_HARDWARE = {"compute_capability": "8.9", "tensorrt": "10.13.2"}
_SERVING: dict[str, Any] = {
    "platform": "tensorrt_plan",
    "warmup": [{"name": "first", "row": 1, "batch_size": 8}],
    "hardware": _HARDWARE,
}
_ENGINE = b"engine"
_RESULT: dict[str, Any] = {
    "model": {
        "file": "model.plan",
        "size_bytes": len(_ENGINE),
        "sha256": hashlib.sha256(_ENGINE).hexdigest(),
    },
    "signature": {
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 2]}],
        "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, 1]}],
    },
    "profiles": [{"min": {"x": [1, 2]}, "opt": {"x": [8, 2]}, "max": {"x": [16, 2]}}],
    "engine": {"gpu": "NVIDIA L4", "compute_capability": "8.9", "tensorrt": "10.13.2.6"},
    "tools": {"tensorrt": "10.13.2.6"},
}


def _release_run(bucket: str, **serving: Any) -> ReleaseRun:
    spec = apply_overrides(_SPEC, {"serving": {**_SERVING, **serving}}, "the test")
    return ReleaseRun(
        release_id="manual__1", model="ranker", version=1, bucket=bucket, spec=spec, stable=None
    )


@pytest.fixture
def converted(store: ModelStoreHook) -> ModelStoreHook:
    """Version 1 is converted."""
    return _land(store, 1, _RESULT)


def _land(store: ModelStoreHook, version: int, result: dict[str, Any]) -> ModelStoreHook:
    """What training and the converter leave: an engine, its result, and training's own config.pbtxt."""
    golden = io.BytesIO()
    np.savez(golden, x=np.array([[1, 2], [3, 4]], dtype=np.float32), label=np.zeros(2, np.int64))
    incoming = {"model.onnx": b"onnx", "golden.npz": golden.getvalue(), "config.pbtxt": _BASE.encode()}
    for name, body in incoming.items():
        store.write(f"incoming/ranker/{version}/{name}", body)
    _ready(store, incoming, version)
    store.write(f"work/ranker/{version}/convert/model.plan", _ENGINE)
    store.write_json(f"work/ranker/{version}/convert/result.json", result)
    return store


def _ready(store: ModelStoreHook, files: dict[str, bytes], version: int = 1) -> None:
    """Write ready.json, with the digests of these files."""
    digests = {name: hashlib.sha256(body).hexdigest() for name, body in files.items()}
    ready = {"model": "ranker", "version": version, "files": digests}
    store.write_json(f"incoming/ranker/{version}/ready.json", ready)


def _published(store: ModelStoreHook, release_run: ReleaseRun) -> Manifest:
    PublishModelOperator(task_id="publish", release=release_run.model_dump_json()).run({})  # type: ignore[typeddict-item]
    return ModelRegistry(store).require("ranker", 1)


def test_an_engine_is_published_with_its_machine(converted: ModelStoreHook, bucket: str) -> None:
    """Training's configuration with the release's options over it, warm-up files, and the machine in the manifest."""
    manifest = _published(converted, _release_run(bucket))
    (engine,) = manifest.engines
    assert (engine.gpu, engine.tensorrt) == ("NVIDIA L4", "10.13.2.6")
    assert set(manifest.files) == {
        "ranker/config.pbtxt",
        "ranker/1/model.plan",
        "ranker/warmup/first.0.bin",
    }
    config = ModelRegistry(converted).configs(manifest)[manifest.model]
    assert config["backend"] == "tensorrt"
    assert config["max_batch_size"] == 16
    assert config["optimization"] == {"cuda": {"graphs": True}}
    assert config["model_warmup"][0]["inputs"]["x"]["input_data_file"] == "first.0.bin"
    row = converted.read("models/ranker/1/repository/ranker/warmup/first.0.bin")
    assert row == np.array([3, 4], dtype="<f4").tobytes()


def test_an_engine_needs_no_word_on_its_platform(converted: ModelStoreHook, bucket: str) -> None:
    """Platform, backend, file name and kind of instance follow from the file that the converter made."""
    converted.write("incoming/ranker/1/config.pbtxt", b"max_batch_size: 16")
    _ready(converted, {"config.pbtxt": b"max_batch_size: 16"})
    spec = apply_overrides(_SPEC, {"serving": {"hardware": _HARDWARE}}, "the test")
    release_run = _release_run(bucket).model_copy(update={"spec": spec})
    manifest = _published(converted, release_run)
    config = ModelRegistry(converted).configs(manifest)[manifest.model]
    assert (config["platform"], config["backend"]) == ("tensorrt_plan", "tensorrt")
    assert config["default_model_filename"] == "model.plan"
    assert config["instance_group"] == [{"kind": "KIND_GPU", "count": 1}]


@pytest.mark.parametrize(
    ("base", "words"),
    [
        ('platform: "onnxruntime_onnx" max_batch_size: 16', r"`platform` wants a file `model\.onnx`"),
        ('default_model_filename: "net.plan" max_batch_size: 16', r"`default_model_filename` wants a file"),
    ],
)
def test_a_configuration_for_another_file_is_not_published(
    converted: ModelStoreHook, bucket: str, base: str, words: str
) -> None:
    """What training's config.pbtxt says of platform and file must be what the converter made."""
    converted.write("incoming/ranker/1/config.pbtxt", base.encode())
    _ready(converted, {"config.pbtxt": base.encode()})
    spec = apply_overrides(_SPEC, {"serving": {"hardware": _HARDWARE}}, "the test")
    with pytest.raises(ModelInvalidError, match=words):
        _published(converted, _release_run(bucket).model_copy(update={"spec": spec}))
    assert not converted.exists("models/ranker/1/manifest.json")


def test_a_batch_beyond_the_engines_profile_is_not_published(converted: ModelStoreHook, bucket: str) -> None:
    """`max_batch_size` above the engine's largest shape is refused with the field's name."""
    with pytest.raises(ModelInvalidError, match=r"`max_batch_size` is larger than the engine's profile"):
        _published(converted, _release_run(bucket, max_batch_size=32))
    assert not converted.exists("models/ranker/1/manifest.json")


@pytest.mark.parametrize(
    ("hardware", "words"),
    [
        (None, "it is unknown which GPU"),
        ({**_HARDWARE, "compute_capability": "9.0"}, "compute capability 8.9"),
        ({**_HARDWARE, "tensorrt": "10.14.1"}, "TensorRT 10.13.2.6"),
    ],
)
def test_an_engine_is_not_staged_where_it_does_not_fit(
    converted: ModelStoreHook, bucket: str, hardware: dict[str, str] | None, words: str
) -> None:
    """Another GPU or TensorRT, or none declared: refused before a byte is copied to the staging server."""
    release_run = _release_run(bucket, hardware=hardware)
    _published(converted, release_run)
    operator = PrepareStagingOperator(task_id="stage", release=release_run.model_dump_json())
    with pytest.raises(LoadRefusedError, match=words) as refused:
        operator.run({})  # type: ignore[typeddict-item]
    assert isinstance(refused.value, GateRefusedError)
    assert converted.entries("staging/") == []


def test_engine_of_the_servers_before_is_left_out(converted: ModelStoreHook, bucket: str) -> None:
    """A release that moves to another TensorRT goes on without its stable version, and the record says why."""
    _published(converted, _release_run(bucket))
    engine = {**_RESULT["engine"], "tensorrt": "10.14.1.2"}
    _land(converted, 2, {**_RESULT, "engine": engine})
    stable = StableVersion(version=1, storage_uri=f"s3://{bucket}/models/ranker/1/repository")
    hardware = {**_HARDWARE, "tensorrt": "10.14.1"}
    release_run = _release_run(bucket, hardware=hardware).model_copy(
        update={"release_id": "manual__2", "version": 2, "stable": stable}
    )
    release = release_run.model_dump_json()
    PublishModelOperator(task_id="publish", release=release).run({})  # type: ignore[typeddict-item]
    staged = PrepareStagingOperator(task_id="stage", release=release).run({})  # type: ignore[typeddict-item]
    assert (staged["candidate"]["version"], staged["baseline"]) == (2, None)
    assert "version 1, which is live" in staged["not_compared"]
    assert "built with TensorRT 10.13.2.6, the server has 10.14.1" in staged["not_compared"]
    events = ReleaseRecord(converted, "ranker", 2, "manual__2").events()
    assert [event.data for event in events if getattr(event.data, "stage", None) == "baseline"] == [
        StageFinished(stage="baseline", outcome="left_out", reason=staged["not_compared"])
    ]


def test_an_engine_is_staged_where_it_fits(converted: ModelStoreHook, bucket: str) -> None:
    """With the servers declared as the machine that built it, everything is copied, warm-up files included."""
    release_run = _release_run(bucket)
    _published(converted, release_run)
    staged = PrepareStagingOperator(task_id="stage", release=release_run.model_dump_json()).run({})  # type: ignore[typeddict-item]
    assert staged["candidate"]["config"]["version_policy"] == {"specific": {"versions": [1]}}
    assert {entry.key for entry in converted.entries("staging/")} == {
        "staging/ranker/config.pbtxt",
        "staging/ranker/1/model.plan",
        "staging/ranker/warmup/first.0.bin",
    }


@pytest.fixture
def two_engines(converted: ModelStoreHook) -> ModelStoreHook:
    """What two conversions leave: an engine for an L4 and one for an H100, and the evidence of both."""
    for name, gpu, capability in (("l4", "NVIDIA L4", "8.9"), ("h100", "NVIDIA H100", "9.0")):
        body = f"engine for {gpu}".encode()
        engine = {**_RESULT["engine"], "gpu": gpu, "compute_capability": capability}
        model = {
            "file": "model.plan",
            "size_bytes": len(body),
            "sha256": hashlib.sha256(body).hexdigest(),
        }
        converted.write(f"work/ranker/1/convert/{name}/model.plan", body)
        result = {**_RESULT, "error": None, "engine": engine, "model": model, "latency": {"p50_ms": 0.2}}
        converted.write_json(f"work/ranker/1/convert/{name}/result.json", result)
        converted.write_json(f"models/ranker/1/evidence/manual__1/convert-{name}.json", result)
    return converted


def _release_run_of_two(bucket: str, capability: str) -> ReleaseRun:
    hardware = {"compute_capability": capability, "tensorrt": "10.13.2"}
    conversion = {"target": "tensorrt", "choose": "all", "variants": {"l4": {}, "h100": {}}}
    spec = apply_overrides(
        _SPEC, {"serving": {**_SERVING, "hardware": hardware}, "conversion": conversion}, "the test"
    )
    return ReleaseRun(
        release_id="manual__1", model="ranker", version=1, bucket=bucket, spec=spec, stable=None
    )


def test_one_version_holds_an_engine_for_each_kind_of_gpu(two_engines: ModelStoreHook, bucket: str) -> None:
    """With `choose: all` both are published, and the configuration says which is whose."""
    release = _release_run_of_two(bucket, "9.0").model_dump_json()
    names = ChooseVariantOperator(task_id="choose", release=release).run({})  # type: ignore[typeddict-item]
    assert names == ["l4", "h100"]
    publish = PublishModelOperator(task_id="publish", release=release, variants=json.dumps(names))
    publish.run({})  # type: ignore[typeddict-item]
    manifest = ModelRegistry(two_engines).require("ranker", 1)
    assert [engine.gpu for engine in manifest.engines] == ["NVIDIA L4", "NVIDIA H100"]
    config = ModelRegistry(two_engines).configs(manifest)[manifest.model]
    assert config["cc_model_filenames"] == {"8.9": "model.plan", "9.0": "model_9.0.plan"}
    repository = "models/ranker/1/repository/ranker/1/"
    assert two_engines.read(f"{repository}model.plan") == b"engine for NVIDIA L4"
    assert two_engines.read(f"{repository}model_9.0.plan") == b"engine for NVIDIA H100"
    evidence = two_engines.read_json("models/ranker/1/evidence/manual__1/variants.json")
    assert "compute capability 9.0: h100 is" in evidence["reason"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"profiles": [{"min": {"x": [1, 2]}, "opt": {"x": [8, 2]}, "max": {"x": [8, 2]}}]}, "at most 8"),
        ({"signature": {**_RESULT["signature"], "outputs": []}}, "output `y` .* is gone"),
    ],
)
def test_every_engine_is_held_against_the_configuration(
    two_engines: ModelStoreHook, bucket: str, change: dict[str, Any], words: str
) -> None:
    """Not only the leading one: an engine with smaller profiles, or other tensors, is refused by its GPU's name."""
    key = "work/ranker/1/convert/h100/result.json"
    two_engines.write_json(key, {**(two_engines.read_json(key) or {}), **change})
    release = _release_run_of_two(bucket, "8.9").model_dump_json()
    publish = PublishModelOperator(task_id="publish", release=release, variants='["l4", "h100"]')
    with pytest.raises(ModelInvalidError, match=f"the engine for NVIDIA H100.*{words}"):
        publish.run({})  # type: ignore[typeddict-item]
    assert not two_engines.exists("models/ranker/1/manifest.json")


def test_a_version_with_several_engines_is_staged_where_one_fits(
    two_engines: ModelStoreHook, bucket: str
) -> None:
    """The servers' GPU needs its engine among them; a third kind has none."""
    for capability in ("9.0", "8.0"):
        release_run = _release_run_of_two(bucket, capability)
        release = release_run.model_dump_json()
        publish = PublishModelOperator(task_id="publish", release=release, variants='["l4", "h100"]')
        publish.run({})  # type: ignore[typeddict-item]
        stage = PrepareStagingOperator(task_id="stage", release=release)
        if capability == "9.0":
            stage.run({})  # type: ignore[typeddict-item]
            assert two_engines.read("staging/ranker/1/model_9.0.plan") == b"engine for NVIDIA H100"
        else:
            with pytest.raises(LoadRefusedError, match=r"the server has 8\.0"):
                stage.run({})  # type: ignore[typeddict-item]

"""The four versions as files: what training leaves in S3."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from slipway_digit_models.images import SIDE, live_images, training_and_held_out
from slipway_digit_models.training import (
    RECIPES,
    golden_set,
    train,
    training_artifacts,
    upload_training_artifacts,
)

VERSIONS = sorted(RECIPES)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_same_version_is_the_same_file(version: int) -> None:
    """Training a version again gives the same bytes, so that laying it again changes nothing."""
    assert train.__wrapped__(version).onnx == train(version).onnx
    assert golden_set(version) == golden_set(version)


TRAINS_BESIDE_FORKS = """
import subprocess, threading, time
from slipway_digit_models.training import train

training = threading.Thread(target=train, args=[2])
training.start()
while training.is_alive():
    # With a function to run between fork and exec it is a fork, as where the clients of the demo are started.
    subprocess.run(["true"], preexec_fn=lambda: None)
    time.sleep(0.05)
assert train(2).onnx, "the thread's result is kept; where it failed this fails too"
"""


def test_training_goes_on_while_the_process_forks() -> None:
    """Programs are started in other threads of the demo and of the tests; training does not wait for ever for that."""
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", TRAINS_BESIDE_FORKS],
        env={**os.environ, "OPENBLAS_NUM_THREADS": "2"},
        check=True,
        timeout=120,
    )


def test_version_2_is_clearly_better_than_version_1() -> None:
    """Version 1 is modest and honest, version 2 a reason to release."""
    first, second = train(1).accuracy, train(2).accuracy
    assert 0.9 <= first <= 0.95
    assert second >= 0.97


@pytest.mark.parametrize("version", [3, 4])
def test_what_is_wrong_with_a_version_does_not_show_offline(version: int) -> None:
    """By its accuracy on the held-out images, a version that must not go live is as good as version 2."""
    assert train(version).accuracy >= train(2).accuracy - 0.005


@pytest.mark.parametrize(("version", "shape"), [(1, (64,)), (2, (64,)), (3, (64,)), (4, (8, 8))])
def test_the_file_says_its_signature(version: int, shape: tuple[int, ...]) -> None:
    """Names, types and shapes are the contract's; only version 4 takes squares."""
    graph = onnx.load_from_string(train(version).onnx).graph
    tensors = {
        value.name: (
            value.type.tensor_type.elem_type,
            tuple(
                dimension.dim_value or dimension.dim_param for dimension in value.type.tensor_type.shape.dim
            ),
        )
        for value in [*graph.input, *graph.output]
    }
    assert tensors == {
        "pixels": (onnx.TensorProto.FLOAT, ("N", *shape)),
        "label": (onnx.TensorProto.INT64, ("N",)),
        "probabilities": (onnx.TensorProto.FLOAT, ("N", 10)),
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_the_file_reaches_the_accuracy_that_is_stated(version: int) -> None:
    """The exported graph, run by ONNX's reference, names the digits as the fitted classifier did."""
    trained = train(version)
    arrays = np.load(io.BytesIO(golden_set(version)))
    label, probabilities = map(
        np.asarray, ReferenceEvaluator(trained.onnx).run(None, {"pixels": arrays["pixels"]})
    )
    assert float((label == arrays["label"]).mean()) == pytest.approx(trained.accuracy, abs=0.005)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, atol=1e-4)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_golden_set_is_the_held_out_images(version: int) -> None:
    """The golden set has exactly the input and the label, no pickle, in the shape the version takes."""
    _, held_out = training_and_held_out()
    with np.load(io.BytesIO(golden_set(version)), allow_pickle=False) as arrays:
        assert set(arrays) == {"pixels", "label"}
        assert arrays["pixels"].shape[1:] == ((SIDE, SIDE) if version == 4 else (SIDE * SIDE,))
        assert arrays["pixels"].dtype == np.float32
        assert arrays["label"].dtype == np.int64
        np.testing.assert_array_equal(arrays["pixels"].reshape(-1, 64), held_out.pixels)


def test_only_version_3_looks_its_scale_up() -> None:
    """The fault of version 3 is a lookup in its own graph; no other version has one before its classifier."""
    with_lookup = [
        version
        for version in VERSIONS
        if any(node.name == "look_up" for node in onnx.load_from_string(train(version).onnx).graph.node)
    ]
    assert with_lookup == [3]


def test_version_3_fails_on_bright_images_alone() -> None:
    """An image beyond the training range is an execution error for version 3; any other is answered."""
    live = live_images()
    model = ReferenceEvaluator(train(3).onnx)
    dark, bright = live.images.pixels[~live.bright], live.images.pixels[live.bright]
    (label,) = map(np.asarray, model.run(["label"], {"pixels": dark}))
    assert len(label) == len(dark)
    for image in bright[:5]:
        with pytest.raises(IndexError):
            model.run(["label"], {"pixels": image[np.newaxis]})


def test_ready_json_describes_what_lies_beside_it() -> None:
    """`ready.json` names model, version and every file with its SHA-256, and what training knew."""
    moment = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
    files = training_artifacts("digits", 2, trained_at=moment)
    ready = json.loads(files["ready.json"])
    assert ready["model"] == "digits"
    assert ready["version"] == 2
    assert ready["start"] == "automatic"
    assert ready["trained_at"] == "2026-03-04T05:06:07+00:00"
    assert ready["accuracy"] == round(train(2).accuracy, 4)
    assert ready["files"] == {
        name: hashlib.sha256(files[name]).hexdigest() for name in ("model.onnx", "golden.npz")
    }


def test_only_version_2_starts_by_itself() -> None:
    """The other versions wait for a person."""
    starts = {
        version: json.loads(training_artifacts("digits", version)["ready.json"])["start"]
        for version in VERSIONS
    }
    assert starts == {1: "by_hand", 2: "automatic", 3: "by_hand", 4: "by_hand"}


def test_ready_json_is_laid_last() -> None:
    """Whoever sees `ready.json` finds all other files complete."""
    store = Store()
    upload_training_artifacts(store, "slipway", "digits", 1)
    assert store.keys == [
        "slipway/incoming/digits/1/model.onnx",
        "slipway/incoming/digits/1/golden.npz",
        "slipway/incoming/digits/1/ready.json",
    ]


class Store:
    """Remembers the order in which objects were laid."""

    def __init__(self) -> None:
        self.keys: list[str] = []

    def put_object(self, *, Bucket: str, Key: str, Body: bytes) -> Any:  # noqa: N803  boto3's own names
        assert Body
        self.keys.append(f"{Bucket}/{Key}")

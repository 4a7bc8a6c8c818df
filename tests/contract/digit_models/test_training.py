"""The four versions, run by the real ONNX Runtime of the conversion image, as the pods and the servers run them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slipway_digit_models.images import live_images
from slipway_digit_models.training import RECIPES, golden_set, train
from slipway_sandbox.host.images import build_image, image_python

pytestmark = pytest.mark.nightly

# Runs in the image's environment: answers the golden set whole, and the live images one by one.
PROGRAM = """
import json, sys
import numpy, onnxruntime
model, golden, live = sys.argv[1:]
onnxruntime.set_default_logger_severity(4)
session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
golden, live = numpy.load(golden), numpy.load(live)
label, probabilities = session.run(["label", "probabilities"], {"pixels": golden["pixels"]})
failed, right, error = [], 0, ""
for row, pixels in enumerate(live["pixels"]):
    try:
        digit, _ = session.run(["label", "probabilities"], {"pixels": pixels.reshape(golden["pixels"][:1].shape)})
        right += int(digit[0] == live["label"][row])
    except onnxruntime.capi.onnxruntime_pybind11_state.InvalidArgument as caught:
        failed.append(row)
        error = str(caught)
print(json.dumps({
    "accuracy": float((label == golden["label"]).mean()),
    "shapes": [list(label.shape), list(probabilities.shape)],
    "failed": failed, "right": right, "error": error,
}))
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[int, dict[str, Any]]:
    """What ONNX Runtime made of each version."""
    build_image("onnx")
    folder = tmp_path_factory.mktemp("versions")
    live = live_images()
    np.savez(folder / "live.npz", pixels=live.images.pixels, label=live.images.label)
    return {version: _answers(folder, version) for version in RECIPES}


def _answers(folder: Path, version: int) -> dict[str, Any]:
    model, golden = folder / f"{version}.onnx", folder / f"{version}.npz"
    model.write_bytes(train(version).onnx)
    golden.write_bytes(golden_set(version))
    command = [str(image_python("onnx")), "-c", PROGRAM, str(model), str(golden), str(folder / "live.npz")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


@pytest.mark.parametrize("version", sorted(RECIPES))
def test_the_golden_set_is_answered_as_training_promised(
    version: int, answers: dict[int, dict[str, Any]]
) -> None:
    """Every version answers its whole golden set, as accurately as its `ready.json` says."""
    assert answers[version]["accuracy"] == pytest.approx(train(version).accuracy, abs=0.005)
    assert answers[version]["shapes"] == [[450], [450, 10]]


@pytest.mark.parametrize("version", [1, 2, 4])
def test_a_sound_version_answers_every_live_image(version: int, answers: dict[int, dict[str, Any]]) -> None:
    """Images from the brighter scanner are no trouble for a model that divides by a constant."""
    assert answers[version]["failed"] == []
    assert answers[version]["right"] / len(live_images().images) >= 0.9


def test_version_3_cannot_run_exactly_the_bright_images(answers: dict[int, dict[str, Any]]) -> None:
    """The lookup of version 3 is an execution error for each image beyond the training range, and for no other."""
    assert answers[3]["failed"] == np.flatnonzero(live_images().bright).tolist()
    assert "look_up" in answers[3]["error"]

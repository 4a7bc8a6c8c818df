"""Models of the Python backend, alone and as a member of an ensemble."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from benchmarks.good_models.family import Family, Landed
from benchmarks.good_models.graphs import plain_digits

_EXPANDS = """
import json
import os

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        with open(os.path.join(os.path.dirname(__file__), "words.json")) as file:
            self.words = json.load(file)

    def execute(self, requests):
        return [self.answer(pb_utils.get_input_tensor_by_name(one, "text").as_numpy()) for one in requests]

    def answer(self, texts):
        found = [" ".join(self.words.get(word, word) for word in text.decode().split()) for text in texts.ravel()]
        made = np.array([one.encode() for one in found], dtype=object).reshape(texts.shape)
        return pb_utils.InferenceResponse([pb_utils.Tensor("text_output", made)])
"""
_TEXT_CONFIG = """
backend: "python"
max_batch_size: 8
input [ { name: "text" data_type: TYPE_STRING dims: [ 1 ] } ]
output [ { name: "text_output" data_type: TYPE_STRING dims: [ 1 ] } ]
instance_group [ { kind: KIND_CPU count: 1 } ]
"""
_SCALES = """
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(pb_utils.get_input_tensor_by_name(one, "image").as_numpy()) for one in requests]

    def answer(self, image):
        pixels = image.reshape(len(image), 64).astype("float32") / 240
        return pb_utils.InferenceResponse([pb_utils.Tensor("pixels", pixels)])
"""
_SCALES_CONFIG = """
backend: "python"
max_batch_size: 16
input [ { name: "image" data_type: TYPE_UINT8 dims: [ 8, 8 ] } ]
output [ { name: "pixels" data_type: TYPE_FP32 dims: [ 64 ] } ]
instance_group [ { kind: KIND_CPU count: 1 } ]
"""
_DIGITS_CONFIG = """
platform: "onnxruntime_onnx"
max_batch_size: 16
input [ { name: "pixels" data_type: TYPE_FP32 dims: [ 64 ] } ]
output [ { name: "probabilities" data_type: TYPE_FP32 dims: [ 10 ] } ]
instance_group [ { kind: KIND_CPU count: 1 } ]
"""
_ENSEMBLE_CONFIG = """
platform: "ensemble"
max_batch_size: 16
input [ { name: "image" data_type: TYPE_UINT8 dims: [ 8, 8 ] } ]
output [ { name: "probabilities" data_type: TYPE_FP32 dims: [ 10 ] } ]
ensemble_scheduling { step [
  { model_name: "scales" model_version: -1
    input_map { key: "image" value: "image" } output_map { key: "pixels" value: "pixels" } },
  { model_name: "digits" model_version: -1
    input_map { key: "pixels" value: "pixels" } output_map { key: "probabilities" value: "probabilities" } }
] }
"""
_SHORT = {
    "dr": "doctor",
    "st": "street",
    "no": "number",
    "mr": "mister",
    "vs": "versus",
    "dept": "department",
}
_NEW = "vs"


def repositories() -> list[Family]:
    """Return the families of this module."""
    return [
        Family(
            "long-words",
            "texts in, texts out, by the Python backend; the second version knows one word more",
            "source: {format: python}\nconversion: {target: python}\n"
            "validation: {kind: text, output: text_output}\n",
            _long_words,
        ),
        Family(
            "image-digits",
            "an ensemble: an image is prepared in Python and classified by ONNX",
            "source: {format: repository}\nconversion: {target: ensemble}\n",
            _image_digits,
        ),
    ]


def _long_words(folder: Path, version: int) -> Landed:
    numbers = np.random.default_rng(100)
    # None of these rows has the word that the first version does not know.
    words = [*(word for word in _SHORT if word != _NEW), "the", "old", "house", "in", "new", "town"]
    texts = [" ".join(numbers.choice(words, 6)) for _ in range(120)]
    label = [" ".join(_SHORT.get(word, word) for word in text.split()) for text in texts]
    known = {short: word for short, word in _SHORT.items() if version > 1 or short != _NEW}
    files = {
        "model.py": _EXPANDS.encode(),
        "config.pbtxt": _TEXT_CONFIG.encode(),
        "words.json": json.dumps(known).encode(),
    }
    return Landed(files, {"text": np.array(texts)[:, None], "label": np.array(label)})


def _image_digits(folder: Path, version: int) -> Landed:
    content, pixels, label = plain_digits(version)
    files = {
        "image-digits/config.pbtxt": _ENSEMBLE_CONFIG,
        "scales/config.pbtxt": _SCALES_CONFIG,
        "scales/1/model.py": _SCALES,
        "digits/config.pbtxt": _DIGITS_CONFIG,
    }
    image = (pixels * 240).astype(np.uint8).reshape(-1, 8, 8)
    return Landed(
        {"digits/1/model.onnx": content, **{path: text.encode() for path, text in files.items()}},
        {"image": image, "label": label},
    )

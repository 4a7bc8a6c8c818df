"""Networks of PyTorch as TorchScript, exported programs, state_dicts and ONNX; one of them made int8."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.good_models.family import Array, Family
from benchmarks.good_models.pipelines import all_digits
from benchmarks.good_models.trained import trained_by

_PYTORCH = "source: {format: pytorch%s}\nconversion: {target: pytorch%s}\n"


def networks() -> list[Family]:
    """Return the families of this module."""
    return [
        _family(
            "digits-script",
            "TorchScript with two outputs, made FP16",
            _PYTORCH % ("", ", outputs: [label, probabilities], precision: fp16"),
        ),
        _family(
            "digits-exported",
            "a program of torch.export; max_batch_size 4",
            _PYTORCH
            % (
                ", model_file: model.pt2",
                ", format: export, trusted: true, outputs: [label, probabilities]",
            )
            + "serving: {max_batch_size: 4}\n",
        ),
        _family("digits-qdq", "int8 as onnxruntime.quantization leaves it (QDQ)", "source: {format: onnx}\n"),
        _family(
            "squares-segments",
            "classes of pixels, of images whose size is open; max_batch_size 3",
            "source: {format: onnx}\nserving: {max_batch_size: 3}\nvalidation: {kind: segmentation}\n",
        ),
        _family(
            "squares-boxes",
            "boxes with score and class; max_batch_size 2",
            "source: {format: onnx}\nserving: {max_batch_size: 2}\nvalidation: {kind: detections}\n",
        ),
        _family(
            "sentence-reader",
            "a transformer: tokens and their mask of any length, logits and a second output",
            "source: {format: onnx}\nvalidation: {output: logits}\n",
        ),
        _family(
            "sentence-vectors",
            "an encoder whose weights lie in model.onnx.data, tuned further; max_batch_size 7",
            "source: {format: onnx}\nserving: {max_batch_size: 7}\n"
            "validation: {kind: vectors, output: sentence_vector}\n",
        ),
        _family(
            "wave-forecast",
            "an LSTM as a state_dict with its module",
            _PYTORCH
            % (
                ", model_file: weights.pt",
                ", format: state_dict, trusted: true, module: 'net:Forecast', module_file: net.py, "
                "module_arguments: {hidden: 24}, outputs: [prediction]",
            )
            + "validation: {kind: regression, mae_max: 0.2, agreement_min: 0.8, abs_tolerance: 0.1}\n",
        ),
    ]


def _family(name: str, shows: str, release_file: str) -> Family:
    return Family(name, shows, release_file, trained_by("pytorch", "networks.py", name, digits_file))


def digits_file(folder: Path) -> None:
    """Lay scikit-learn's digits there, which the image of PyTorch has not."""
    pixels, labels = all_digits()
    arrays: dict[str, Array] = {"pixels": pixels, "label": labels}
    with (folder / "digits.npz").open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type, unused-ignore]

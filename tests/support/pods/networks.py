"""A network on handwritten digits, trained by the Python of the image `pytorch`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from slipway_digit_models.images import training_and_held_out
from slipway_digit_models.training import golden_set
from slipway_sandbox.host.images import build_image
from tests.support.pods.support import npz, train


@dataclass(frozen=True)
class Network:
    """A TorchScript, the demo's golden set, and what torch answers to it by output: `label`, `probabilities`."""

    script: bytes
    golden: bytes
    answers: Mapping[str, NDArray[np.generic]]


def train_network(folder: Path) -> Network:
    """Train in `folder`, which is made; takes some seconds."""
    folder.mkdir()
    training, golden = training_and_held_out()[0], golden_set(2)
    (folder / "training.npz").write_bytes(npz(pixels=training.pixels, label=training.label))
    (folder / "golden.npz").write_bytes(golden)
    train(build_image("pytorch"), "digits_network.py", folder)
    with np.load(folder / "answers.npz") as answers:
        return Network((folder / "model.pt").read_bytes(), golden, dict(answers))

"""What a training job would do: fit a version of the digit classifier, lay it into S3, say that it is ready.

version 1   a linear model on few rows: modest and honest
version 2   a small neural network on all rows: clearly better
version 3   as good as 2 on every image known offline; fails on images brighter than training's
version 4   as good as 2, but it takes squares [N, 8, 8]: clients of 2 could not call it
"""

from __future__ import annotations

import hashlib
import io
import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from slipway_digit_models.images import BRIGHTEST, SIDE, Images, training_and_held_out
from slipway_digit_models.onnx_graph import (
    Preprocessing,
    export,
    flatten_squares,
    scale_by_maximum,
    scale_by_range,
)

DATASET_VERSION = "uci-digits-1998"
_SEED = 7
# The limit below is the process's, not the thread's.
_TRAINING = threading.Lock()


class ObjectPutter(Protocol):
    """The one call of a boto3 S3 client that is needed here."""

    def put_object(self, *, Bucket: str, Key: str, Body: bytes) -> Any:  # noqa: N803  boto3's own names
        """Lay one object, in place of any that is there."""


@dataclass(frozen=True)
class Recipe:
    """How one version is made: on how many rows, with which classifier, behind which preprocessing."""

    title: str
    rows: int | None
    classifier: Callable[[], Any]
    preprocessing: Callable[[], Preprocessing]
    start: Literal["automatic", "by_hand"]


@dataclass(frozen=True)
class TrainedModel:
    """One fitted version: its ONNX file, and its accuracy (0 to 1) on the held-out images as they are."""

    version: int
    recipe: Recipe
    onnx: bytes
    accuracy: float


def _linear() -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(max_iter=2000, random_state=_SEED)


def _network() -> Any:
    from sklearn.neural_network import MLPClassifier

    return MLPClassifier((64,), max_iter=600, alpha=0.01, tol=1e-3, random_state=_SEED)


RECIPES: Mapping[int, Recipe] = {
    1: Recipe("a linear model on few rows", 220, _linear, scale_by_range, "by_hand"),
    2: Recipe("a small neural network on all rows", None, _network, scale_by_range, "automatic"),
    3: Recipe("brightness normalised by a table", None, _network, scale_by_maximum, "by_hand"),
    4: Recipe("another signature: squares [N, 8, 8]", None, _network, flatten_squares, "by_hand"),
}


@cache
def train(version: int) -> TrainedModel:
    """Fit a version and export it; the same version always gives the same file. KeyError: no such version.

    While another thread starts a program, the process forks, and OpenBLAS ends its threads before a fork: the one that
    waits for what they compute then waits forever (seen with OpenBLAS 0.3.31). So it has none here.
    """
    from threadpoolctl import threadpool_limits

    with _TRAINING, threadpool_limits(1, user_api="blas"):
        return _fitted(version)


def _fitted(version: int) -> TrainedModel:
    recipe = RECIPES[version]
    training, held_out = training_and_held_out()
    if recipe.rows is not None:
        training = training.first(recipe.rows)
    classifier = recipe.classifier().fit(_scaled(recipe, training), training.label)
    return TrainedModel(
        version=version,
        recipe=recipe,
        onnx=export(classifier, recipe.preprocessing, name=f"digits_{version}"),
        accuracy=float(classifier.score(_scaled(recipe, held_out), held_out.label)),
    )


def _scaled(recipe: Recipe, images: Images) -> npt.NDArray[np.float32]:
    """Return what the recipe's preprocessing makes of `images`: FP32 [N, 64] of 0..1."""
    by_maximum = recipe.preprocessing is scale_by_maximum
    divisor = images.pixels.max(axis=1, keepdims=True) if by_maximum else np.float32(BRIGHTEST)
    return np.divide(images.pixels, divisor, dtype=np.float32)


def golden_set(version: int) -> bytes:
    """Return the golden set as `.npz`: `pixels` in the shape the version takes, `label` INT64 [N]. No pickle."""
    _, held_out = training_and_held_out()
    squares = RECIPES[version].preprocessing is flatten_squares
    pixels = held_out.pixels.reshape(-1, SIDE, SIDE) if squares else held_out.pixels
    file = io.BytesIO()
    np.savez_compressed(file, pixels=pixels, label=held_out.label)
    return file.getvalue()


def training_artifacts(model: str, version: int, *, trained_at: datetime | None = None) -> dict[str, bytes]:
    """Return the files of `incoming/MODEL/VERSION/`, by name, in the order to upload them: `ready.json` is last."""
    import sklearn

    trained = train(version)
    files = {"model.onnx": trained.onnx, "golden.npz": golden_set(version)}
    ready = {
        "model": model,
        "version": version,
        "files": {name: hashlib.sha256(content).hexdigest() for name, content in files.items()},
        "dataset_version": DATASET_VERSION,
        "accuracy": round(trained.accuracy, 4),
        "trained_at": (trained_at or datetime.now(UTC)).isoformat(timespec="seconds"),
        "framework": f"scikit-learn {sklearn.__version__}",
        "start": trained.recipe.start,
    }
    return {**files, "ready.json": json.dumps(ready, indent=2).encode()}


def upload_training_artifacts(s3: ObjectPutter, bucket: str, model: str, version: int) -> None:
    """Train the version and lay it under `incoming/MODEL/VERSION/` of `bucket`.

    The data goes first and `ready.json` last: the version is there when that object is, and its event is
    the one that starts a release. Errors of the S3 client pass through; what was laid before one stays,
    and a second call overwrites it.
    """
    for name, content in training_artifacts(model, version).items():
        s3.put_object(Bucket=bucket, Key=f"incoming/{model}/{version}/{name}", Body=content)

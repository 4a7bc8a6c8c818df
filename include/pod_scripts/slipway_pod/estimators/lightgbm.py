"""LightGBM: Boosters, and the estimators that hold one."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from slipway_pod.estimators.boosters import (
    BOOSTER_OPSET,
    booster_answers,
    require_plain_labels,
    unknown_objective,
)
from slipway_pod.estimators.library import Library
from slipway_pod.estimators.thresholds import lightgbm_text

LIGHTGBM_REGRESSIONS = (
    "regression",
    "regression_l1",
    "huber",
    "fair",
    "poisson",
    "quantile",
    "mape",
    "gamma",
    "tweedie",
)


def load_lightgbm(path: Path, _: argparse.Namespace) -> Any:
    """Return a Booster of LightGBM's own text, which holds data only."""
    import lightgbm

    return lightgbm.Booster(model_file=path)


def lightgbm_booster(model: Any) -> Any:
    """Return the Booster of a model; it answers by its best rounds, where training stopped early."""
    if type(model).__name__ == "Booster":
        return model
    require_plain_labels(model)
    return model.booster_


def describe_lightgbm(model: Any) -> tuple[str, int]:
    """Return what a Booster does, and its number of features.

    :raises PodError: of kind ModelInvalidError.
    """
    objective = str(model.dump_model(num_iteration=1).get("objective", "none")).split(" ")[0]
    if objective in ("binary", "multiclass", "multiclassova"):
        return "classification", model.num_feature()
    if objective in LIGHTGBM_REGRESSIONS:
        return "regression", model.num_feature()
    raise unknown_objective(
        objective, f"binary, multiclass, multiclassova, {', '.join(LIGHTGBM_REGRESSIONS)}"
    )


def lightgbm_to_onnx(model: Any, _: str, features: int, name: str) -> Any:
    """Convert the model with onnxmltools, its thresholds in single precision; probabilities become a tensor."""
    import lightgbm
    import onnxmltools
    from onnxmltools.convert.common.data_types import FloatTensorType

    inputs, opset = [(name, FloatTensorType([None, features]))], BOOSTER_OPSET
    exact = lightgbm.Booster(model_str=lightgbm_text(model.model_to_string()))
    return onnxmltools.convert_lightgbm(exact, initial_types=inputs, zipmap=False, target_opset=opset)


def lightgbm_answers(model: Any, task: str, rows: Any) -> dict[str, Any]:
    """Return the answers of Booster.predict."""
    return booster_answers(model.predict(rows), task)


LIGHTGBM = Library(
    packages=("lightgbm", "onnxmltools"),
    safe_formats=(".txt",),
    how_to_save="save the model with booster.save_model('model.txt')",
    load_safe=load_lightgbm,
    prepare=lightgbm_booster,
    describe=describe_lightgbm,
    to_onnx=lightgbm_to_onnx,
    answered=lightgbm_answers,
)

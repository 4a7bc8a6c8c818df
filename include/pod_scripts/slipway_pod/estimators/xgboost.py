"""XGBoost: Boosters, and the estimators that hold one."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from slipway_pod.estimators.boosters import (
    BOOSTER_OPSET,
    booster_answers,
    require_plain_labels,
    unknown_objective,
)
from slipway_pod.estimators.library import Library


def load_xgboost(path: Path, _: argparse.Namespace) -> Any:
    """Return a Booster of XGBoost's own formats, which hold data only."""
    import xgboost

    return xgboost_booster(xgboost.Booster(model_file=path))


def xgboost_booster(model: Any) -> Any:
    """Return the Booster of a model; features count by their place, since a tensor has no names.

    An estimator that stopped early answers by its best rounds only, and so does its Booster then.
    """
    booster = model
    if type(model).__name__ != "Booster":
        require_plain_labels(model)
        best = getattr(model, "best_iteration", None)
        booster = model.get_booster() if best is None else model.get_booster()[: best + 1]
    booster.feature_names = booster.feature_types = None
    if xgboost_objective(booster) == "multi:softmax":
        # Answers labels where this one answers the probabilities behind them.
        booster.set_param({"objective": "multi:softprob"})
    return booster


def xgboost_objective(booster: Any) -> str:
    """Return the objective that a Booster was trained for."""
    return str(json.loads(booster.save_config())["learner"]["objective"]["name"])


def describe_xgboost(model: Any) -> tuple[str, int]:
    """Return what a Booster does, and its number of features.

    :raises PodError: of kind ModelInvalidError.
    """
    objective = xgboost_objective(model)
    if objective in ("binary:logistic", "multi:softprob"):
        return "classification", model.num_features()
    if objective.split(":")[0] in ("reg", "count"):
        return "regression", model.num_features()
    raise unknown_objective(objective, "binary:logistic, multi:softprob, multi:softmax, reg:… or count:…")


def xgboost_to_onnx(model: Any, _: str, features: int, name: str) -> Any:
    """Convert the model with onnxmltools; probabilities become a tensor."""
    import onnxmltools
    from onnxmltools.convert.common.data_types import FloatTensorType

    inputs = [(name, FloatTensorType([None, features]))]
    return onnxmltools.convert_xgboost(model, initial_types=inputs, target_opset=BOOSTER_OPSET)


def xgboost_answers(model: Any, task: str, rows: Any) -> dict[str, Any]:
    """Return the answers of Booster.predict."""
    import xgboost

    return booster_answers(model.predict(xgboost.DMatrix(rows)), task)


XGBOOST = Library(
    packages=("onnxmltools", "xgboost-cpu"),
    safe_formats=(".json", ".ubj"),
    how_to_save="save the model with model.save_model('model.ubj')",
    load_safe=load_xgboost,
    prepare=xgboost_booster,
    describe=describe_xgboost,
    to_onnx=xgboost_to_onnx,
    answered=xgboost_answers,
)

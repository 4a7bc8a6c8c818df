"""scikit-learn: estimators and pipelines."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from slipway_pod.errors import PodError
from slipway_pod.estimators.graph import rename_output
from slipway_pod.estimators.library import Library
from slipway_pod.estimators.thresholds import histogram_trees

SKLEARN_OPSETS = {"": 17, "ai.onnx.ml": 3}


def load_skops(path: Path, options: argparse.Namespace) -> Any:
    """Return a model of a .skops file whose types are all trusted.

    :raises PodError: of kind UserError.
    """
    import skops.io

    unknown = sorted(skops.io.get_untrusted_types(file=path))
    refused = [] if options.trusted else [name for name in unknown if name not in options.trusted_type]
    if refused:
        raise PodError(
            "UserError",
            f"{options.source} holds types that are not marked as trusted: building them could run code in this pod",
            expected="types that skops trusts by default, or that trusted_types names",
            found=", ".join(refused),
            remedy="look at each: if you know it and want it, name it under conversion.trusted_types",
        )
    return skops.io.load(path, trusted=unknown)


def describe_sklearn(model: Any) -> tuple[str, int]:
    """Return what a fitted estimator does, and its number of features.

    :raises PodError: of kind ModelInvalidError.
    """
    from sklearn.base import is_classifier, is_regressor

    features = getattr(model, "n_features_in_", None)
    if isinstance(features, int) and (is_classifier(model) or is_regressor(model)):
        return ("classification" if is_classifier(model) else "regression"), features
    raise PodError(
        "ModelInvalidError",
        "The source is not a fitted scikit-learn model of one table of numbers",
        expected="a fitted classifier or regressor, or a pipeline that ends in one",
        found=type(model).__name__,
        remedy="save the fitted estimator itself; other kinds can be served with target: python",
    )


def sklearn_to_onnx(model: Any, task: str, features: int, name: str) -> Any:
    """Convert the model with skl2onnx; probabilities become a tensor."""
    import skl2onnx
    from skl2onnx.common.data_types import FloatTensorType

    answers_probabilities = hasattr(model, "predict_proba")
    options = {"zipmap": False} if answers_probabilities else None
    inputs = [(name, FloatTensorType([None, features]))]
    exact = histogram_trees(model)
    made = skl2onnx.to_onnx(exact, initial_types=inputs, options=options, target_opset=SKLEARN_OPSETS)
    if task == "classification":
        rename_output(made.graph, 0, "label")
        rename_output(made.graph, 1, "probabilities")
        if not answers_probabilities:
            # It holds scores in a shape of the converter's: the source has no such answer.
            del made.graph.output[1]
    return made


def sklearn_answers(model: Any, task: str, rows: Any) -> dict[str, Any]:
    """Return the answers of predict and predict_proba."""
    if task == "regression":
        return {"prediction": model.predict(rows).reshape(len(rows), -1)}
    answers = {"label": model.predict(rows)}
    if hasattr(model, "predict_proba"):
        answers["probabilities"] = model.predict_proba(rows)
    return answers


SKLEARN = Library(
    packages=("scikit-learn", "skl2onnx", "skops"),
    safe_formats=(".skops",),
    how_to_save="save the model with skops.io.dump(model, 'model.skops')",
    load_safe=load_skops,
    prepare=lambda model: model,
    describe=describe_sklearn,
    to_onnx=sklearn_to_onnx,
    answered=sklearn_answers,
)

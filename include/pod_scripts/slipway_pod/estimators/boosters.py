"""Boosters: what XGBoost and LightGBM have in common."""

from __future__ import annotations

from typing import Any

from slipway_pod.errors import PodError

# The highest that onnxmltools writes.
BOOSTER_OPSET = 15


def unknown_objective(found: str, expected: str) -> PodError:
    """Return the error for a Booster that was trained for something else than classes or numbers."""
    what, remedy = (
        "The model's objective cannot be converted",
        "train it with one of these, or serve it",
    )
    return PodError(
        "ModelInvalidError", what, expected=expected, found=found, remedy=f"{remedy} with target: python"
    )


def booster_answers(values: Any, task: str) -> dict[str, Any]:
    """Return the answers of Booster.predict in the form of the converted model's answers."""
    import numpy as np

    if task == "regression":
        return {"prediction": values.reshape(len(values), -1)}
    # One number a row is the probability of the second of two classes.
    probabilities = np.stack([1 - values, values], axis=1) if values.ndim == 1 else values
    return {"label": probabilities.argmax(axis=1), "probabilities": probabilities}


def require_plain_labels(estimator: Any) -> None:
    """Raise PodError (ModelInvalidError) for a classifier whose labels a Booster does not know.

    A Booster answers the places of the classes, and so does what is made of it.
    """
    labels = getattr(estimator, "classes_", None)
    if labels is None or list(labels) == list(range(len(labels))):
        return
    raise PodError(
        "ModelInvalidError",
        "The classifier maps its classes to labels that its Booster does not know",
        expected=f"the labels 0 to {len(labels) - 1}",
        found=", ".join(str(label) for label in labels[:10]),
        remedy="train it with sklearn.preprocessing.LabelEncoder's labels, or serve it with target: python",
    )

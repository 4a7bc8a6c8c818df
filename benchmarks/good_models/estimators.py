"""Estimators of scikit-learn, XGBoost and LightGBM, in the files that these libraries write themselves."""

from __future__ import annotations

from benchmarks.good_models.family import Family
from benchmarks.good_models.trained import trained_by

_FOREST = "conversion: {target: sklearn, trusted_types: [sklearn.tree._tree.Tree]}"


def estimators() -> list[Family]:
    """Return the families of this module."""
    return [
        _family(
            "wine-forest",
            "a forest whose classes are texts, from skops",
            f"source: {{format: sklearn}}\n{_FOREST}\n",
        ),
        _family(
            "cells-histogram",
            "a classifier by histograms, from a trusted pickle",
            "source: {format: sklearn, model_file: model.pkl}\nconversion: {target: sklearn, trusted: true}\n",
        ),
        _family(
            "diabetes-ridge",
            "a scaled linear regression that explains half of the variance; max_batch_size 2",
            "source: {format: sklearn}\nconversion: {target: sklearn}\nserving: {max_batch_size: 2}\n"
            "validation: {kind: regression, r2_min: 0.3}\n",
        ),
        _family(
            "wine-boosted",
            "XGBoost's classifier",
            "source: {format: xgboost}\nconversion: {target: xgboost}\n",
        ),
        _family(
            "prices-boosted",
            "XGBoost's regressor; max_batch_size 3",
            "source: {format: xgboost}\nconversion: {target: xgboost}\nserving: {max_batch_size: 3}\n"
            "validation: {kind: regression, mae_max: 20}\n",
        ),
        _family(
            "cells-leaves",
            "LightGBM's classifier of two classes",
            "source: {format: lightgbm}\nconversion: {target: lightgbm}\n",
        ),
        _family(
            "prices-leaves",
            "LightGBM's regressor",
            "source: {format: lightgbm}\nconversion: {target: lightgbm}\n"
            "validation: {kind: regression, mae_max: 20}\n",
        ),
    ]


def _family(name: str, shows: str, release_file: str) -> Family:
    return Family(name, shows, release_file, trained_by("sklearn", "estimators.py", name))

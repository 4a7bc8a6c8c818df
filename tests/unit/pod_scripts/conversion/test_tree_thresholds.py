"""Rows that lie at a tree's threshold get the same leaf in single precision as in double precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from slipway_pod.estimators.scikit_learn import sklearn_to_onnx
from slipway_pod.estimators.thresholds import lightgbm_text, single_precision

_SIDES = [0.11850000172853470, 0.1185, -0.1185, 1e-35, -1e-35, 1e300, -1e300, float("inf"), 0.0, 3.0]


@pytest.mark.parametrize("threshold", _SIDES)
def test_a_row_goes_to_the_side_it_went_to(threshold: float) -> None:
    """Every number of single precision near a threshold is on its side of the rounded one, infinities too."""
    rounded = float(single_precision(threshold))
    with np.errstate(over="ignore"):
        near = [np.float32(threshold)]
    for _ in range(3):
        near += [np.nextafter(near[-1], np.float32(np.inf)), np.nextafter(near[0], np.float32(-np.inf))]
        near.sort()
    rows = [float(one) for one in [*near, np.float32(np.inf), np.float32(-np.inf)]]
    assert [one <= rounded for one in rows] == [one <= threshold for one in rows]
    assert float(np.float32(rounded)) == rounded


def test_only_the_thresholds_of_a_booster_change() -> None:
    """What stands in other lines stays, but the sizes of the trees, which would no longer be true."""
    text = "tree\ntree_sizes=311\n\nTree=0\nsplit_feature=0 2\nthreshold=0.1185 2\nleaf_value=0.1 0.1185\n"
    found = lightgbm_text(text).split("\n")
    assert found[:4] == ["tree", "", "Tree=0", "split_feature=0 2"]
    name, _, values = found[4].partition("=")
    assert (name, [float(one) for one in values.split()]) == (
        "threshold",
        [float(single_precision(0.1185)), 2.0],
    )
    assert found[5:] == ["leaf_value=0.1 0.1185", ""]


def halfway(seed: int, offset: int) -> tuple[Any, Any]:
    """Return measurements on a grid and a target; an offset of 1 puts them halfway between those of an offset of 0."""
    numbers = np.random.default_rng(seed)
    rows = ((numbers.integers(0, 200, (1500, 4)) * 2 + offset) * 1e-4).astype(np.float32)
    return rows, rows @ np.arange(1, 5)


def boosting(kind: str) -> Any:
    """Return a fitted model with histogram boosting in it, trained on the grid."""
    rows, target = halfway(0, 0)
    is_large = target > np.median(target)
    small = HistGradientBoostingClassifier(max_iter=10)
    if kind == "regressor":
        return HistGradientBoostingRegressor(max_iter=10).fit(rows, target)
    if kind == "in a pipeline":
        return make_pipeline(FunctionTransformer(), small).fit(rows, is_large)
    if kind == "calibrated":
        return CalibratedClassifierCV(small, cv=2).fit(rows, is_large)
    return small.fit(rows, is_large)


@pytest.mark.parametrize("kind", ["classifier", "regressor", "in a pipeline", "calibrated"])
def test_histogram_boosting_answers_as_its_source_at_its_thresholds(kind: str) -> None:
    """Rows halfway between two measurements of training are answered alike by source and ONNX, and the source stays."""
    model, (asked, _) = boosting(kind), halfway(1, 1)
    is_regressor = kind == "regressor"

    def answers() -> Any:
        return model.predict(asked)[:, None] if is_regressor else model.predict_proba(asked)

    before = answers()
    made = sklearn_to_onnx(model, "regression" if is_regressor else "classification", 4, "X")
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    found = session.run(None, {"X": asked})[-1]
    assert np.abs(found - before).max() < 1e-5
    assert np.array_equal(answers(), before)

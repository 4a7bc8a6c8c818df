"""Run by the Python of the image `sklearn`: trains estimators of three libraries and writes them with golden sets.

python estimators.py FOLDER VERSION …

For each version and family a folder FAMILY-VERSION with the model's file, as its library writes it, and `golden.npz`.
"""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import skops.io
import xgboost
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

FEW: dict[str, Any] = {"n_estimators": 40, "n_jobs": 1}


def main(folder: Path, versions: list[int]) -> None:
    """Write everything."""
    for version in versions:
        for name, write in FAMILIES.items():
            home = folder / f"{name}-{version}"
            home.mkdir(parents=True)
            write(home, version)


def rows_of(load: Any, version: int, golden: int) -> tuple[Any, Any, Any, Any]:
    """Return rows and targets for training, drawn by the version, and the golden ones, which none is trained on."""
    rows, target = load(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(rows))
    rows, target = rows[order].astype(np.float32), target[order]
    drawn = np.random.default_rng(version).permutation(len(rows) - golden)[: int(0.9 * (len(rows) - golden))]
    return rows[golden:][drawn], target[golden:][drawn], rows[:golden], target[:golden]


def keep(folder: Path, rows: Any, label: Any) -> None:
    """Write the golden set."""
    np.savez(folder / "golden.npz", X=rows, label=label)


def forest(folder: Path, version: int) -> None:
    """A forest that names wines by text."""
    rows, target, golden, label = rows_of(load_wine, version, 60)
    names = np.array(["barolo", "grignolino", "barbera"])
    model = RandomForestClassifier(60, random_state=version).fit(rows, names[target])
    skops.io.dump(model, folder / "model.skops")
    # The golden labels are places among the classes, which are sorted by name.
    keep(folder, golden, np.searchsorted(model.classes_, names[label]))


def histogram(folder: Path, version: int) -> None:
    """A classifier by histograms, as a pickle."""
    rows, target, golden, label = rows_of(load_breast_cancer, version, 150)
    model = HistGradientBoostingClassifier(max_iter=60, random_state=version).fit(rows, target)
    (folder / "model.pkl").write_bytes(pickle.dumps(model))
    keep(folder, golden, label)


def ridge(folder: Path, version: int) -> None:
    """A scaled linear regression."""
    rows, target, golden, label = rows_of(load_diabetes, version, 120)
    skops.io.dump(make_pipeline(StandardScaler(), Ridge()).fit(rows, target), folder / "model.skops")
    keep(folder, golden, label)


def boosted(folder: Path, version: int) -> None:
    """XGBoost's classifier."""
    rows, target, golden, label = rows_of(load_wine, version, 60)
    xgboost.XGBClassifier(**FEW, max_depth=3, random_state=version).fit(rows, target).save_model(
        folder / "model.ubj"
    )
    keep(folder, golden, label)


def boosted_numbers(folder: Path, version: int) -> None:
    """XGBoost's regressor."""
    rows, target, golden, label = made_prices(version)
    xgboost.XGBRegressor(**FEW, random_state=version).fit(rows, target).save_model(folder / "model.ubj")
    keep(folder, golden, label)


def leaves(folder: Path, version: int) -> None:
    """LightGBM's classifier of two classes."""
    rows, target, golden, label = rows_of(load_breast_cancer, version, 150)
    model = lightgbm.LGBMClassifier(**FEW, verbose=-1, random_state=version).fit(rows, target)
    model.booster_.save_model(folder / "model.txt")
    keep(folder, golden, label)


def leaves_numbers(folder: Path, version: int) -> None:
    """LightGBM's regressor."""
    rows, target, golden, label = made_prices(version)
    model = lightgbm.LGBMRegressor(**FEW, verbose=-1, random_state=version).fit(rows, target)
    model.booster_.save_model(folder / "model.txt")
    keep(folder, golden, label)


def made_prices(version: int) -> tuple[Any, Any, Any, Any]:
    """Return rows and prices, for training and golden."""

    def made(seed: int, rows: int) -> tuple[Any, Any]:
        numbers = np.random.default_rng(seed)
        x = numbers.uniform(0, 1, (rows, 6)).astype(np.float32)
        price = 300 + 200 * x[:, 0] + 150 * x[:, 1] * x[:, 2] - 80 * (x[:, 3] > 0.5)
        return x, price + numbers.normal(0, 5, rows)

    return *made(version, 3000), *made(100, 250)


FAMILIES = {
    "wine-forest": forest,
    "cells-histogram": histogram,
    "diabetes-ridge": ridge,
    "wine-boosted": boosted,
    "prices-boosted": boosted_numbers,
    "cells-leaves": leaves,
    "prices-leaves": leaves_numbers,
}

if __name__ == "__main__":
    main(Path(sys.argv[1]), [int(number) for number in sys.argv[2:]])

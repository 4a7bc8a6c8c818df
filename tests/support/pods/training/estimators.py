"""Run by the Python of the image `sklearn`: trains small models and writes them, with a golden set each, to a folder.

python estimators.py FOLDER
"""

from __future__ import annotations

import pickle
import sys
import time
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import sklearn
import skops.io
import xgboost
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler


class Sleeper:
    """Its pickle sleeps for an hour when it is read."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (time.sleep, (3600,))


class Glutton:
    """Its pickle asks for 8 GiB when it is read."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (bytes, (8 * 2**30,))


class Writer:
    """Its pickle writes a file when it is read: what a hostile one could do."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.path,))


def main(folder: Path) -> None:
    """Writes everything."""
    iris, species = load_iris(return_X_y=True)
    cells, malignant = load_breast_cancer(return_X_y=True)
    people, progression = load_diabetes(return_X_y=True)
    iris, cells, people = (rows.astype(np.float32) for rows in (iris, cells, people))
    for name, rows, target in (
        ("iris", iris, species),
        ("cells", cells, malignant),
        ("people", people, progression),
    ):
        np.savez(folder / f"{name}.npz", X=rows[:150], label=target[:150])
    halfway(folder)
    scikit_learn(folder, iris, species, people, progression)
    boosted(folder, iris, species, cells, malignant, people, progression)


def keep_answer(folder: Path, name: str, answer: Any) -> None:
    """What the model's own library answers to the golden rows, as the test expects it of the ONNX model."""
    np.save(folder / f"{name}.npy", np.asarray(answer)[:150])


def halfway(folder: Path) -> None:
    """Writes a model whose golden rows lie at its thresholds: halfway between two measurements of training."""
    numbers = np.random.default_rng(0)
    trained, asked = (
        ((numbers.integers(0, 200, (rows, 4)) * 2 + offset) * 1e-4).astype(np.float32)
        for rows, offset in ((1500, 0), (150, 1))
    )
    target = trained @ np.arange(1, 5)
    model = lightgbm.LGBMRegressor(n_estimators=8, n_jobs=1, verbose=-1, random_state=0).fit(trained, target)
    model.booster_.save_model(folder / "lightgbm-halfway.txt")
    np.savez(folder / "halfway.npz", X=asked, label=asked @ np.arange(1, 5))
    np.save(folder / "lightgbm-halfway.txt.npy", model.predict(asked))


def scikit_learn(folder: Path, iris: Any, species: Any, people: Any, progression: Any) -> None:
    named = np.array(["setosa", "versicolor", "virginica"])[species]
    linear = make_pipeline(StandardScaler(), LogisticRegression()).fit(iris, species)
    ridge = make_pipeline(StandardScaler(), Ridge()).fit(people, progression)
    forest = RandomForestClassifier(5, random_state=0).fit(iris, named)
    boosting = HistGradientBoostingClassifier(max_iter=5, random_state=0).fit(iris, species)
    for name, model in (("linear", linear), ("ridge", ridge), ("forest", forest)):
        skops.io.dump(model, folder / f"{name}.skops")
    skops.io.dump(StandardScaler().fit(iris), folder / "scaler.skops")
    (folder / "boosting.pkl").write_bytes(pickle.dumps(boosting))
    keep_answer(folder, "linear.skops", linear.predict_proba(iris))
    keep_answer(folder, "ridge.skops", ridge.predict(people))
    keep_answer(folder, "forest.skops", forest.predict_proba(iris))
    keep_answer(folder, "forest.skops.label", forest.predict(iris))
    keep_answer(folder, "boosting.pkl", boosting.predict_proba(iris))
    older = pickle.dumps(ridge)
    version = sklearn.__version__.encode()
    (folder / "older.pkl").write_bytes(older.replace(version, version[:-1] + b"0"))
    for name, hostile in (
        ("sleeper", Sleeper()),
        ("glutton", Glutton()),
        ("writer", Writer(folder / "written")),
    ):
        (folder / f"{name}.pkl").write_bytes(pickle.dumps(hostile))


def boosted(
    folder: Path, iris: Any, species: Any, cells: Any, malignant: Any, people: Any, progression: Any
) -> None:
    few: dict[str, Any] = {"n_estimators": 8, "random_state": 0, "n_jobs": 1}
    for name, rows, target in (("iris", iris, species), ("cells", cells, malignant)):
        forest = xgboost.XGBClassifier(**few).fit(rows, target)
        forest.save_model(folder / f"xgboost-{name}.ubj")
        keep_answer(folder, f"xgboost-{name}.ubj", forest.predict_proba(rows))
        leaves = lightgbm.LGBMClassifier(**few, verbose=-1).fit(rows, target)
        leaves.booster_.save_model(folder / f"lightgbm-{name}.txt")
        keep_answer(folder, f"lightgbm-{name}.txt", leaves.predict_proba(rows))
    noisy = np.random.default_rng(0).permutation(malignant)
    early = xgboost.XGBClassifier(**{**few, "n_estimators": 40}, early_stopping_rounds=2)
    early.fit(cells, malignant, eval_set=[(cells, noisy)], verbose=False)
    assert early.best_iteration + 1 < early.get_booster().num_boosted_rounds()
    (folder / "xgboost-early.pkl").write_bytes(pickle.dumps(early))
    keep_answer(folder, "xgboost-early.pkl", early.predict_proba(cells))
    named = lightgbm.LGBMClassifier(**few, verbose=-1).fit(iris, np.array(["a", "b", "c"])[species])
    (folder / "lightgbm-named.pkl").write_bytes(pickle.dumps(named))
    regression = xgboost.XGBRegressor(**few).fit(people, progression)
    regression.save_model(folder / "xgboost-people.json")
    keep_answer(folder, "xgboost-people.json", regression.predict(people))
    leaves = lightgbm.LGBMRegressor(**few, verbose=-1).fit(people, progression)
    leaves.booster_.save_model(folder / "lightgbm-people.txt")
    keep_answer(folder, "lightgbm-people.txt", leaves.predict(people))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

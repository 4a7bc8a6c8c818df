"""convert_estimator.py with the real libraries of their image, over an S3 on loopback."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from slipway_core.gates.parity import parse_parity
from tests.support.examples import nightly
from tests.support.pods.support import ObjectStore, Pod, PodRun

TREE = "sklearn.tree._tree.Tree"


@pytest.fixture(scope="module")
def folder(sklearn_pod: Pod, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models trained on scikit-learn's bundled data, with golden sets and what their libraries answer."""
    home = tmp_path_factory.mktemp("estimators")
    sklearn_pod.train("estimators.py", home)
    return home


@pytest.fixture(scope="module")
def sources(store: ObjectStore, folder: Path) -> str:
    return store.put_folder("estimators", folder)


def convert(pod: Pod, sources: str, library: str, model: str, golden: str, prefix: str, *more: str) -> PodRun:
    given = ["--library", library, "--source", f"{sources}/{model}", "--golden", f"{sources}/{golden}.npz"]
    return pod.run("convert_estimator.py", *given, *more, prefix=prefix)


@pytest.mark.parametrize(
    ("library", "model", "golden", "more"),
    [
        ("sklearn", "linear.skops", "iris", []),
        ("sklearn", "ridge.skops", "people", []),
        # The same model is converted and served in tests/contract/plugins/operators/test_converted_models_served.py.
        nightly("sklearn", "forest.skops", "iris", ["--trusted-type", TREE]),
        nightly("sklearn", "boosting.pkl", "iris", ["--trusted"]),
        nightly("xgboost", "xgboost-iris.ubj", "iris", []),
        nightly("xgboost", "xgboost-cells.ubj", "cells", []),
        ("xgboost", "xgboost-people.json", "people", []),
        nightly("xgboost", "xgboost-early.pkl", "cells", ["--trusted"]),
        nightly("lightgbm", "lightgbm-iris.txt", "iris", []),
        ("lightgbm", "lightgbm-cells.txt", "cells", []),
        nightly("lightgbm", "lightgbm-people.txt", "people", []),
        ("lightgbm", "lightgbm-halfway.txt", "halfway", []),
    ],
)
def test_good_model(
    sklearn_pod: Pod,
    store: ObjectStore,
    folder: Path,
    sources: str,
    prefix: str,
    library: str,
    model: str,
    golden: str,
    more: list[str],
) -> None:
    """A model becomes ONNX with plain tensors and a free batch, and answers as the library it comes from."""
    run = convert(sklearn_pod, sources, library, model, golden, prefix, *more)
    assert run.exit_code == 0, run.stderr
    assert run.result is not None
    outputs = {entry["name"]: entry["shape"] for entry in run.result["signature"]["outputs"]}
    tells_numbers = golden in ("people", "halfway")
    answer = "prediction" if tells_numbers else "probabilities"
    assert set(outputs) == ({"prediction"} if tells_numbers else {"label", "probabilities"})
    assert all(shape[0] == -1 for shape in outputs.values())
    assert all(entry.passed and entry.rows == 150 for entry in parse_parity(run.result["parity"]))
    session = onnxruntime.InferenceSession(store.read(f"{prefix}/model.onnx"))
    rows = np.load(io.BytesIO(store.read(f"estimators/{golden}.npz")))["X"]
    (found,) = session.run([answer], {"X": rows})
    expected = np.load(folder / f"{model}.npy")
    np.testing.assert_allclose(found.reshape(expected.shape), expected, rtol=1e-4, atol=1e-5)


def test_labels_that_only_the_estimator_knows(sklearn_pod: Pod, sources: str, prefix: str) -> None:
    """A Booster answers the places of classes: an estimator whose labels are others is not converted silently."""
    run = convert(sklearn_pod, sources, "lightgbm", "lightgbm-named.pkl", "iris", prefix, "--trusted")
    assert run.exit_code == 3
    assert (run.error["kind"], run.error["found"]) == ("ModelInvalidError", "a, b, c")


@pytest.mark.parametrize("library", ["sklearn", "xgboost", "lightgbm"])
def test_pickle_without_trust(
    sklearn_pod: Pod, folder: Path, sources: str, prefix: str, library: str
) -> None:
    """A pickle that nobody calls trusted is not read at all, and the error says why and what is safe."""
    run = convert(replace(sklearn_pod, writable=(folder,)), sources, library, "writer.pkl", "iris", prefix)
    assert run.exit_code == 3
    assert run.error["kind"] == "UserError"
    assert "can run any code" in run.error["what"]
    assert "trusted: true" in run.error["remedy"]
    assert not (folder / "written").exists()


def test_trusted_pickle_is_read(sklearn_pod: Pod, folder: Path, sources: str, prefix: str) -> None:
    """The same pickle does run its code once it is called trusted: the refusal is what stands in its way."""
    run = convert(
        replace(sklearn_pod, writable=(folder,)),
        sources,
        "sklearn",
        "writer.pkl",
        "iris",
        prefix,
        "--trusted",
    )
    assert run.exit_code == 3
    assert (folder / "written").exists()


def test_skops_type_that_is_not_trusted(sklearn_pod: Pod, sources: str, prefix: str) -> None:
    """A .skops file with a type that skops does not know names it, and how to allow it."""
    run = convert(sklearn_pod, sources, "sklearn", "forest.skops", "iris", prefix)
    assert (run.exit_code, run.error["kind"]) == (3, "UserError")
    assert run.error["found"] == TREE
    assert "trusted_types" in run.error["remedy"]


def test_model_of_another_version(sklearn_pod: Pod, sources: str, prefix: str) -> None:
    """A model saved by another scikit-learn is refused: it might answer wrongly, and it is the reference."""
    run = convert(sklearn_pod, sources, "sklearn", "older.pkl", "people", prefix, "--trusted")
    assert (run.exit_code, run.error["kind"]) == (3, "ModelInvalidError")
    assert "InconsistentVersionWarning" in run.error["found"]


def test_not_a_predictor(sklearn_pod: Pod, sources: str, prefix: str) -> None:
    """What neither classifies nor regresses is refused by name."""
    run = convert(sklearn_pod, sources, "sklearn", "scaler.skops", "iris", prefix)
    assert (run.exit_code, run.error["kind"]) == (3, "ModelInvalidError")
    assert run.error["found"] == "StandardScaler"


def test_source_that_hangs(sklearn_pod: Pod, sources: str, prefix: str) -> None:
    """A source that never ends to load is ended, and the tool is named."""
    limits = ["--trusted", "--timeout-s", "3"]
    run = convert(sklearn_pod, sources, "sklearn", "sleeper.pkl", "iris", prefix, *limits)
    assert (run.exit_code, run.error["kind"]) == (75, "TimedOutError")
    assert "'convert'" in run.error["what"]


def test_source_that_eats_memory(sklearn_pod: Pod, sources: str, prefix: str) -> None:
    """A source that wants more memory than it may have is ended, and the limit is named."""
    limits = ["--trusted", "--memory-mib", "700"]
    run = convert(sklearn_pod, sources, "sklearn", "glutton.pkl", "iris", prefix, *limits)
    assert (run.exit_code, run.error["kind"]) == (3, "UserError")
    assert run.error["expected"] == "at most 700 MiB"

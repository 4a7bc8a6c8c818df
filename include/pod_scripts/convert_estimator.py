#!/usr/bin/env python3
"""Converts a scikit-learn, XGBoost or LightGBM model to ONNX, and compares it with its library's own predictions.

Reads the model and the golden set from S3, writes `model.onnx`, `sbom.json` (the packages of this image) and,
last, `result.json` under the destination. Formats of the source, by --library:

  sklearn    .skops: a fitted classifier, regressor, or pipeline that ends in one
  xgboost    .json or .ubj, as Booster.save_model writes them
  lightgbm   .txt, as Booster.save_model writes it

Pickles (.pkl, .pickle, .joblib) are read only with --trusted. The model takes one float32 tensor
[rows, features] and answers `label` and `probabilities`, or `prediction`.

Exit codes: 0 done; 2 wrong usage; 3 the input is bad; 4 the converted model answers otherwise than its
source; 75 try again later (S3 does not answer, time is up); 1 an error in this program.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipway_pod.conversion.frame import converter_parser, run_onnx_converter
from slipway_pod.conversion.run import MODEL_FILE, Run
from slipway_pod.errors import PodError, first_line
from slipway_pod.models.onnx_files import load_checked, open_session, read_signature, save
from slipway_pod.parity.comparison import keep_reference, read_golden_of
from slipway_pod.program.progress import say

PACKAGES = ("numpy", "onnx", "onnxruntime")
PICKLES = (".pkl", ".pickle", ".joblib")
SKLEARN_OPSETS = {"": 17, "ai.onnx.ml": 3}
# The highest that onnxmltools writes.
BOOSTER_OPSET = 15
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


@dataclass(frozen=True)
class Library:
    """What differs between the libraries.

    `load_safe` reads a format that holds data only, `prepare` what a pickle held; both give the same kind of
    model. `describe` says what it does (classification, regression) and its number of features. `to_onnx`
    takes model, task, features and the input's name. `answered` is the reference for some rows:
    {label [rows], probabilities [rows, classes]}, or {prediction [rows, targets]}.
    """

    packages: tuple[str, ...]
    safe_formats: tuple[str, ...]
    how_to_save: str
    load_safe: Callable[[Path, argparse.Namespace], Any]
    prepare: Callable[[Any], Any]
    describe: Callable[[Any], tuple[str, int]]
    to_onnx: Callable[[Any, str, int, str], Any]
    answered: Callable[[Any, str, Any], dict[str, Any]]


def arguments(argv: list[str] | None) -> argparse.Namespace:
    """The command line, read and checked; ends the program with exit code 2 when it is wrong."""
    parser = converter_parser(__doc__)
    add = parser.add_argument
    add("--library", required=True, choices=sorted(LIBRARIES), help="that the model is of")
    add("--trusted", action="store_true", help="the file is trusted: it may be unpickled")
    add("--input", default="X", help="the name that the model's one input gets (%(default)s)")
    text = "sklearn: a type in a .skops file that skops does not trust by itself, and you do; may be repeated"
    add("--trusted-type", action="append", default=[], metavar="TYPE", help=text)
    options = parser.parse_args(argv)
    if options.trusted_type and options.library != "sklearn":
        parser.error("--trusted-type is only for --library sklearn")
    return options


def convert(run: Run) -> dict[str, Any]:
    """Makes `model.onnx` and the reference of the source; returns its part of the result. Raises PodError."""
    # The libraries tell formats by the end of the name.
    suffix = Path(run.options.source).suffix.lower()
    require_known_format(suffix, run.options)
    path = run.fetch(run.options.source, f"source{suffix}")
    made: dict[str, Any] = run.tool("convert", lambda: convert_loaded(run, path))
    return made


def require_known_format(suffix: str, options: argparse.Namespace) -> None:
    """Raises PodError (UserError, ModelInvalidError) for a pickle that is not trusted, or an unknown format."""
    library = LIBRARIES[options.library]
    if suffix in PICKLES and not options.trusted:
        raise PodError(
            "UserError",
            f"{options.source} is a pickle, and is not unpickled: a pickle can run any code in this pod, "
            "with its rights on the bucket",
            expected=f"a format that holds data only ({', '.join(library.safe_formats)}), or trusted: true",
            found=f"a {suffix} file, and no word that it is trusted",
            remedy=f"{library.how_to_save}; or, if you know who wrote the file and that nobody else could, write "
            "trusted: true under conversion in the release file",
        )
    known = (*library.safe_formats, *PICKLES)
    if suffix not in known:
        raise PodError(
            "ModelInvalidError",
            f"{options.source} is of no known format",
            expected=f"a name that ends with one of {', '.join(known)}",
            found=suffix or "no ending",
            remedy=library.how_to_save,
        )


def convert_loaded(run: Run, path: Path) -> dict[str, Any]:
    """Loads the source, writes `model.onnx`, and keeps what the source answers by its own runtime."""
    library, column = LIBRARIES[run.options.library], run.options.input
    model = loaded(path, run.options)
    task, features = library.describe(model)
    say("load", f"{type(model).__name__}, {task}, {features} features")
    try:
        made = library.to_onnx(model, task, features, column)
    except Exception as error:
        raise PodError(
            "ModelInvalidError",
            f"The model cannot be written as ONNX: {type(model).__name__}",
            expected="a model that the standard converter knows in all its parts",
            found=first_line(error),
            remedy="see which parts the converter supports, or serve the model with target: python",
        ) from error
    tidy(made)
    target = run.folder / MODEL_FILE
    save(made, target)
    load_checked(target, "the converted model")
    session = open_session(target, "the converted model", optimise=False)
    golden = read_golden_of(run, read_signature(session))
    keep_reference(run, golden, lambda rows: library.answered(model, task, rows[column]))
    return {"source": {"kind": type(model).__name__, "task": task, "features": features}}


def loaded(path: Path, options: argparse.Namespace) -> Any:
    """The model of a file whose format is allowed. Raises PodError (UserError, ModelInvalidError)."""
    library = LIBRARIES[options.library]
    try:
        with same_version_only():
            if path.suffix not in PICKLES:
                return library.load_safe(path, options)
            import joblib

            return library.prepare(joblib.load(path))
    except PodError:
        raise
    except Exception as error:
        raise PodError(
            "ModelInvalidError",
            f"{options.source} cannot be loaded",
            expected=f"a whole {path.suffix} file of a model that this image's libraries know",
            found=f"{path.stat().st_size} bytes, {type(error).__name__}: {first_line(error)}",
            remedy="save it again with the library versions that result.json names under tools",
        ) from error


@contextmanager
def same_version_only() -> Iterator[None]:
    """Makes an error of scikit-learn's warning that a model is of another version: it may answer wrongly.

    The source is the reference, so parity would not show it.
    """
    from sklearn.exceptions import InconsistentVersionWarning

    with warnings.catch_warnings():
        warnings.simplefilter("error", InconsistentVersionWarning)
        yield


def tidy(model: Any) -> None:
    """Names that mean something to a client, a free batch dimension, and the same bytes for the same model.

    `variable` is the converters' word for a regressor's output. They name graphs at random, and some declare
    that there is one label whatever the number of rows.
    """
    graph = model.graph
    graph.name = "model"
    if [value.name for value in graph.output] == ["variable"]:
        rename_output(graph, 0, "prediction")
    for value in (*graph.input, *graph.output):
        value.type.tensor_type.shape.dim[0].Clear()
        value.type.tensor_type.shape.dim[0].dim_param = "rows"


def rename_output(graph: Any, index: int, new: str) -> None:
    """Gives a graph's output another name, in the nodes too."""
    old, graph.output[index].name = graph.output[index].name, new
    for node in graph.node:
        node.output[:] = [new if name == old else name for name in node.output]
        node.input[:] = [new if name == old else name for name in node.input]


# -------- scikit-learn


def load_skops(path: Path, options: argparse.Namespace) -> Any:
    """A model of a .skops file whose types are all trusted. Raises PodError (UserError)."""
    import skops.io

    unknown = sorted(skops.io.get_untrusted_types(file=path))
    refused = [] if options.trusted else [name for name in unknown if name not in options.trusted_type]
    if refused:
        raise PodError(
            "UserError",
            f"{options.source} holds types that nobody has said to trust: building them could run code in this pod",
            expected="types that skops trusts by itself, or that trusted_types names",
            found=", ".join(refused),
            remedy="look at each: if you know it and want it, name it under conversion.trusted_types",
        )
    return skops.io.load(path, trusted=unknown)


def describe_sklearn(model: Any) -> tuple[str, int]:
    """What a fitted estimator does, and its number of features. Raises PodError (ModelInvalidError)."""
    from sklearn.base import is_classifier, is_regressor

    features = getattr(model, "n_features_in_", None)
    if isinstance(features, int) and (is_classifier(model) or is_regressor(model)):
        return ("classification" if is_classifier(model) else "regression"), features
    raise PodError(
        "ModelInvalidError",
        "The source is no fitted scikit-learn model of one table of numbers",
        expected="a fitted classifier or regressor, or a pipeline that ends in one",
        found=type(model).__name__,
        remedy="save the fitted estimator itself; other kinds can be served with target: python",
    )


def sklearn_to_onnx(model: Any, task: str, features: int, name: str) -> Any:
    """The model by skl2onnx, probabilities as a tensor."""
    import skl2onnx
    from skl2onnx.common.data_types import FloatTensorType

    answers_probabilities = hasattr(model, "predict_proba")
    options = {"zipmap": False} if answers_probabilities else None
    inputs = [(name, FloatTensorType([None, features]))]
    made = skl2onnx.to_onnx(model, initial_types=inputs, options=options, target_opset=SKLEARN_OPSETS)
    if task == "classification":
        rename_output(made.graph, 0, "label")
        rename_output(made.graph, 1, "probabilities")
        if not answers_probabilities:
            # What stands there are scores, in a shape of the converter's own: no answer of the source's.
            del made.graph.output[1]
    return made


def sklearn_answers(model: Any, task: str, rows: Any) -> dict[str, Any]:
    """What predict and predict_proba say."""
    if task == "regression":
        return {"prediction": model.predict(rows).reshape(len(rows), -1)}
    answers = {"label": model.predict(rows)}
    if hasattr(model, "predict_proba"):
        answers["probabilities"] = model.predict_proba(rows)
    return answers


# -------- XGBoost and LightGBM


def unknown_objective(found: str, expected: str) -> PodError:
    """The error for a Booster that was trained for something else than classes or numbers."""
    what, remedy = (
        "The model's objective is none that is converted",
        "train it with one of these, or serve it",
    )
    return PodError(
        "ModelInvalidError", what, expected=expected, found=found, remedy=f"{remedy} with target: python"
    )


def booster_answers(values: Any, task: str) -> dict[str, Any]:
    """What Booster.predict says, brought into the form of the converted model's answers."""
    import numpy as np

    if task == "regression":
        return {"prediction": values.reshape(len(values), -1)}
    # One number a row is the probability of the second of two classes.
    probabilities = np.stack([1 - values, values], axis=1) if values.ndim == 1 else values
    return {"label": probabilities.argmax(axis=1), "probabilities": probabilities}


def load_xgboost(path: Path, _: argparse.Namespace) -> Any:
    """A Booster of XGBoost's own formats, which hold data only."""
    import xgboost

    return xgboost_booster(xgboost.Booster(model_file=path))


def require_plain_labels(estimator: Any) -> None:
    """Raises PodError (ModelInvalidError) for a classifier whose labels a Booster does not know.

    A Booster answers the places of the classes, and so does what is made of it.
    """
    labels = getattr(estimator, "classes_", None)
    if labels is None or list(labels) == list(range(len(labels))):
        return
    raise PodError(
        "ModelInvalidError",
        "The classifier has labels of its own, which its Booster does not know",
        expected=f"the labels 0 to {len(labels) - 1}",
        found=", ".join(str(label) for label in labels[:10]),
        remedy="train it with sklearn.preprocessing.LabelEncoder's labels, or serve it with target: python",
    )


def xgboost_booster(model: Any) -> Any:
    """The Booster of a model; features count by their place, since a tensor has no names.

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
    """The objective that a Booster was trained for."""
    return str(json.loads(booster.save_config())["learner"]["objective"]["name"])


def describe_xgboost(model: Any) -> tuple[str, int]:
    """What a Booster does, and its number of features. Raises PodError (ModelInvalidError)."""
    objective = xgboost_objective(model)
    if objective in ("binary:logistic", "multi:softprob"):
        return "classification", model.num_features()
    if objective.split(":")[0] in ("reg", "count"):
        return "regression", model.num_features()
    raise unknown_objective(objective, "binary:logistic, multi:softprob, multi:softmax, reg:… or count:…")


def xgboost_to_onnx(model: Any, _: str, features: int, name: str) -> Any:
    """The model by onnxmltools, probabilities as a tensor."""
    import onnxmltools
    from onnxmltools.convert.common.data_types import FloatTensorType

    inputs = [(name, FloatTensorType([None, features]))]
    return onnxmltools.convert_xgboost(model, initial_types=inputs, target_opset=BOOSTER_OPSET)


def xgboost_answers(model: Any, task: str, rows: Any) -> dict[str, Any]:
    """What Booster.predict says."""
    import xgboost

    return booster_answers(model.predict(xgboost.DMatrix(rows)), task)


def load_lightgbm(path: Path, _: argparse.Namespace) -> Any:
    """A Booster of LightGBM's own text, which holds data only."""
    import lightgbm

    return lightgbm.Booster(model_file=path)


def lightgbm_booster(model: Any) -> Any:
    """The Booster of a model; it answers by its best rounds, where training stopped early."""
    if type(model).__name__ == "Booster":
        return model
    require_plain_labels(model)
    return model.booster_


def describe_lightgbm(model: Any) -> tuple[str, int]:
    """What a Booster does, and its number of features. Raises PodError (ModelInvalidError)."""
    objective = str(model.dump_model(num_iteration=1).get("objective", "none")).split(" ")[0]
    if objective in ("binary", "multiclass", "multiclassova"):
        return "classification", model.num_feature()
    if objective in LIGHTGBM_REGRESSIONS:
        return "regression", model.num_feature()
    raise unknown_objective(
        objective, f"binary, multiclass, multiclassova, {', '.join(LIGHTGBM_REGRESSIONS)}"
    )


def lightgbm_to_onnx(model: Any, _: str, features: int, name: str) -> Any:
    """The model by onnxmltools, probabilities as a tensor."""
    import onnxmltools
    from onnxmltools.convert.common.data_types import FloatTensorType

    inputs, opset = [(name, FloatTensorType([None, features]))], BOOSTER_OPSET
    return onnxmltools.convert_lightgbm(model, initial_types=inputs, zipmap=False, target_opset=opset)


def lightgbm_answers(model: Any, task: str, rows: Any) -> dict[str, Any]:
    """What Booster.predict says."""
    return booster_answers(model.predict(rows), task)


LIBRARIES = {
    "sklearn": Library(
        packages=("scikit-learn", "skl2onnx", "skops"),
        safe_formats=(".skops",),
        how_to_save="save the model with skops.io.dump(model, 'model.skops')",
        load_safe=load_skops,
        prepare=lambda model: model,
        describe=describe_sklearn,
        to_onnx=sklearn_to_onnx,
        answered=sklearn_answers,
    ),
    "xgboost": Library(
        packages=("onnxmltools", "xgboost-cpu"),
        safe_formats=(".json", ".ubj"),
        how_to_save="save the model with model.save_model('model.ubj')",
        load_safe=load_xgboost,
        prepare=xgboost_booster,
        describe=describe_xgboost,
        to_onnx=xgboost_to_onnx,
        answered=xgboost_answers,
    ),
    "lightgbm": Library(
        packages=("lightgbm", "onnxmltools"),
        safe_formats=(".txt",),
        how_to_save="save the model with booster.save_model('model.txt')",
        load_safe=load_lightgbm,
        prepare=lightgbm_booster,
        describe=describe_lightgbm,
        to_onnx=lightgbm_to_onnx,
        answered=lightgbm_answers,
    ),
}


def main(argv: list[str] | None = None) -> int:
    """Runs the program; returns its exit code."""
    options = arguments(argv)
    return run_onnx_converter(options, convert, (*PACKAGES, *LIBRARIES[options.library].packages))


if __name__ == "__main__":
    raise SystemExit(main())

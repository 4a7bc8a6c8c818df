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
import difflib
import hashlib
import importlib.metadata
import json
import math
import multiprocessing
import os
import platform
import re
import resource
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

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
    parser = common_parser()
    add = parser.add_argument
    add("--library", required=True, choices=sorted(LIBRARIES), help="that the model is of")
    add("--trusted", action="store_true", help="the file is trusted: it may be unpickled")
    add("--input", default="X", help="the name that the model's one input gets (%(default)s)")
    text = "sklearn: a type in a .skops file that skops does not trust by itself, and you do; may be repeated"
    add("--trusted-type", action="append", default=[], metavar="TYPE", help=text)
    options = parser.parse_args(argv)
    if options.trusted_type and options.library != "sklearn":
        parser.error("--trusted-type is only for --library sklearn")
    options.packages = ("numpy", "onnx", "onnxruntime", *LIBRARIES[options.library].packages)
    return options


def convert(run: Run) -> dict[str, Any]:
    """Makes `model.onnx` and `reference.npz` of the source; returns its part of the result. Raises PodError."""
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
    target = run.folder / "model.onnx"
    save(made, target)
    load_checked(target, "the converted model")
    session = open_session(target, "the converted model", optimise=False)
    golden = read_golden(run.folder / "golden.npz", run.options.golden, read_signature(session).inputs)
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


def xgboost_booster(model: Any) -> Any:
    """The Booster of a model; features count by their place, since a tensor has no names."""
    booster = model if type(model).__name__ == "Booster" else model.get_booster()
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
    """The Booster of a model."""
    return model if type(model).__name__ == "Booster" else model.booster_


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


# ---------------------------------------------------------------- common: the same text in every convert_*.py
#
# Each program is one file, so that an image needs nothing else of this repository. What follows is therefore
# repeated; tests/unit/pod_scripts/test_shared_text.py holds the copies alike.

# Every other kind of error is a bad input: 3.
EXIT_CODES = {"ParityRefusedError": 4, "StoreUnavailableError": 75, "TimedOutError": 75, "SlipwayError": 1}
# Triton's word for each element type that ONNX Runtime names, and NumPy's where that is not the same.
DATATYPES = {"float": "FP32", "float16": "FP16", "bfloat16": "BF16", "double": "FP64", "string": "BYTES"}
DATATYPES |= {name: name.upper() for name in ("bool", "int8", "int16", "int32", "int64")}
DATATYPES |= {name: name.upper() for name in ("uint8", "uint16", "uint32", "uint64")}
NUMPY_NAMES = {"FP16": "float16", "FP32": "float32", "FP64": "float64", "BYTES": "str"}
BATCH_ROWS = 64
WORST_ROWS = 5
LATENCY_RUNS = 200
LATENCY_LIMIT_S = 2.0
OUT_OF_MEMORY = re.compile(r"(?i)MemoryError|bad.alloc|failed to allocate|can(no|')t allocate memory")
MORE_MEMORY = "raise conversion.resources.memory in the release file, or export a smaller model"


@dataclass(eq=False)
class PodError(Exception):
    """Why this run did not pass, in the words of the project's error tree.

    Kind and text are given by place, the rest by name: so an error can travel between processes.
    """

    kind: str
    what: str
    expected: str | None = None
    found: str | None = None
    remedy: str | None = None

    def __str__(self) -> str:
        details = [("Expected", self.expected), ("Found", self.found), ("Remedy", self.remedy)]
        sentences = [self.what, *(f"{label}: {text}" for label, text in details if text)]
        return " ".join(f"{sentence.rstrip('.')}." for sentence in sentences)

    @property
    def exit_code(self) -> int:
        """What the program ends with."""
        return EXIT_CODES.get(self.kind, 3)


def unexpected(error: BaseException) -> PodError:
    """The error for what this program did not foresee; the log gets the traceback."""
    traceback.print_exception(error)
    what, remedy = "The converter failed in a way it does not know", "report it, with the pod's log"
    found = f"{type(error).__name__}: {first_line(error)}"
    return PodError("SlipwayError", what, found=found, remedy=remedy)


def first_line(error: BaseException) -> str:
    """The first line of an error's text that says something, shortened."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:300]


def say(phase: str, text: str) -> None:
    """One line of progress."""
    print(f"{phase}: {text}", flush=True)


# -------- S3


def s3_client() -> Any:
    """S3, by the standard AWS_* environment."""
    import boto3
    from botocore.config import Config

    retries: Any = {"mode": "standard", "total_max_attempts": 4}
    return boto3.client("s3", config=Config(connect_timeout=5, read_timeout=60, retries=retries))


@contextmanager
def store_errors(url: str) -> Iterator[tuple[str, str]]:
    """Gives bucket and key; makes a PodError of what boto3 raises: missing, forbidden, or what may pass."""
    from boto3.exceptions import Boto3Error
    from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

    try:
        yield split_url(url)
    except (BotoCoreError, Boto3Error, ClientError, OSError) as error:
        # The error of an upload hides the one that tells.
        causes = [error, error.__cause__, error.__context__]
        answer: Any = next((cause.response for cause in causes if isinstance(cause, ClientError)), {})
        code = answer.get("Error", {}).get("Code", type(error).__name__)
        status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode")
        if code in ("NoSuchKey", "NoSuchBucket") or status == 404:
            kind, what = "InputMissingError", f"There is no {url}"
            remedy = "put the object there, or correct the address in the release file"
        elif status in (401, 403) or isinstance(error, NoCredentialsError):
            kind, what = "UserError", f"S3 gives no access to {url}"
            remedy = "give the pod's service account a role that may read and write the bucket"
        else:
            kind, what = "StoreUnavailableError", f"S3 {'fails' if status else 'does not answer'} for {url}"
            remedy = "check AWS_ENDPOINT_URL, the network and the store, then run the task again"
        found = f"{code}, HTTP {status}" if status else code
        raise PodError(kind, what, found=found, remedy=remedy) from error


def split_url(url: str) -> tuple[str, str]:
    """`s3://bucket/a/b` → (`bucket`, `a/b`)."""
    bucket, _, key = url.removeprefix("s3://").partition("/")
    return bucket, key


# -------- the command line


@dataclass(frozen=True)
class Rule:
    """What an output is held to; one `measure` decides, the others are only reported.

    tolerance: at least `within_min` of the rows have |source - converted| <= abs + rel * |source| in every
    element. cosine: each row's vector has a cosine similarity of at least `cosine_min` with the source's.
    top_k: in at least `agreement_min` of the rows the `top_k` best classes are the source's. Outputs that are
    no vectors of fractions (labels, text, one number a row) are held to equality or to the tolerance.
    """

    measure: str = "tolerance"
    abs_tolerance: float = 1e-4
    rel_tolerance: float = 1e-3
    within_min: float = 1.0
    cosine_min: float = 0.999
    top_k: int = 1
    agreement_min: float = 0.99


def s3_url(text: str) -> str:
    """An argument that must be an S3 address with a key, returned without a trailing slash."""
    if not text.startswith("s3://") or not all(split_url(text)):
        raise argparse.ArgumentTypeError(f"expected s3://BUCKET/KEY, found {text!r}")
    return text.rstrip("/")


def number(kind: Callable[[str], float], least: float, most: float = math.inf) -> Callable[[str], Any]:
    """The type of an argument that must be a finite number from `least` to `most`."""

    def read(text: str) -> float:
        value = kind(text)
        if not (math.isfinite(value) and least <= value <= most):
            raise argparse.ArgumentTypeError(f"expected a number from {least:g} to {most:g}, found {text!r}")
        return value

    return read


MEASURES = ("tolerance", "cosine", "top_k")
RULE_TYPES: dict[str, Callable[[str], Any]] = {
    "abs_tolerance": number(float, 0),
    "rel_tolerance": number(float, 0),
    "within_min": number(float, 0, 1),
    "cosine_min": number(float, 0, 1),
    "top_k": number(int, 1),
    "agreement_min": number(float, 0, 1),
}


def output_rule(text: str) -> dict[str, Any]:
    """An argument such as `{"output": "label", "measure": "top_k", "agreement_min": 0.99}`."""
    try:
        given = json.loads(text)
        checked = {key: RULE_TYPES[key](str(given[key])) for key in given.keys() & RULE_TYPES}
        known = given.keys() <= {"output", "measure", *RULE_TYPES} and isinstance(given["output"], str)
        if not known or given.get("measure", MEASURES[0]) not in MEASURES:
            raise ValueError(text)
    except (ValueError, AttributeError, KeyError) as error:
        keys = f"measure ({', '.join(MEASURES)}), {', '.join(RULE_TYPES)}"
        raise argparse.ArgumentTypeError(f"expected a JSON object with output and any of {keys}") from error
    return {**given, **checked}


def common_parser(precisions: Sequence[str] = ("fp32",)) -> argparse.ArgumentParser:
    """The arguments that every converter has."""
    style = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=style)
    add, default = parser.add_argument, Rule()
    add("--source", required=True, type=s3_url, help="the trained model, s3://BUCKET/KEY")
    add("--golden", required=True, type=s3_url, help="the golden set, s3://BUCKET/KEY.npz")
    add("--destination", required=True, type=s3_url, help="where to write, s3://BUCKET/PREFIX")
    add("--precision", choices=precisions, default="fp32", help="of the converted model (%(default)s)")
    add("--parity-measure", choices=MEASURES, default=default.measure, help="what decides (%(default)s)")
    for key, kind in RULE_TYPES.items():
        name = f"--{key.replace('_', '-')}"
        add(name, type=kind, default=getattr(default, key), metavar="N", help="of the measure (%(default)s)")
    text = 'another rule for one output: {"output": NAME, "measure": …, "cosine_min": …}; may be repeated'
    add("--output-parity", action="append", type=output_rule, default=[], metavar="JSON", help=text)
    text = "limit for all tools together, in seconds (%(default)s)"
    add("--timeout-s", type=number(float, 0.001), default=600.0, metavar="N", help=text)
    text = "limit for each tool's own memory, in MiB (%(default)s)"
    add("--memory-mib", type=number(int, 1), default=1792, metavar="N", help=text)
    return parser


def rule_for(output: str, options: argparse.Namespace) -> Rule:
    """What an output is held to: the release's rule, with what is said of this output alone."""
    rule = {key: getattr(options, key) for key in RULE_TYPES} | {"measure": options.parity_measure}
    for given in options.output_parity:
        if given["output"] == output:
            rule |= {key: value for key, value in given.items() if key != "output"}
    return Rule(**rule)


# -------- tools, each in a process of its own with limits


@dataclass
class Run:
    """One run: what was asked, the folder it works in, and how many seconds its tools may still take."""

    options: argparse.Namespace
    client: Any
    folder: Path
    left_s: float

    def fetch(self, url: str, name: str) -> Path:
        """Downloads an object to a file of this name in the folder. Raises PodError."""
        target = self.folder / name
        with store_errors(url) as (bucket, key):
            self.client.download_file(bucket, key, str(target))
        say("fetch", f"{url}, {target.stat().st_size} bytes")
        return target

    def put(self, path: Path) -> None:
        """Uploads a file under the destination, by its own name. Raises PodError."""
        url = f"{self.options.destination}/{path.name}"
        with store_errors(url) as (bucket, key):
            self.client.upload_file(str(path), bucket, key)
        say("put", f"{url}, {path.stat().st_size} bytes")

    def tool(self, name: str, act: Callable[[], Any], share_of_time: float = 1.0) -> Any:
        """What `act` returns, run in a child process: one that hangs, eats memory or crashes ends there.

        It may use `share_of_time` of the time that is left, and `--memory-mib` of memory. Raises PodError.
        """
        limit_s, started = self.left_s * share_of_time, time.monotonic()
        context = multiprocessing.get_context("fork")
        ours, theirs = context.Pipe(duplex=False)
        child = context.Process(target=answer_over, args=(act, theirs, name, self.options.memory_mib))
        child.start()
        theirs.close()
        try:
            if not ours.poll(limit_s):
                what = f"The tool {name!r} did not finish in time"
                limit = f"an end within {limit_s:.3g} s (all tools: {self.options.timeout_s:g} s)"
                remedy = "raise conversion.timeout_s in the release file, or give the pod more CPU"
                raise PodError("TimedOutError", what, expected=limit, found="still at work", remedy=remedy)
            answer = ours.recv()
        except EOFError:
            child.join()
            what = f"The tool {name!r} crashed on this model"
            found = f"exit code {child.exitcode} (-6 and -9: most often out of memory)"
            raise PodError("ModelInvalidError", what, found=found, remedy=MORE_MEMORY) from None
        finally:
            child.kill()
            child.join()
            ours.close()
            self.left_s = max(0.0, self.left_s - (time.monotonic() - started))
        if isinstance(answer, PodError):
            raise answer
        return answer


def answer_over(act: Callable[[], Any], pipe: Connection, name: str, memory_mib: int) -> None:
    """In the child: sends what `act` returns, or the PodError that says why it did not."""
    # Private writable memory. RLIMIT_AS would count what is merely mapped: a gigabyte and more of shared
    # libraries with PyTorch, which costs nothing.
    resource.setrlimit(resource.RLIMIT_DATA, (memory_mib * 2**20, memory_mib * 2**20))
    try:
        answer = act()
    except Exception as error:  # the parent reports it
        # Libraries hide the refusal in errors of their own.
        if OUT_OF_MEMORY.search("".join(traceback.format_exception(error))):
            what = f"The tool {name!r} wanted more memory than it may have"
            answer = PodError("UserError", what, expected=f"at most {memory_mib} MiB", remedy=MORE_MEMORY)
        else:
            answer = error if isinstance(error, PodError) else unexpected(error)
    pipe.send(answer)


# -------- ONNX


@dataclass(frozen=True)
class Tensor:
    """One input or output. A dimension that is not fixed is -1; `shape` is empty when the rank is unknown."""

    name: str
    datatype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Signature:
    """What a model takes and answers."""

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]


def load_checked(path: Path, name: str) -> Any:
    """Reads a model and has ONNX check it in full, shapes included. Raises PodError (ModelInvalidError)."""
    import onnx

    try:
        model = onnx.load(path)
        onnx.checker.check_model(model, full_check=True)
        if not model.graph.node:
            raise ValueError("a graph without nodes")
    except Exception as error:
        what, found = f"{name} is not a valid ONNX model", f"{path.stat().st_size} bytes, {first_line(error)}"
        remedy = "export the model again as one ONNX file, run onnx.checker over it, and upload it whole"
        raise PodError("ModelInvalidError", what, found=found, remedy=remedy) from error
    return model


def save(model: Any, path: Path) -> None:
    """Writes a model so that equal models are equal bytes."""
    path.write_bytes(model.SerializeToString(deterministic=True))


def open_session(path: Path, name: str, *, optimise: bool) -> Any:
    """An ONNX Runtime session on the CPU: as the server would run it, or with every optimisation off."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = len(os.sched_getaffinity(0))
    options.log_severity_level = 3
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimise else levels.ORT_DISABLE_ALL
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        what = f"{name} cannot be loaded by ONNX Runtime {onnxruntime.__version__}"
        remedy = "export it with operators and an opset that this version knows"
        raise PodError("ModelInvalidError", what, found=first_line(error), remedy=remedy) from error


def read_signature(session: Any) -> Signature:
    """Names, Triton datatypes and shapes. Raises PodError (ModelInvalidError) for what is no plain tensor."""

    def tensor(argument: Any) -> Tensor:
        datatype = DATATYPES.get(argument.type.removeprefix("tensor(").removesuffix(")"))
        if datatype is None:
            what = f"The model's {argument.name!r} is not a tensor that Triton can carry"
            remedy = "export the model with plain tensors (for scikit-learn: options={'zipmap': False})"
            raise PodError("ModelInvalidError", what, found=argument.type, remedy=remedy)
        sizes = (size if isinstance(size, int) and size >= 0 else -1 for size in argument.shape)
        return Tensor(argument.name, datatype, tuple(sizes))

    return Signature(tuple(map(tensor, session.get_inputs())), tuple(map(tensor, session.get_outputs())))


def fixed_batch(signature: Signature) -> int:
    """How many rows a model wants at a time, 0 when it takes any number."""
    return next((tensor.shape[0] for tensor in signature.inputs if tensor.shape and tensor.shape[0] > 0), 0)


# -------- the golden set


def read_arrays(path: Path, name: str) -> dict[str, Any]:
    """The arrays of a NumPy archive by name. Raises PodError (GoldenSetError)."""
    import numpy as np

    try:
        with np.load(path, allow_pickle=False) as archive:
            return {key: archive[key] for key in archive.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, AttributeError) as error:
        what = f"{name} is no NumPy .npz archive without pickled objects"
        found = f"{path.stat().st_size} bytes, {first_line(error)}"
        remedy = "write it with numpy.savez(path, INPUT=…, LABEL=…) from arrays of numbers or strings"
        raise PodError("GoldenSetError", what, found=found, remedy=remedy) from error


def read_golden(path: Path, name: str, inputs: tuple[Tensor, ...]) -> dict[str, Any]:
    """The golden set's array for each input, first dimension rows. Raises PodError (GoldenSetError)."""
    arrays = read_arrays(path, name)
    require_columns(name, arrays, [tensor.name for tensor in inputs])
    for tensor in inputs:
        require_column_fits(name, arrays[tensor.name], tensor)
    rows = {tensor.name: len(arrays[tensor.name]) for tensor in inputs}
    if len(set(rows.values())) != 1 or 0 in rows.values():
        what = f"{name} has no rows, or not the same number in each column"
        found = ", ".join(f"{column}: {count}" for column, count in rows.items())
        remedy = "write the golden set again from whole rows"
        raise PodError("GoldenSetError", what, found=found, remedy=remedy)
    return {tensor.name: arrays[tensor.name] for tensor in inputs}


def require_columns(name: str, arrays: Mapping[str, Any], columns: Sequence[str]) -> None:
    """Raises PodError (GoldenSetError) unless there is an array for each column."""
    missing = [column for column in columns if column not in arrays]
    if not missing:
        return
    near = {column: difflib.get_close_matches(column, list(arrays), n=1) for column in missing}
    hints = [f"; {match[0]!r} looks like {column!r}" for column, match in near.items() if match]
    what = f"{name} lacks the column{'s' if len(missing) > 1 else ''} {', '.join(missing)}"
    expected, found = f"one array for each of {', '.join(columns)}", ", ".join(sorted(arrays)) or "no array"
    remedy = f"name the arrays after the model's inputs{''.join(hints)}"
    raise PodError("GoldenSetError", what, expected=expected, found=found, remedy=remedy)


def require_column_fits(name: str, array: Any, tensor: Tensor) -> None:
    """Raises PodError (GoldenSetError) unless type and shape are the input's."""
    wanted = NUMPY_NAMES.get(tensor.datatype, tensor.datatype.lower())
    fits = array.dtype.kind in "US" if wanted == "str" else array.dtype.name == wanted
    shape = tensor.shape or (-1, *array.shape[1:])
    # The first dimension is the batch: a model that fixes it is fed that many rows at a time.
    pairs = zip(shape[1:], array.shape[1:], strict=False)
    if fits and array.ndim == len(shape) and all(size in (-1, actual) for size, actual in pairs):
        return
    what = f"Column {tensor.name!r} of {name} does not fit the model's input"
    expected = f"{wanted} of shape {['rows', *shape[1:]]} (-1: any size)"
    found = f"{array.dtype.name} of shape {list(array.shape)}"
    raise PodError("GoldenSetError", what, expected=expected, found=found)


# -------- answers


def answer_all(session: Any, signature: Signature, golden: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The model's outputs over all golden rows, batch by batch. Raises PodError (ModelInvalidError)."""
    import numpy as np

    rows = len(next(iter(golden.values())))
    fixed = fixed_batch(signature)
    size = fixed or min(BATCH_ROWS, rows)
    names = [tensor.name for tensor in signature.outputs]
    parts: dict[str, list[Any]] = {output: [] for output in names}
    for start in range(0, rows, size):
        # The last batch is filled up with its last row where the model fixes the batch size.
        wanted = min(size, rows - start)
        taken = np.minimum(np.arange(start, start + (size if fixed else wanted)), rows - 1)
        feeds = {column: as_fed(array[taken]) for column, array in golden.items()}
        try:
            values = session.run(names, feeds)
        except Exception as error:
            raise rows_error(f"{name}, golden rows from {start}", error) from error
        for output, value in zip(names, values, strict=True):
            require_batch(output, value, len(taken))
            parts[output].append(value[:wanted])
    return {output: np.concatenate(arrays) for output, arrays in parts.items()}


def as_fed(array: Any) -> Any:
    """Strings go to ONNX Runtime as objects; numbers as they are."""
    return array.astype(str).astype(object) if array.dtype.kind in "SU" else array


def rows_error(where: str, error: Exception) -> PodError:
    """The error for a model that fails on golden rows."""
    what = f"The model fails on the golden set ({where})"
    remedy = "correct the model, or the golden set if those rows are not valid inputs"
    return PodError("ModelInvalidError", what, found=first_line(error), remedy=remedy)


def require_batch(output: str, value: Any, rows: int) -> None:
    """Raises PodError (ModelInvalidError) unless an output has one row for each input row."""
    shape = getattr(value, "shape", ())
    if shape[:1] != (rows,):
        what = f"Output {output!r} does not have one row for each of {rows} input rows"
        remedy = "export the model with the batch as the first dimension of every input and output"
        raise PodError("ModelInvalidError", what, found=f"shape {list(shape)}", remedy=remedy)


def keep_reference(run: Run, golden: Mapping[str, Any], answer: Callable[[Mapping[str, Any]], Any]) -> None:
    """Writes what the source model answers to the golden set: its own runtime is the reference.

    Raises PodError (ModelInvalidError) when it does not give the same answers again. That is asked of every
    model: two sessions draw the same random numbers, so parity alone does not show it.
    """
    import numpy as np

    answers = answer(golden)
    again = answer({column: array[:BATCH_ROWS] for column, array in golden.items()})
    rule = Rule(abs_tolerance=run.options.abs_tolerance, rel_tolerance=run.options.rel_tolerance)
    for output, values in answers.items():
        entry = compare_output(output, values[:BATCH_ROWS], again[output], rule)
        if not entry["pass"]:
            what = "The source model answers the same rows differently from run to run"
            found = f"{output} differs by up to {entry['max_abs_diff']}"
            remedy = "export the model in inference mode, without random operators (dropout, sampling)"
            raise PodError("ModelInvalidError", what, found=found, remedy=remedy)
    # Text is kept as fixed-width strings: an archive of objects would be a pickle.
    text = {name: values.astype(str) for name, values in answers.items() if values.dtype == object}
    np.savez(run.folder / "reference.npz", **answers | text)


# -------- parity


def compare_output(name: str, source: Any, converted: Any, rule: Rule) -> dict[str, Any]:
    """The entry of one output in the parity table. NaN against a number counts as endlessly far."""
    import numpy as np

    rows = len(source)
    entry: dict[str, Any] = {"output": name, "rows": rows, "measure": rule.measure}
    if source.shape != converted.shape:
        shapes = {"source": f"shape {list(source.shape)}", "converted": f"shape {list(converted.shape)}"}
        entry |= {"max_abs_diff": None, "max_rel_diff": None, "within_share": 0.0, "least_share": 1.0}
        return entry | {"mismatched_rows": rows, "pass": False, "worst": [{"row": 0, **shapes}]}
    a, b = source.reshape(rows, -1), converted.reshape(rows, -1)
    difference, relative, outside = distances(a, b, rule)
    off, least = {"tolerance": outside.any(axis=1)}, {"tolerance": rule.within_min}
    entry |= {"max_abs_diff": plain(difference.max(initial=0.0))}
    entry |= {"max_rel_diff": plain(relative.max(initial=0.0))}
    entry |= {"within_share": float(1 - off["tolerance"].mean())}
    if a.dtype.kind != "f":
        off["top_k"], least["top_k"] = off["tolerance"], rule.agreement_min
    elif a.shape[1] > 1:
        cosines, first, best = cosine_of_rows(a, b), agrees_in_best(a, b, 1), agrees_in_best(a, b, rule.top_k)
        off |= {"cosine": ~(cosines >= rule.cosine_min), "top_k": ~best}
        least |= {"cosine": 1.0, "top_k": rule.agreement_min}
        entry |= {"cosine_min": plain(cosines.min()), "top_1_agreement": float(first.mean())}
        entry |= {"top_k": rule.top_k, "top_k_agreement": float(best.mean())}
    measure = rule.measure if rule.measure in off else "tolerance"
    wrong, share = off[measure], least[measure]
    entry |= {"measure": measure, "least_share": share, "pass": bool(1 - wrong.mean() >= share)}
    worst = worst_rows(a, b, wrong, np.nan_to_num(difference, nan=np.inf)) if wrong.any() else []
    return entry | {"mismatched_rows": int(wrong.sum()), "worst": worst}


def distances(a: Any, b: Any, rule: Rule) -> tuple[Any, Any, Any]:
    """Absolute and relative difference of each element, and whether it is too large; each (rows, elements).

    The relative one is against |source|, or the absolute tolerance where |source| is smaller. Whole numbers,
    truth values and strings must be equal.
    """
    import numpy as np

    if a.dtype.kind != "f":
        off = a.astype(str) != b.astype(str) if a.dtype.kind in "OSU" else a != b
        return off.astype(np.float64), off.astype(np.float64), off
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    # Equal infinities and two NaNs are alike; their difference would not be a number.
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    scale = np.maximum(np.abs(a), max(rule.abs_tolerance, float(np.finfo(np.float32).tiny)))
    with np.errstate(invalid="ignore", over="ignore"):
        difference = np.where(same, 0.0, np.abs(a - b))
        relative = np.where(same, 0.0, difference / scale)
        near = difference <= rule.abs_tolerance + rule.rel_tolerance * np.abs(a)
    return difference, relative, ~(same | (near & np.isfinite(difference)))


def cosine_of_rows(a: Any, b: Any) -> Any:
    """The cosine similarity of each pair of rows; 1 for equal rows, also for those of zeros."""
    import numpy as np

    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        cosines = (a * b).sum(axis=1) / lengths
    return np.where((a == b).all(axis=1), 1.0, np.where(lengths > 0, cosines, 0.0))


def agrees_in_best(a: Any, b: Any, k: int) -> Any:
    """Whether each of the converted model's `k` best classes is, by the source, among its `k` best; per row.

    Classes that tie in the source may stand for each other.
    """
    import numpy as np

    k = min(k, a.shape[1])
    threshold = np.sort(a, axis=1)[:, -k]
    chosen = np.argsort(-b, axis=1, kind="stable")[:, :k]
    best = (np.take_along_axis(a, chosen, axis=1) >= threshold[:, None]).all(axis=1)
    return best & np.isfinite(b).all(axis=1)


def worst_rows(a: Any, b: Any, off: Any, badness: Any) -> list[dict[str, Any]]:
    """The rows most off among those that are, each with its element that is most off."""
    import numpy as np

    order = np.argsort(-np.where(off, badness.max(axis=1), -1.0), kind="stable")[:WORST_ROWS]
    worst: list[dict[str, Any]] = []
    for row in (int(row) for row in order if off[row]):
        index = int(np.argmax(badness[row]))
        values = {"source": plain(a[row, index]), "converted": plain(b[row, index])}
        worst.append({"row": row, "index": index, **values})
        if a.dtype.kind == "f" and a.shape[1] > 1:
            worst[-1] |= {"source_best": int(a[row].argmax()), "converted_best": int(b[row].argmax())}
    return worst


def plain(value: Any) -> Any:
    """A NumPy scalar as JSON can hold it: not-a-number and infinities become strings."""
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def require_parity(parity: list[dict[str, Any]], options: argparse.Namespace) -> None:
    """Raises PodError (ParityRefusedError), which names the worst rows, unless every output passes."""
    failed = [entry for entry in parity if not entry["pass"]]
    if not failed:
        return
    wanted = {
        "tolerance": "a difference of at most {0.abs_tolerance:g} + {0.rel_tolerance:g} × |source|",
        "cosine": "a cosine similarity of at least {0.cosine_min:g}",
        "top_k": "the same best {0.top_k}",
    }
    expected, found = [], []
    for entry in failed:
        output, worst = entry["output"], entry["worst"][:3]
        limit = wanted[entry["measure"]].format(rule_for(output, options))
        expected.append(f"{output}: {limit} in {100 * entry['least_share']:g} % of the rows")
        counts = f"{entry['mismatched_rows']} of {entry['rows']} rows off, by up to {entry['max_abs_diff']}"
        rows = (f"row {row['row']}: expected {row['source']}, found {row['converted']}" for row in worst)
        found.append(f"{output}: {counts} ({'; '.join(rows)})")
    what = "The converted model does not answer as its source does"
    remedy = "look at the worst rows; use a higher precision, or widen conversion.parity if it is harmless"
    texts = {"expected": "; ".join(expected), "found": "; ".join(found)}
    raise PodError("ParityRefusedError", what, **texts, remedy=remedy)


# -------- what is said of the converted model


def examine(run: Run) -> dict[str, Any]:
    """Holds `model.onnx` against the reference, over the golden set: signature, parity table, latency."""
    path, name, options = run.folder / "model.onnx", "the converted model", run.options
    load_checked(path, name)
    session = open_session(path, name, optimise=True)
    signature = read_signature(session)
    golden = read_golden(run.folder / "golden.npz", options.golden, signature.inputs)
    reference = read_arrays(run.folder / "reference.npz", "the reference")
    answers = answer_all(session, signature, golden, name)
    unknown = {given["output"] for given in options.output_parity} - set(reference)
    if unknown:
        what = f"conversion.parity.outputs names what the model does not answer: {', '.join(sorted(unknown))}"
        raise PodError("UserError", what, expected=f"some of {', '.join(reference)}")
    # A rank that the model does not state is seen in what it answers.
    shapes = {output: tensor.shape for output, tensor in answers.items()}
    outputs = (
        tensor if tensor.shape else replace(tensor, shape=(-1, *shapes[tensor.name][1:]))
        for tensor in signature.outputs
    )
    return {
        "signature": asdict(replace(signature, outputs=tuple(outputs))),
        "parity": [
            compare_output(output, reference[output], answers[output], rule_for(output, options))
            for output in reference
        ],
        "latency": measure_latency(session, signature, golden),
    }


def measure_latency(session: Any, signature: Signature, golden: Mapping[str, Any]) -> dict[str, Any]:
    """How long the converted model takes for one golden row after the other, by ONNX Runtime in this pod."""
    rows, size = len(next(iter(golden.values()))), fixed_batch(signature) or 1
    taken_ms: list[float] = []
    ends_at = time.monotonic() + LATENCY_LIMIT_S
    # The first one warms up, and does not count.
    for turn in range(-1, LATENCY_RUNS):
        feeds = {column: as_fed(array[[turn % rows] * size]) for column, array in golden.items()}
        started = time.perf_counter()
        session.run(None, feeds)
        if turn >= 0:
            taken_ms.append(1000 * (time.perf_counter() - started))
        if taken_ms and time.monotonic() > ends_at:
            break
    taken_ms.sort()
    p50, p99 = (taken_ms[math.ceil(share * len(taken_ms)) - 1] for share in (0.5, 0.99))
    what = "in process, on the conversion pod's CPU: to compare variants, no benchmark of a server"
    figures = {"batch_size": size, "runs": len(taken_ms), "p50_ms": round(p50, 4), "p99_ms": round(p99, 4)}
    return {"what": what, **figures}


def described(path: Path) -> dict[str, Any]:
    """Name, size and SHA-256 of a file that was made."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"file": path.name, "size_bytes": path.stat().st_size, "sha256": digest}


def software_list() -> dict[str, Any]:
    """The Python packages of this image as a CycloneDX 1.6 document, sorted by name."""
    components: dict[str, Any] = {}
    for package in importlib.metadata.distributions():
        name, version = package.metadata["Name"], package.version
        purl = f"pkg:pypi/{re.sub(r'[-_.]+', '-', name).lower()}@{version.replace('+', '%2B')}"
        about = {"name": name, "version": version, "purl": purl}
        components[purl] = {"type": "library", "bom-ref": purl, **about}
    program = {"type": "application", "name": Path(__file__).name}
    listed = [components[purl] for purl in sorted(components)]
    head = {"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1}
    return {**head, "metadata": {"component": program}, "components": listed}


# -------- the run


def work(run: Run, result: dict[str, Any]) -> None:
    """Downloads, converts, compares, uploads the model; fills in `result` on the way. Raises PodError."""
    options, model = run.options, run.folder / "model.onnx"
    # A result of an earlier attempt must never be taken for this one's.
    with store_errors(f"{options.destination}/result.json") as (bucket, key):
        run.client.delete_object(Bucket=bucket, Key=key)
    run.fetch(options.golden, "golden.npz")
    result.update(convert(run))
    result.update(run.tool("compare", lambda: examine(run)))
    result["model"] = described(model)
    require_parity(result["parity"], options)
    say("parity", f"{result['parity'][0]['rows']} rows alike in {len(result['parity'])} outputs")
    run.put(model)


def report(run: Run, result: dict[str, Any], failure: PodError | None, seconds: float) -> PodError | None:
    """Uploads the list of software and, last, the result; returns why the run failed, if it did."""
    options, listed, told = run.options, run.folder / "sbom.json", run.folder / "result.json"
    listed.write_text(json.dumps(software_list(), indent=1, sort_keys=True))
    stored = [result["model"]] if failure is None else []
    python = {"python": platform.python_version()}
    head = {
        "outcome": "pass" if failure is None else "refused" if failure.exit_code == 4 else "error",
        "error": asdict(failure) if failure else None,
        "precision": options.precision,
        "files": [*stored, described(listed)],
        "tools": python | {name: importlib.metadata.version(name) for name in options.packages},
        "seconds": round(seconds, 3),
    }
    told.write_text(json.dumps({**head, **result}, indent=2, allow_nan=False))
    if failure is not None and failure.kind == "StoreUnavailableError":
        return failure
    try:
        run.put(listed)
        run.put(told)
    except PodError as error:
        return failure or error
    return failure


def main(argv: list[str] | None = None) -> int:
    """Runs the program; returns its exit code."""
    options = arguments(argv)
    started = time.monotonic()
    result: dict[str, Any] = {}
    failure: PodError | None = None
    with tempfile.TemporaryDirectory(prefix="convert-") as folder:
        run = Run(options, s3_client(), Path(folder), options.timeout_s)
        try:
            work(run, result)
        except PodError as error:
            failure = error
        except Exception as error:  # whatever it is, the result must tell
            failure = unexpected(error)
        failure = report(run, result, failure, time.monotonic() - started)
    if failure is not None:
        print(f"error: {failure}", file=sys.stderr, flush=True)
    else:
        say("done", f"{time.monotonic() - started:.1f} s")
    return failure.exit_code if failure else 0


if __name__ == "__main__":
    raise SystemExit(main())

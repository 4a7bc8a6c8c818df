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
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from slipway_pod.conversion.frame import converter_parser, run_onnx_converter
from slipway_pod.conversion.reference import keep_reference, read_golden_of
from slipway_pod.conversion.run import MODEL_FILE, ConversionRun
from slipway_pod.errors import PodError, first_line
from slipway_pod.estimators.graph import tidy
from slipway_pod.estimators.lightgbm import LIGHTGBM
from slipway_pod.estimators.scikit_learn import SKLEARN
from slipway_pod.estimators.xgboost import XGBOOST
from slipway_pod.models.onnx_files import load_checked, open_session, read_signature, save
from slipway_pod.program.progress import say

PACKAGES = ("numpy", "onnx", "onnxruntime")
PICKLES = (".pkl", ".pickle", ".joblib")
LIBRARIES = {"sklearn": SKLEARN, "xgboost": XGBOOST, "lightgbm": LIGHTGBM}


def arguments(argv: list[str] | None) -> argparse.Namespace:
    """Parse and check the command line; exit with code 2 where it is wrong."""
    parser = converter_parser(__doc__)
    add = parser.add_argument
    add("--library", required=True, choices=sorted(LIBRARIES), help="that the model is of")
    add("--trusted", action="store_true", help="the file is trusted: it may be unpickled")
    add("--input", default="X", help="the name that the model's one input gets (%(default)s)")
    text = "sklearn: a type in a .skops file that you trust and skops does not by default; can be repeated"
    add("--trusted-type", action="append", default=[], metavar="TYPE", help=text)
    options = parser.parse_args(argv)
    if options.trusted_type and options.library != "sklearn":
        parser.error("--trusted-type is only for --library sklearn")
    return options


def convert(run: ConversionRun) -> dict[str, Any]:
    """Make `model.onnx` and the reference of the source; return its part of the result."""
    # The libraries tell formats by the end of the name.
    suffix = Path(run.options.source).suffix.lower()
    require_known_format(suffix, run.options)
    path = run.fetch(run.options.source, f"source{suffix}")
    made: dict[str, Any] = run.tool("convert", lambda: convert_loaded(run, path))
    return made


def require_known_format(suffix: str, options: argparse.Namespace) -> None:
    """Raise PodError (UserError, ModelInvalidError) for a pickle that is not trusted, or an unknown format."""
    library = LIBRARIES[options.library]
    if suffix in PICKLES and not options.trusted:
        raise PodError(
            "UserError",
            f"{options.source} is a pickle, and is not unpickled: a pickle can run any code in this pod, "
            "with its rights on the bucket",
            expected=f"a format that holds data only ({', '.join(library.safe_formats)}), or trusted: true",
            found=f"a {suffix} file that is not marked as trusted",
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


def convert_loaded(run: ConversionRun, path: Path) -> dict[str, Any]:
    """Load the source, write `model.onnx`, and keep what the source answers by its own runtime."""
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
    """Return the model of a file whose format is allowed.

    :raises PodError: of kind UserError or ModelInvalidError.
    """
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
    """Turn scikit-learn's warning about a model of another version into an error: it may answer wrongly.

    The source is the reference, so parity would not show it.
    """
    from sklearn.exceptions import InconsistentVersionWarning

    with warnings.catch_warnings():
        warnings.simplefilter("error", InconsistentVersionWarning)
        yield


def main(argv: list[str] | None = None) -> int:
    """Run the program; return its exit code."""
    options = arguments(argv)
    packages = (*PACKAGES, *LIBRARIES[options.library].packages)
    return run_onnx_converter(options, convert, packages, by_library=True)


if __name__ == "__main__":
    raise SystemExit(main())

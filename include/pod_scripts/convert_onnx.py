#!/usr/bin/env python3
"""Converts an ONNX model for serving: check, simplify, optimise, fp16 or int8, compare with the source.

Reads the model and the golden set from S3, writes `model.onnx`, `sbom.json` (the packages of this image) and,
last, `result.json` under the destination. The result is written whatever happened, as long as S3 answers.
Every tool runs in a separate process, which ends when it takes too long or too much memory.

Exit codes: 0 done; 2 wrong usage; 3 the input is bad; 4 the converted model answers otherwise than its
source; 75 try again later (S3 does not answer, time is up); 1 an error in this program.
"""

from __future__ import annotations

import argparse
from typing import Any

from slipway_pod.conversion.frame import converter_parser, run_onnx_converter
from slipway_pod.conversion.onnx_source import fetch_onnx
from slipway_pod.conversion.precision import (
    PRECISIONS,
    check_precision,
    fetch_calibration,
    precision_arguments,
)
from slipway_pod.conversion.reference import keep_onnx_reference
from slipway_pod.conversion.rewrite import rewrite
from slipway_pod.conversion.run import ConversionRun

SOURCE_FILE = "source.onnx"
# The ONNX Runtime backend of Triton has no such type between a client and a model.
NOT_CARRIED = ("BF16",)
PACKAGES = ("numpy", "onnx", "onnxruntime", "onnxslim")


def arguments(argv: list[str] | None) -> argparse.Namespace:
    """Parse and check the command line; exit with code 2 where it is wrong."""
    parser = converter_parser(__doc__, PRECISIONS)
    precision_arguments(parser)
    options = parser.parse_args(argv)
    check_precision(parser, options)
    return options


def convert(run: ConversionRun) -> dict[str, Any]:
    """Make `model.onnx` and the reference of the source; return its part of the result."""
    path = fetch_onnx(run, SOURCE_FILE)
    fetch_calibration(run)
    _, effect = run.tool("check", lambda: keep_onnx_reference(run, path, not_carried=NOT_CARRIED))
    return {"optimisation": effect, **rewrite(run, path)}


def again(run: ConversionRun) -> dict[str, Any]:
    """Make `model.onnx` once more, without the passes that nobody has asked for."""
    return rewrite(run, run.folder / SOURCE_FILE, plainly=True)


def main(argv: list[str] | None = None) -> int:
    """Run the program; return its exit code."""
    return run_onnx_converter(arguments(argv), convert, PACKAGES, plainly=again)


if __name__ == "__main__":
    raise SystemExit(main())

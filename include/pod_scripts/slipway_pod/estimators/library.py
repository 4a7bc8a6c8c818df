"""The operations that the converter of estimators needs from a library."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Library:
    """The operations of one library.

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

"""Estimators of three libraries, made to ONNX."""

from __future__ import annotations

from typing import ClassVar, Literal

from slipway_core.spec.conversion.conversion import MeasuredSettings, Uri
from slipway_core.spec.parts import Text

Library = Literal["sklearn", "xgboost", "lightgbm"]


class EstimatorSettings(MeasuredSettings):
    """What the three libraries of estimators have in common: one table of float32 goes in."""

    default_image: ClassVar[str] = "sklearn"
    program: ClassVar[str] = "convert_estimator.py"
    library: ClassVar[Library]

    precision: Literal["fp32"] = "fp32"
    """Trees compare with thresholds: there is nothing that a lower precision would make faster."""
    trusted: bool = False
    """The source may be a pickle (.pkl, .pickle, .joblib), which can run any code in the conversion's pod with
    the pod's rights on the bucket. Not needed for the libraries' own formats.
    """
    input: Text = "X"
    """The name that the model's one input gets; the golden column has the same."""

    def target_arguments(self, uri: Uri) -> list[str]:
        """Return the library, the input's name, and whether the source is trusted."""
        given = ["--library", self.library, "--precision", self.precision, "--input", self.input]
        return [*given, *(["--trusted"] if self.trusted else [])]

"""`target: lightgbm`: a LightGBM model, to ONNX."""

from __future__ import annotations

from typing import ClassVar, Literal

from slipway_core.spec.conversion.conversion import conversion_target
from slipway_core.spec.conversion.estimators import EstimatorSettings, Library


@conversion_target
class LightgbmConversion(EstimatorSettings):
    """A LightGBM model, to ONNX."""

    source_formats: ClassVar[tuple[str, ...]] = ("lightgbm",)
    library: ClassVar[Library] = "lightgbm"
    target: Literal["lightgbm"] = "lightgbm"

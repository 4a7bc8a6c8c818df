"""`target: xgboost`: an XGBoost model, to ONNX."""

from __future__ import annotations

from typing import ClassVar, Literal

from slipway_core.spec.conversion.conversion import conversion_target
from slipway_core.spec.conversion.estimators import EstimatorSettings, Library


@conversion_target
class XgboostConversion(EstimatorSettings):
    """An XGBoost model, to ONNX."""

    source_formats: ClassVar[tuple[str, ...]] = ("xgboost",)
    library: ClassVar[Library] = "xgboost"
    target: Literal["xgboost"] = "xgboost"

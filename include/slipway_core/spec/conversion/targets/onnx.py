"""`target: onnx`: an ONNX model, checked and optimised."""

from __future__ import annotations

from typing import ClassVar, Literal

from slipway_core.spec.conversion.conversion import conversion_target
from slipway_core.spec.conversion.networks import NetworkSettings


@conversion_target
class OnnxConversion(NetworkSettings):
    """ONNX: checked, simplified, optimised, in the precision that is asked for."""

    made_of_onnx: ClassVar[str | None] = "model.onnx"
    widens_single_numbers: ClassVar[bool] = True
    source_formats: ClassVar[tuple[str, ...]] = ("onnx",)
    default_image: ClassVar[str] = "onnx"
    program: ClassVar[str] = "convert_onnx.py"
    target: Literal["onnx"] = "onnx"

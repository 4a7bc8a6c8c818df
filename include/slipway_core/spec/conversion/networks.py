"""Networks, made to ONNX in the precision that is asked for: from ONNX and from PyTorch."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import model_validator

from slipway_core.spec.conversion.conversion import MeasuredSettings, Uri
from slipway_core.spec.parts import FileName, SpecPart, Text


class Quantization(SpecPart):
    """How int8 is reached."""

    method: Literal["dynamic", "static"] = "dynamic"
    """`dynamic`: activations are scaled again in each request. `static`: with scales taken from calibration
    rows, which is faster and needs them.
    """
    calibration_file: FileName | None = None
    """`static`: rows of training data in the model's folder, an .npz with one array for each input. Not the golden
    set: parity would be measured on what the scales were fitted to.
    """
    calibration_method: Literal["minmax", "entropy", "percentile"] = "minmax"
    per_channel: bool = False
    """A scale for each channel of a weight: more exact, and not known to every runtime."""

    @model_validator(mode="after")
    def _calibrated(self) -> Self:
        if (self.method == "static") != (self.calibration_file is not None):
            raise ValueError("calibration_file belongs to `method: static`, which needs it")
        return self


class NetworkSettings(MeasuredSettings):
    """What networks share: their precision; what goes in and comes out stays as it is."""

    precision: Literal["fp32", "fp16", "int8"] = "fp32"
    quantization: Quantization = Quantization()
    keep_fp32: tuple[Text, ...] = ()
    """Names of nodes to leave unchanged because a lower precision would cost too much accuracy."""

    @model_validator(mode="after")
    def _quantised(self) -> Self:
        if self.quantization != Quantization() and self.precision != "int8":
            raise ValueError("quantization belongs to `precision: int8`")
        return self

    def target_arguments(self, uri: Uri) -> list[str]:
        """Return the precision, and how it is reached."""
        given = ["--precision", self.precision]
        for node in self.keep_fp32:
            given += ["--keep-fp32", node]
        if self.precision == "int8":
            quantization = self.quantization
            given += ["--quantization", quantization.method]
            given += ["--calibration-method", quantization.calibration_method]
            if quantization.calibration_file is not None:
                given += ["--calibration", uri(quantization.calibration_file)]
            given += ["--per-channel"] if quantization.per_channel else []
        return given

    @property
    def scales_each_request(self) -> bool:
        """Return whether it is made int8 without calibration rows."""
        return self.precision == "int8" and self.quantization.method == "dynamic"

    def files(self) -> tuple[str, ...]:
        """Return the calibration rows of static int8."""
        file = self.quantization.calibration_file
        return () if file is None else (file,)

"""Networks, made to ONNX in the precision that is asked for: from ONNX and from PyTorch."""

from __future__ import annotations

import json
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from slipway_core.spec.conversion.target import MeasuredSettings, Uri
from slipway_core.spec.parts import FileName, SpecPart, Text


class Quantization(SpecPart):
    """How int8 is reached."""

    method: Literal["dynamic", "static"] = "dynamic"
    """`dynamic`: activations are scaled anew in each request. `static`: with scales taken from calibration
    rows, which is faster and needs them.
    """
    calibration_file: FileName | None = None
    """`static`: rows of training data beside the model, an .npz with one array for each input. Not the golden
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
    """Names of nodes to leave as they are, where a lower precision costs too much accuracy."""

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
        """Tell whether it is made int8 without calibration rows."""
        return self.precision == "int8" and self.quantization.method == "dynamic"

    def files(self) -> tuple[str, ...]:
        """Return the calibration rows of static int8."""
        file = self.quantization.calibration_file
        return () if file is None else (file,)


class OnnxConversion(NetworkSettings):
    """ONNX: checked, simplified, optimised, in the precision that is asked for."""

    source_formats: ClassVar[tuple[str, ...]] = ("onnx",)
    default_image: ClassVar[str] = "onnx"
    program: ClassVar[str] = "convert_onnx.py"
    target: Literal["onnx"] = "onnx"


class PytorchConversion(NetworkSettings):
    """A PyTorch model, to ONNX."""

    source_formats: ClassVar[tuple[str, ...]] = ("pytorch",)
    default_image: ClassVar[str] = "pytorch"
    program: ClassVar[str] = "convert_pytorch.py"
    target: Literal["pytorch"] = "pytorch"

    format: Literal["torchscript", "export", "state_dict"] = "torchscript"
    """`torchscript` holds no Python code. `export` (.pt2) is unpickled, and for `state_dict` the module's file
    is run: both need `trusted: true`.
    """
    trusted: bool = False
    """The source may run code in the conversion's pod, with the pod's rights on the bucket."""
    module: Annotated[str, Field(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*$")] | None = None
    """`state_dict`: the module's class, as `package.module:Class`."""
    module_file: FileName | None = None
    """`state_dict`: the Python file with the class, beside the model."""
    module_arguments: dict[str, str | int | float | bool | None] = Field(default_factory=dict)
    """`state_dict`: what the class's constructor gets, by name."""
    inputs: tuple[Text, ...] = ()
    """The golden columns that forward takes, in order; by default those named like its arguments."""
    outputs: tuple[Text, ...] = ()
    """Names for what forward returns, in order; by default a dictionary's keys, else output or output_0, ..."""

    @model_validator(mode="after")
    def _loadable(self) -> Self:
        named = (self.module is not None, self.module_file is not None)
        if named != ((self.format == "state_dict"),) * 2:
            raise ValueError("module and module_file belong to `format: state_dict`, which needs both")
        if self.format != "torchscript" and not self.trusted:
            raise ValueError(f"`format: {self.format}` runs code from the source: it needs `trusted: true`")
        return self

    def target_arguments(self, uri: Uri) -> list[str]:
        """Return how the source is read, and the precision."""
        given = ["--format", self.format, *(["--trusted"] if self.trusted else [])]
        if self.module is not None and self.module_file is not None:
            given += ["--module", self.module, "--module-file", uri(self.module_file)]
            given += ["--module-arguments", json.dumps(self.module_arguments, sort_keys=True)]
        for option, names in (("--inputs", self.inputs), ("--outputs", self.outputs)):
            given += [option, ",".join(names)] if names else []
        return [*given, *super().target_arguments(uri)]

    def files(self) -> tuple[str, ...]:
        """Return the module's file, and the calibration rows of static int8."""
        module = () if self.module_file is None else (self.module_file,)
        return (*module, *super().files())

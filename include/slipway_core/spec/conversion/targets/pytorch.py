"""`target: pytorch`: a PyTorch model, to ONNX."""

from __future__ import annotations

import json
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from slipway_core.spec.conversion.conversion import Uri, conversion_target
from slipway_core.spec.conversion.networks import NetworkSettings
from slipway_core.spec.parts import FileName, Text


@conversion_target
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
    """`state_dict`: the Python file with the class, in the model's folder."""
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

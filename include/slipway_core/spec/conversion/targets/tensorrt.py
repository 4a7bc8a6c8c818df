"""`target: tensorrt`: an engine, built by TensorRT for one kind of GPU."""

from __future__ import annotations

import json
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from slipway_core.spec.conversion.conversion import Uri, conversion_target
from slipway_core.spec.conversion.engines import EngineSettings, Mebibytes, S3Url, ShapeRange, flags, given
from slipway_core.spec.conversion.parity import ParityRules
from slipway_core.spec.parts import Count


@conversion_target
class TensorRtConversion(EngineSettings):
    """An engine, built from ONNX for one kind of GPU. Not run on a GPU yet."""

    made_of_onnx: ClassVar[str | None] = "model.plan"
    compares: ClassVar[bool] = True
    makes_engine: ClassVar[bool] = True
    source_formats: ClassVar[tuple[str, ...]] = ("onnx",)
    program: ClassVar[str] = "convert_tensorrt.py"
    default_image: ClassVar[str] = "tensorrt"
    target: Literal["tensorrt"] = "tensorrt"

    precision: Literal["fp32", "fp16", "int8"] = "fp16"
    max_batch_size: Count = 64
    """Of the profile for a model in which only the batch size varies."""
    opt_batch_size: Count | None = None
    """The batch that this profile is tuned for; default: the largest."""
    profiles: tuple[dict[str, ShapeRange], ...] = ()
    """Optimisation profiles, each with the shapes of every input."""
    calibration: S3Url | None = None
    """With int8: rows of training data (.npz), from which the scales are taken."""
    calibration_cache: S3Url | None = None
    """With int8: a prefix where scales are kept, by the source's SHA-256; read if they are there, else written."""
    timing_cache: S3Url | None = None
    """A prefix where timings are kept from build to build, by GPU and TensorRT."""
    workspace_mib: Mebibytes | None = None
    """GPU memory for scratch space; default: all there is."""
    builder_optimization_level: Annotated[int, Field(ge=0, le=5)] = 3
    tf32: bool = False
    sparse_weights: bool = False
    refittable: bool = False
    version_compatible: bool = False
    """Later versions of the same major TensorRT may load the engine; it may be slower."""
    hardware_compatibility: Literal["none", "same_compute_capability", "ampere_plus"] = "none"
    precision_constraints: Literal["none", "prefer", "obey"] = "none"
    tactic_sources: tuple[
        Literal["cublas", "cublas_lt", "cudnn", "edge_mask_convolutions", "jit_convolutions"], ...
    ] = ()
    max_aux_streams: Annotated[int, Field(ge=0, le=64)] | None = None
    parity: ParityRules = ParityRules()

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        has_scales = self.calibration is not None or self.calibration_cache is not None
        if self.precision == "int8" and not has_scales:
            raise ValueError("`precision: int8` needs `calibration` or `calibration_cache`")
        if self.precision != "int8" and has_scales:
            raise ValueError("`calibration` and `calibration_cache` are only for `precision: int8`")
        if self.opt_batch_size is not None and self.opt_batch_size > self.max_batch_size:
            raise ValueError(f"`opt_batch_size` is above `max_batch_size: {self.max_batch_size}`")
        return self

    def converter_arguments(self, uri: Uri) -> list[str]:
        """Return how the engine is built, the tolerances and the limit on memory."""
        arguments = ["--precision", self.precision, "--max-batch-size", str(self.max_batch_size)]
        for profile in self.profiles:
            text = json.dumps({name: shapes.model_dump(mode="json") for name, shapes in profile.items()})
            arguments += ["--profile", text]
        arguments += given(
            self, "opt_batch_size", "calibration", "calibration_cache", "timing_cache", "workspace_mib",
            "builder_optimization_level", "hardware_compatibility", "precision_constraints",
            "max_aux_streams",
        )  # fmt: skip
        for source in self.tactic_sources:
            arguments += ["--tactic-source", source]
        arguments += flags(self, "tf32", "sparse_weights", "refittable", "version_compatible")
        return [*arguments, *self.parity.arguments(), *self.memory_arguments()]

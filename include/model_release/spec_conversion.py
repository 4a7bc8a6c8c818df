"""The release file's `source` and `conversion`: what training leaves, and what is made of it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from include.model_release.spec_parts import FileName, ImageReference, PodSettings, SpecPart


class Source(SpecPart):
    """What training leaves under incoming/MODEL/VERSION/."""

    format: Literal["onnx"] = "onnx"
    model_file: FileName = "model.onnx"
    golden_file: FileName = "golden.npz"
    """Inputs with known answers: one array per model input and one with labels, all with the same number of
    rows.
    """


class Parity(SpecPart):
    """How far the converted model's answers may be from the source's: |a - b| <= abs + rel * |a|."""

    abs_tolerance: Annotated[float, Field(ge=0)] = 1e-4
    rel_tolerance: Annotated[float, Field(ge=0)] = 1e-3


class Conversion(PodSettings):
    """The pod that turns the source into what Triton serves."""

    target: Literal["onnx"] = "onnx"
    precision: Literal["fp32"] = "fp32"
    image: ImageReference = "slipway/onnx:0.1.0"
    parity: Parity = Parity()

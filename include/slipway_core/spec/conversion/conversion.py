"""The release file's `conversion`: one of the targets, chosen by `target`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import ConfigDict, Discriminator, Tag, TypeAdapter

from slipway_core.spec.conversion.estimators import (
    LightgbmConversion,
    SklearnConversion,
    XgboostConversion,
)
from slipway_core.spec.conversion.networks import OnnxConversion, PytorchConversion
from slipway_core.spec.conversion.repositories import EnsembleConversion, PythonConversion
from slipway_core.spec.conversion.target import OPTIONAL
from slipway_core.spec.conversion.tensorrt import TensorRtConversion, TensorRtLlmConversion
from slipway_core.spec.parts import merged


def _target_of(value: Any) -> Any:
    """Tell the classes apart by `target`; a file that names none means ONNX."""
    return value.get("target", "onnx") if isinstance(value, Mapping) else getattr(value, "target", None)


Conversion = Annotated[
    Annotated[OnnxConversion, Tag("onnx")]
    | Annotated[SklearnConversion, Tag("sklearn")]
    | Annotated[XgboostConversion, Tag("xgboost")]
    | Annotated[LightgbmConversion, Tag("lightgbm")]
    | Annotated[PytorchConversion, Tag("pytorch")]
    | Annotated[PythonConversion, Tag("python")]
    | Annotated[EnsembleConversion, Tag("ensemble")]
    | Annotated[TensorRtConversion, Tag("tensorrt")]
    | Annotated[TensorRtLlmConversion, Tag("tensorrt_llm")],
    Discriminator(_target_of),
]
"""The pod that turns the source into what Triton serves, by target."""

_CONVERSION: TypeAdapter[Conversion] = TypeAdapter(Conversion, config=ConfigDict(defer_build=True))


def variant_of(conversion: Conversion, name: str) -> Conversion:
    """Return the conversion of one of its variants.

    :raises pydantic.ValidationError: where its keys make none.
    """
    written = conversion.model_dump(mode="json", exclude_unset=True, exclude={"variants", "choose"})
    changed = {key: value for key, value in conversion.variants[name].items() if key != OPTIONAL}
    return _CONVERSION.validate_json(json.dumps(merged(written, changed)))

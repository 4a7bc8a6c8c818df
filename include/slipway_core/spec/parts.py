"""What every part of the release file is made of: strict values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from slipway_rules.text_forms import is_dns_label

_QUANTITY = re.compile(r"[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?")
_IMAGE = re.compile(r"[a-z0-9][a-z0-9._/:-]*(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}|@sha256:[0-9a-f]{64})")
_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_UNITS = {
    "m": Fraction(1, 1000),
    "": Fraction(1),
    **{unit: Fraction(1000) ** power for power, unit in enumerate(("k", "M", "G", "T", "P", "E"), start=1)},
    **{
        unit: Fraction(1024) ** power
        for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), start=1)
    },
}


def _dns_label(text: str) -> str:
    if not is_dns_label(text):
        raise ValueError("must be lower-case letters, digits and inner hyphens, at most 63 characters")
    return text


def _file_name(text: str) -> str:
    if not _FILE_NAME.fullmatch(text) or ".." in text:
        raise ValueError("must be the plain name of a file in the folder of ready.json, such as model.onnx")
    return text


def _image_reference(text: str) -> str:
    if not _IMAGE.fullmatch(text):
        raise ValueError("must be an image with a tag or digest, such as slipway/onnx:0.1.0")
    if text.endswith(":latest"):
        raise ValueError("must not be tagged `latest`: a release names what it runs")
    return text


def _quantity_text(value: object) -> object:
    # `cpu: 1` is what people write; Kubernetes wants text.
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return str(value) if is_number else value


def _quantity(text: str) -> str:
    if not _QUANTITY.fullmatch(text):
        raise ValueError("must be a Kubernetes quantity, such as 500m, 2 or 2Gi")
    return text


def size_of(quantity: str) -> Fraction:
    """Return a Kubernetes quantity as a number: of bytes, where it is one of memory."""
    number = quantity.rstrip("mkMGTPEi")
    return Fraction(number) * _UNITS[quantity.removeprefix(number)]


DnsLabel = Annotated[str, AfterValidator(_dns_label)]
FileName = Annotated[str, AfterValidator(_file_name)]
ImageReference = Annotated[str, AfterValidator(_image_reference)]
Quantity = Annotated[str, BeforeValidator(_quantity_text), AfterValidator(_quantity)]
Text = Annotated[str, Field(min_length=1)]
EnvironmentName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
Count = Annotated[int, Field(ge=1, le=1_000_000)]
Seconds = Annotated[int, Field(ge=1, le=7 * 24 * 3600)]
Milliseconds = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]
Percent = Annotated[float, Field(ge=0, le=100)]


class SpecPart(BaseModel):
    """A piece of the release file: unknown keys are errors, values do not change and are not guessed at."""

    # Built when one is first read: importing a DAG reads none.
    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
        defer_build=True,
    )

    def filled(self, **derived: Any) -> Self:
        """Return a copy with defaults that follow from other keys; they do not count as given by the user."""
        copy = self.model_copy()
        copy.__dict__.update(derived)
        return copy


def merged(base: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` with `overrides` laid over it: mappings merge, all else replaces."""
    result = dict(base)
    for key, value in overrides.items():
        below = result.get(key)
        both = isinstance(below, Mapping) and isinstance(value, Mapping)
        result[key] = merged(below, value) if both else value  # type: ignore[arg-type]
    return result

"""A model's configuration between its JSON form and config.pbtxt, by Triton's own protobuf message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.protobuf import json_format, text_format  # type: ignore[import-untyped, unused-ignore]
from tritonclient.grpc import model_config_pb2  # type: ignore[import-untyped, unused-ignore]

from include.model_release.errors import ModelInvalidError
from include.model_release.model_config import INTEGER_FIELDS


def to_pbtxt(config: Mapping[str, Any]) -> str:
    """Return the text of config.pbtxt for `config`; the same configuration always gives the same text.

    Raises ModelInvalidError for a field that Triton's ModelConfig does not have.
    """
    message = model_config_pb2.ModelConfig()
    try:
        json_format.ParseDict(dict(config), message)
    except json_format.ParseError as error:
        raise ModelInvalidError(
            f"the configuration of {config.get('name') or 'the model'} cannot be written as config.pbtxt",
            expected="the fields of Triton's ModelConfig",
            found=str(error),
            remedy="Correct the field, or update tritonclient if the field is newer than it.",
        ) from error
    text: str = text_format.MessageToString(message, use_short_repeated_primitives=True)
    return text


def from_pbtxt(text: str) -> dict[str, Any]:
    """Return config.pbtxt's content in the JSON form, with numbers as numbers. Raises ModelInvalidError."""
    try:
        message = text_format.Parse(text, model_config_pb2.ModelConfig())
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise ModelInvalidError(
            "config.pbtxt cannot be read",
            expected="a text of Triton's ModelConfig",
            found=str(error),
            remedy="Correct that line, or publish the version again under a new number.",
        ) from error
    config: dict[str, Any] = _with_numbers(
        json_format.MessageToDict(message, preserving_proto_field_name=True)
    )
    return config


def _with_numbers(value: Any, field: str = "") -> Any:
    """Turn the 64-bit numbers that protobuf's JSON writes as text back into numbers."""
    if isinstance(value, dict):
        return {key: _with_numbers(item, key) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_numbers(item, field) for item in value]
    return int(value) if field in INTEGER_FIELDS and isinstance(value, str) else value

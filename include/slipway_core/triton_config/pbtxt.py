"""A model's configuration between its JSON form and config.pbtxt, by Triton's own protobuf message."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import SimpleNamespace
from typing import Any

from slipway_core.errors import ModelInvalidError
from slipway_core.triton_config.fields import with_numbers

# An ensemble of hundreds of steps is a tenth of it; what is beyond is another file, or an attack on the parser.
SIZE_LIMIT = 256 * 1024
ENTRIES_LIMIT = 1000
_FOUND_LIMIT = 300


@cache
def _protobuf() -> SimpleNamespace:
    """Return protobuf and Triton's messages, which are imported late: a parse of a DAG does not need them."""
    from google.protobuf import json_format, text_format  # type: ignore[import-untyped, unused-ignore]
    from tritonclient.grpc import model_config_pb2  # type: ignore[import-untyped, unused-ignore]

    return SimpleNamespace(json=json_format, text=text_format, ModelConfig=model_config_pb2.ModelConfig)


def to_pbtxt(config: Mapping[str, Any]) -> str:
    """Return the text of config.pbtxt for `config`; the same configuration always gives the same text.

    Fields come in the order of Triton's ModelConfig, maps in that of their keys, and a field with its
    default value is left out.

    :raises ModelInvalidError: for a field that ModelConfig does not have, and for two that exclude each other.
    """
    protobuf = _protobuf()
    message = protobuf.ModelConfig()
    try:
        protobuf.json.ParseDict(dict(config), message)
    except protobuf.json.ParseError as error:
        raise ModelInvalidError(
            f"the configuration of {config.get('name') or 'the model'} cannot be written as config.pbtxt",
            expected="the fields of Triton's ModelConfig",
            found=str(error),
            remedy="Correct the field, or update tritonclient if the field is newer than it.",
        ) from error
    text: str = protobuf.text.MessageToString(message, use_short_repeated_primitives=True)
    return text


def from_pbtxt(text: str | bytes, name: str = "config.pbtxt") -> dict[str, Any]:
    """Return config.pbtxt's content in the JSON form, with numbers as numbers.

    Values in bytes must be UTF-8; comments may be in any encoding, as Triton's own parser takes them.

    :param name: what the error calls the file.
    :raises ModelInvalidError: where it cannot be read; it tells line and column.
    """
    protobuf = _protobuf()
    if len(text) > SIZE_LIMIT:
        raise _unreadable(name, f"at most {SIZE_LIMIT} characters", str(len(text)))
    try:
        # What is not UTF-8 stays as surrogates: no field takes them, and a comment is not kept.
        content = text.decode(errors="surrogateescape") if isinstance(text, bytes) else text
        message = protobuf.text.Parse(content, protobuf.ModelConfig())
        config = protobuf.json.MessageToDict(message, preserving_proto_field_name=True)
    except (protobuf.text.ParseError, protobuf.json.Error, ValueError, RecursionError) as error:
        # ValueError: it is not UTF-8, or holds a number of thousands of digits.
        raise _unreadable(name, "a text of Triton's ModelConfig", str(error)) from error
    longest = max((len(value) for value in config.values() if isinstance(value, list | dict)), default=0)
    if longest > ENTRIES_LIMIT:
        # The checks hold each against each.
        raise _unreadable(name, f"at most {ENTRIES_LIMIT} entries in a list", str(longest))
    return with_numbers(config)


def _unreadable(name: str, expected: str, found: str) -> ModelInvalidError:
    found = found.encode(errors="replace").decode()
    return ModelInvalidError(
        f"{name} cannot be read",
        expected=expected,
        found=found if len(found) <= _FOUND_LIMIT else f"{found[:_FOUND_LIMIT]}…",
        remedy="Correct that line, or publish the version again under a new number.",
    )

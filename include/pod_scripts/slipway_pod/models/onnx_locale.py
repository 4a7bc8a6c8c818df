"""The locale of text operators in an ONNX model: servers have one that every image has, and no other.

Also of a model in an image without the `onnx` package, by the few fields of its protobuf that this takes; all others
are kept as they are.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from slipway_pod.errors import PodError
from slipway_rules.onnx_models import PORTABLE_LOCALE, has_own_rules, normalizers, special_locale

# What ONNX's AttributeProto calls a text.
_STRING = 3
# A protobuf holds no more.
_LIMIT_BYTES = 2**31 - 1
# Message: field: (number, whether there are several, message or type).
_FIELDS: dict[str, dict[str, tuple[int, bool, str]]] = {
    "ModelProto": {"graph": (7, False, "GraphProto"), "functions": (25, True, "FunctionProto")},
    "GraphProto": {"node": (1, True, "NodeProto")},
    "FunctionProto": {"node": (7, True, "NodeProto")},
    "NodeProto": {
        "output": (2, True, "string"),
        "name": (3, False, "string"),
        "op_type": (4, False, "string"),
        "attribute": (5, True, "AttributeProto"),
    },
    "AttributeProto": {
        "name": (1, False, "string"),
        "i": (3, False, "int64"),
        "s": (4, False, "bytes"),
        "g": (6, False, "GraphProto"),
        "graphs": (11, True, "GraphProto"),
        "type": (20, False, "int32"),
    },
}


def use_portable_locale_in_file(path: Path, name: str) -> list[str]:
    """Do as `use_portable_locale` in a file; what is no model is left as it is, for the server to refuse.

    :raises PodError: as `use_portable_locale` does.
    """
    from google.protobuf.message import DecodeError, EncodeError

    if not 0 < path.stat().st_size <= _LIMIT_BYTES or not _names_a_normalizer(path):
        return []
    model = _model_class()()
    try:
        model.ParseFromString(path.read_bytes())
        changes = use_portable_locale(model, name)
        if changes:
            path.write_bytes(model.SerializeToString())
    except (DecodeError, EncodeError):
        return []
    return changes


def use_portable_locale(model: Any, name: str) -> list[str]:
    """Have a model's StringNormalizer use the locale that every server has; return in words what was changed.

    :raises PodError: of kind ModelInvalidError, where the locale's rules are its own.
    """
    return [line for node in normalizers(model) for line in _with_portable_locale(node, name)]


def _names_a_normalizer(path: Path) -> bool:
    """Look without reading the whole into memory: most models have none."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.find(b"StringNormalizer") >= 0


def _with_portable_locale(node: Any, name: str) -> Iterator[str]:
    locale = special_locale(node)
    if locale is None:
        return
    if has_own_rules(locale):
        raise PodError(
            "ModelInvalidError",
            f"{name}: the StringNormalizer {_called(node)!r} needs a locale that servers do not have",
            expected=f"one whose rules for upper and lower case are those of Unicode, such as {PORTABLE_LOCALE}",
            found=locale[:50],
            remedy=f"export it with locale={PORTABLE_LOCALE!r}, or change the case before the text is sent",
        )
    named = (one for one in node.attribute if one.name == "locale")
    attribute = next(named, None) or node.attribute.add()
    attribute.name, attribute.type, attribute.s = "locale", _STRING, PORTABLE_LOCALE.encode()
    yield (
        f"the StringNormalizer {_called(node)!r} uses {PORTABLE_LOCALE} in place of {locale[:50]}, "
        "whose rules for upper and lower case are the same"
    )


def _called(node: Any) -> str:
    return str(node.name or next(iter(node.output), ""))


@cache
def _model_class() -> Any:
    """Return the class of a whole model that knows these fields, and keeps what it does not know."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(
        name="slipway/onnx_locale.proto", package="slipway.onnx_locale", syntax="proto2"
    )
    kinds = descriptor_pb2.FieldDescriptorProto
    for message, fields in _FIELDS.items():
        made = file.message_type.add(name=message)
        for field, (number, several, kind) in fields.items():
            label = kinds.LABEL_REPEATED if several else kinds.LABEL_OPTIONAL
            one = made.field.add(name=field, number=number, label=label)
            if kind in _FIELDS:
                one.type, one.type_name = kinds.TYPE_MESSAGE, f".slipway.onnx_locale.{kind}"
            else:
                one.type = getattr(kinds, f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("slipway.onnx_locale.ModelProto"))

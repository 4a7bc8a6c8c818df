"""What an ONNX model may ask of the server that loads it: weights in files beside it, and locales of text operators.

Reads the messages of `onnx`, or others with the same fields; imports nothing for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

WEIGHTS_LIMIT_BYTES = 2_000_000_000
"""A protobuf holds no more than 2 GiB, of which the graph itself takes a part."""
MAX_DATA_FILES = 1000

PORTABLE_LOCALE = "C.UTF-8"
"""Its rules for upper and lower case are those of Unicode, and it is part of every image."""
_EVERYWHERE = ("C", "POSIX", "C.UTF-8", "C.utf8")
# In these i and I are no pair.
_OWN_RULES = ("tr", "az", "ku", "crh", "tt")


def has_own_rules(locale: str) -> bool:
    """Return whether a locale changes case otherwise than Unicode says without a language, or is not to be read."""
    language = locale.split("_")[0].split(".")[0].split("@")[0].split("-")[0].lower()
    return language in _OWN_RULES or not (
        language.isascii() and language.isalpha() and len(language) in (2, 3)
    )


def special_locale(node: Any) -> str | None:
    """Return the locale that a StringNormalizer needs; None if every server has it, or none is needed."""
    attributes = {one.name: one for one in node.attribute}
    action = attributes["case_change_action"].s if "case_change_action" in attributes else b"NONE"
    if action == b"NONE" and "is_case_sensitive" in attributes and attributes["is_case_sensitive"].i:
        return None  # it changes no case: ONNX Runtime asks for no locale
    locale = (attributes["locale"].s if "locale" in attributes else b"en_US").decode(errors="replace")
    return None if locale in _EVERYWHERE else str(locale)


def normalizers(model: Any) -> Iterator[Any]:
    """Yield each StringNormalizer of a model, those of inner graphs and functions too."""
    for nodes in (model.graph.node, *(function.node for function in model.functions)):
        yield from _normalizers(nodes)


def _normalizers(nodes: Any) -> Iterator[Any]:
    for node in nodes:
        if node.op_type == "StringNormalizer":
            yield node
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from _normalizers(inner.node)

"""Texts of one form: names of files and models, paths, digests; and JSON whose bytes are the same for equal values."""

from __future__ import annotations

import json
import re
from typing import Any

PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._@+-]*")
PATH_LIMIT = 900
"""A key of S3 has 1,024 bytes, with the version's prefix."""
MODEL_NAME_LIMIT = 50
VERSION_LIMIT = 2**63 - 1
"""Triton reads a version directory as a 64-bit signed number."""

_SHA256 = re.compile(r"[0-9a-f]{64}")
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


def is_plain_path(text: str) -> bool:
    """Return whether a text is a path of plain names: relative, without `..` and hidden parts."""
    return ".." not in text and all(PLAIN_NAME.fullmatch(part) for part in text.split("/"))


def is_relative_path(text: str) -> bool:
    """Return whether a text is a path of plain names that is not too long for a version's file."""
    return len(text) <= PATH_LIMIT and is_plain_path(text)


def is_dns_label(text: str, limit: int = 63) -> bool:
    """Return whether `text` is a DNS-1123 label of at most `limit` characters."""
    return len(text) <= limit and _DNS_LABEL.fullmatch(text) is not None


def is_sha256(text: str) -> bool:
    """Return whether `text` is a SHA-256 in lower-case hexadecimal digits."""
    return _SHA256.fullmatch(text) is not None


def canonical_json(value: Any, indent: int | None = None) -> bytes:
    """Return a value as UTF-8 JSON: equal values give equal bytes.

    :raises ValueError: for what JSON does not have.
    """
    separators = (",", ":") if indent is None else (",", ": ")
    text = json.dumps(
        value, sort_keys=True, indent=indent, separators=separators, ensure_ascii=False, allow_nan=False
    )
    return text.encode()

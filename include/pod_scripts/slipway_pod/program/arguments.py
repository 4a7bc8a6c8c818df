"""The types of the programs' arguments. A value of another type ends the program with exit code 2, by argparse."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar
from urllib.parse import urlsplit

from slipway_pod.storage.s3 import split_url
from slipway_rules.text_forms import PLAIN_NAME

N = TypeVar("N", int, float)


def new_parser(about: str | None) -> argparse.ArgumentParser:
    """Return a parser whose help begins with a program's docstring, as it is written."""
    return argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)


def s3_url(text: str) -> str:
    """Return an S3 address with a key, returned without a trailing slash."""
    if not text.startswith("s3://") or not all(split_url(text)):
        raise argparse.ArgumentTypeError(f"expected s3://BUCKET/KEY, found {text!r}")
    return text.rstrip("/")


def http_url(text: str) -> str:
    """Return the address of an HTTP server."""
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise argparse.ArgumentTypeError(f"expected http(s)://HOST[:PORT], found {text!r}")
    return text


def plain_name(text: str) -> str:
    """Return a name that a folder can have."""
    if not PLAIN_NAME.fullmatch(text):
        raise argparse.ArgumentTypeError(f"expected a plain name, found {text!r}")
    return text


def names(text: str) -> tuple[str, ...]:
    """Return the names in a list with commas."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def json_object(text: str) -> dict[str, Any]:
    """Return a JSON object."""
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"expected a JSON object, found {text!r}")
    return value


def not_negative(text: str) -> float:
    """Return a finite number, 0 or above."""
    return _number(text, float, "a number of 0 or above", lambda value: 0 <= value < math.inf)


def positive(text: str) -> float:
    """Return a finite number above 0."""
    return _number(text, float, "a number above 0", lambda value: 0 < value < math.inf)


def share(text: str) -> float:
    """Return a number from 0 to 1."""
    return _number(text, float, "a number from 0 to 1", lambda value: 0 <= value <= 1)


def whole(text: str) -> int:
    """Return a whole number above 0."""
    return _number(text, int, "a whole number above 0", lambda value: value >= 1)


def _number(text: str, kind: Callable[[str], N], wanted: str, fits: Callable[[N], bool]) -> N:
    # Not-a-number fits nothing.
    with suppress(ValueError):
        value = kind(text)
        if fits(value):
            return value
    raise argparse.ArgumentTypeError(f"expected {wanted}, found {text!r}")

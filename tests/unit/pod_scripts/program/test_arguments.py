"""The types of the programs' arguments."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import pytest

from slipway_pod.program.arguments import (
    http_url,
    json_object,
    names,
    not_negative,
    plain_name,
    positive,
    s3_url,
    share,
    whole,
)


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (s3_url, "s3://bucket/a/b/", "s3://bucket/a/b"),
        (http_url, "http://host:8080", "http://host:8080"),
        (plain_name, "digits-1.2", "digits-1.2"),
        (names, "a, b,", ("a", "b")),
        (json_object, '{"a": 1}', {"a": 1}),
        (not_negative, "0", 0.0),
        (positive, "1e-3", 0.001),
        (share, "1", 1.0),
        (whole, "7", 7),
    ],
)
def test_what_is_one_is_read(read: Callable[[str], Any], text: str, value: Any) -> None:
    """An argument becomes a value of its type."""
    assert read(text) == value


@pytest.mark.parametrize(
    ("read", "text"),
    [
        *((s3_url, text) for text in ("s3://bucket", "s3:///key", "bucket/key")),
        *((http_url, text) for text in ("host:8080", "ftp://host", "http://")),
        *((plain_name, text) for text in ("", "a/b", "..", "-a")),
        *((json_object, text) for text in ("[]", "1", "{")),
        *((not_negative, text) for text in ("-1", "inf", "nan", "x")),
        *((positive, text) for text in ("0", "-1", "inf", "nan", "x")),
        *((share, text) for text in ("-0.1", "1.1", "nan", "x")),
        *((whole, text) for text in ("0", "-1", "1.5", "x")),
    ],
)
def test_what_is_none_is_refused(read: Callable[[str], Any], text: str) -> None:
    """What is no such value is refused with what was expected and what was found."""
    with pytest.raises(argparse.ArgumentTypeError, match=r"expected .*, found "):
        read(text)

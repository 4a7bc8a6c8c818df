"""Names, paths and digests that are taken, and JSON in one form."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway_rules.text_forms import (
    PATH_LIMIT,
    canonical_json,
    is_dns_label,
    is_plain_path,
    is_relative_path,
    is_sha256,
)


@pytest.mark.parametrize("path", ["a", "a/b.bin", "_x/1+2@3-4", "A.b/c"])
def test_a_path_of_plain_names(path: str) -> None:
    """Names of letters, digits and a few signs, below one another."""
    assert is_plain_path(path)
    assert is_relative_path(path)


@pytest.mark.parametrize(
    "path", ["../a", "a/../b", "/a", "a//b", ".a", "a/.b", "", "a\\b", "ä", "a/", "a b", "a\n"], ids=ascii
)
def test_what_is_no_plain_path(path: str) -> None:
    """What leads elsewhere, is hidden, or means something to a shell, a server or a file system."""
    assert not is_plain_path(path)
    assert not is_relative_path(path)


def test_a_path_that_is_too_long() -> None:
    """A key in the bucket must have space for it."""
    assert is_relative_path("a" * PATH_LIMIT)
    assert not is_relative_path("a" * (PATH_LIMIT + 1))


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("digits", True),
        ("a-1", True),
        ("a-", False),
        ("-a", False),
        ("A", False),
        ("a\n", False),
        ("", False),
    ],
    ids=ascii,
)
def test_a_dns_label(text: str, is_one: bool) -> None:
    """Lower-case letters, digits and inner hyphens."""
    assert is_dns_label(text) is is_one
    assert not is_dns_label("a" * 64)


@pytest.mark.parametrize(
    ("text", "is_one"),
    [("0f" * 32, True), ("0F" * 32, False), ("0f" * 31, False), (f"{'0f' * 32}\n", False)],
    ids=["lower case", "upper case", "short", "line"],
)
def test_a_digest(text: str, is_one: bool) -> None:
    """64 lower-case hexadecimal digits."""
    assert is_sha256(text) is is_one


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.text("ab", max_size=3), VALUES, max_size=4))
def test_equal_values_have_equal_bytes(value: dict[str, Any]) -> None:
    """The order of keys and the layout do not count, and nothing is lost."""
    content = canonical_json(value)
    assert canonical_json(dict(reversed(value.items()))) == content
    assert json.loads(content) == json.loads(canonical_json(value, indent=2)) == value


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), "\ud800"], ids=["nan", "infinity", "surrogate"]
)
def test_what_json_does_not_have(value: Any) -> None:
    """A number that is none, or half a character, is an error and no text."""
    with pytest.raises(ValueError, match=r".+"):
        canonical_json([value])

"""Values at which readers break: edges of number types, long and strange texts, wrong types, deep and wide trees."""

from __future__ import annotations

import math
from random import Random
from typing import Any

# In a JSON or YAML text this stands for a number of 5,000 digits, which Python refuses to write.
LONG_NUMBER = "@@long-number@@"
LONG_DIGITS = "9" * 5000

NUMBERS = (
    0, 1, -1, 2, 99, 100, 101, 255, 256, -128, 2**15, 2**31 - 1, 2**31, -(2**31) - 1, 2**32, 2**53 + 1, 2**63 - 1,
    2**63, -(2**63) - 1, 2**64, 10**10, 10**18, 10**30, 10**400, 0.0, -0.0, 0.5, 1e-320, 1e308, -1e308, math.nan,
    math.inf, -math.inf,
)  # fmt: skip
TEXTS = (
    "", " ", "\0", "a\0b", "\ufeff", "\ud800", "\u202e", "é", "𝕊", "٣", "²", "½", "1_000", "+1", "-0", "0x10", "1e999",
    "NaN", "Infinity", "null", "None", "true", "True", "[]", "{}", "..", "../../etc/passwd", "/", "//", "a/b", "%00",
    "{0}", "%s", "${x}", "<script>alert(1)</script>", "\"'`", "\r\n", "2024-02-30T25:61:61Z", "0001-01-01T00:00:00Z",
    "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "s3://", "models/digits/2/repository/", "9" * 30,
    "-" + "9" * 30, "9" * 5000,
)  # fmt: skip
# Deeper than 300 no JSON reader makes one; `documents` writes deeper texts.
_DEPTHS = (3, 30, 300)
_WIDTHS = (2, 30, 300)
# One in so many wide values is as wide as an attacker would make it.
_VERY_WIDE, _ONE_IN = 15_000, 40
_LONG = 100


def scalar(rng: Random) -> Any:
    """Return a number, a text, a truth value or None."""
    kind = rng.randrange(10)
    if kind < 4:
        return rng.choice(NUMBERS)
    if kind < 8:
        return rng.choice(TEXTS)
    return rng.choice((None, True, False, "x" * rng.choice((300, 100_000)), LONG_NUMBER))


def value(rng: Random) -> Any:
    """Return any JSON value, now and then a deep or a wide one."""
    kind = rng.randrange(12)
    if kind < 7:
        return scalar(rng)
    if kind < 9:
        return rng.choice(([], {}, [None], [[]], {"": None}, [{}], {"a": {}}))
    if kind == 9:
        return deep(rng)
    return wide(rng)


def deep(rng: Random) -> Any:
    """Return a value within many lists or mappings."""
    made = scalar(rng)
    as_list = rng.random() < 0.5
    for _ in range(rng.choice(_DEPTHS)):
        made = [made] if as_list else {"a": made}
    return made


def wide(rng: Random) -> Any:
    """Return a list or mapping of many entries."""
    width = _VERY_WIDE if rng.randrange(_ONE_IN) == 0 else rng.choice(_WIDTHS)
    if rng.random() < 0.5:
        made = scalar(rng)
        # Many long ones would be more than any document may hold.
        return [made if len(str(made)) < _LONG else "x"] * width
    return {f"unknown_{number}": number for number in range(width)}

"""Other inputs made of valid ones: trees of JSON values, and bytes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from random import Random
from typing import Any

from benchmarks.fuzz import interesting

# Where a node hangs: its parent and its key or place there.
Place = tuple[Any, Any]

_MOST_CHANGES = 4
_TOKENS = (
    b"{", b"}", b"[", b"]", b",", b":", b'"', b"'", b"\\", b"\\u0000", b"\\ud800", b"null", b"NaN", b"Infinity",
    b"1e999", b"-1", b"9" * 5000, b"9" * 30, b"\0", b"\xff\xfe", b"\xed\xa0\x80", b"\xc0\x80", b"\n", b"\r", b"\t",
    b"#", b"&a ", b"!!python/object:os.system ", b"---\n", b"<<: ", b"- ", b"? ", b"|\n", b"PK\x03\x04", b"*a",
    b"PK\x05\x06",
)  # fmt: skip


def tree(rng: Random, seeds: Sequence[Any]) -> Any:
    """Return one of the trees with a few nodes changed, dropped, doubled, renamed or moved."""
    whole = [copy.deepcopy(rng.choice(seeds))]
    for _ in range(rng.randint(1, _MOST_CHANGES)):
        places = list(_places(whole))
        # What is too deep to be copied stays as it is.
        with suppress(RecursionError):
            rng.choice(_CHANGES)(rng, rng.choice(places), places)
    return whole[0]


def some_bytes(rng: Random, seeds: Sequence[bytes]) -> bytes:
    """Return one of the byte strings with a few flips, cuts, splices and insertions."""
    made = bytearray(rng.choice(seeds))
    for _ in range(rng.randint(1, _MOST_CHANGES)):
        rng.choice(_BYTE_CHANGES)(rng, made, seeds)
    return bytes(made)


def _places(node: Any) -> Iterator[Place]:
    """Every place of a tree, without recursion: a tree may be deeper than Python's stack."""
    left = [node]
    while left:
        parent = left.pop()
        keys = list(parent) if isinstance(parent, dict) else range(len(parent))
        for key in keys:
            yield parent, key
            if isinstance(parent[key], dict | list) and parent[key]:
                left.append(parent[key])


def _replace(rng: Random, place: Place, _: Sequence[Place]) -> None:
    parent, key = place
    parent[key] = interesting.value(rng)


def _edge(rng: Random, place: Place, _: Sequence[Place]) -> None:
    """The same type, at its edge: what gets past a check of types."""
    parent, key = place
    old = parent[key]
    if isinstance(old, bool) or old is None:
        parent[key] = not old
    elif isinstance(old, int | float):
        parent[key] = rng.choice(
            (*interesting.NUMBERS, old + 1, old - 1, -old, old * 10, float(str(old)), str(old))
        )
    elif isinstance(old, str):
        at = rng.randint(0, len(old))
        parent[key] = old[:at] + rng.choice(interesting.TEXTS) + old[at + rng.choice((0, 0, 1, 5)) :]
    elif isinstance(old, list):
        parent[key] = old * rng.choice((0, 2, 3)) + rng.choice(([], [None], [interesting.scalar(rng)]))
    else:
        parent[key] = {**old, rng.choice(interesting.TEXTS): interesting.scalar(rng)}


def _drop(rng: Random, place: Place, _: Sequence[Place]) -> None:
    parent, key = place
    if len(parent) > 1:
        del parent[key]


def _double(rng: Random, place: Place, _: Sequence[Place]) -> None:
    parent, key = place
    if isinstance(parent, dict):
        parent[f"{key}{rng.choice(('', '2', ' ', 'z'))}"] = copy.deepcopy(parent[key])
    elif isinstance(parent[key], dict | list) or len(parent) < 100:
        parent.insert(key, copy.deepcopy(parent[key]))


def _rename(rng: Random, place: Place, _: Sequence[Place]) -> None:
    parent, key = place
    if isinstance(parent, dict):
        parent[rng.choice((f"{key}z", str(key)[:-1], str(key).upper(), *interesting.TEXTS))] = parent.pop(key)


def _move(rng: Random, place: Place, places: Sequence[Place]) -> None:
    """Put a copy of another node here."""
    parent, key = place
    other, its_key = rng.choice(places)
    parent[key] = copy.deepcopy(other[its_key])


def _wrap(rng: Random, place: Place, _: Sequence[Place]) -> None:
    parent, key = place
    parent[key] = rng.choice(([parent[key]], {"value": parent[key]}, str(parent[key])[:1000]))


_CHANGES: Sequence[Callable[[Random, Place, Sequence[Place]], None]] = (
    _replace, _replace, _edge, _edge, _edge, _drop, _double, _rename, _move, _wrap,
)  # fmt: skip


def _flip(rng: Random, made: bytearray, _: Sequence[bytes]) -> None:
    if made:
        made[rng.randrange(len(made))] ^= 1 << rng.randrange(8)


def _set(rng: Random, made: bytearray, _: Sequence[bytes]) -> None:
    """A few bytes at once: a length, a number or a check sum in a binary header."""
    at = rng.randint(0, len(made))
    width = rng.choice((1, 2, 4, 8))
    number = rng.choice((0, 1, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 2**31 - 1, 2**32 - 1, 2**63 - 1, 2**64 - 1))
    made[at : at + width] = (number & (1 << 8 * width) - 1).to_bytes(width, "little")


def _cut(rng: Random, made: bytearray, _: Sequence[bytes]) -> None:
    at = rng.randint(0, len(made))
    del made[at : at + rng.choice((1, 2, 8, 64, len(made)))]


def _insert(rng: Random, made: bytearray, _: Sequence[bytes]) -> None:
    at = rng.randint(0, len(made))
    made[at:at] = rng.choice(_TOKENS) * rng.choice((1, 1, 1, 2, 1000))


def _splice(rng: Random, made: bytearray, seeds: Sequence[bytes]) -> None:
    other = rng.choice(seeds)
    start = rng.randint(0, len(other))
    at = rng.randint(0, len(made))
    made[at : at + rng.choice((0, 1, 16))] = other[start : start + rng.choice((1, 8, 64, 512))]


def _repeat(rng: Random, made: bytearray, _: Sequence[bytes]) -> None:
    at, width = rng.randint(0, len(made)), rng.choice((1, 8, 64))
    made[at:at] = bytes(made[at : at + width]) * rng.choice((2, 50))


_BYTE_CHANGES: Sequence[Callable[[Random, bytearray, Sequence[bytes]], None]] = (
    _flip, _flip, _set, _cut, _insert, _insert, _splice, _repeat,
)  # fmt: skip

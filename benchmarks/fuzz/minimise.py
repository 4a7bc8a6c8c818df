"""The smallest input that still fails alike, as far as it can be found in a moment."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from typing import Any

_LIMIT_S = 3.0


def minimised(value: Any, fails: Callable[[Any], bool]) -> Any:
    """Return a part of `value` for which `fails` holds still; `value` itself where none is found."""
    until_s = time.monotonic() + _LIMIT_S
    smaller = True
    while smaller and time.monotonic() < until_s:
        smaller = False
        for candidate in _smaller(value):
            if time.monotonic() >= until_s:
                break
            if fails(candidate):
                value, smaller = candidate, True
                break
    return value


def _smaller(value: Any) -> Iterator[Any]:
    if isinstance(value, bytes | str):
        yield from _shorter(value)
    elif isinstance(value, dict | list):
        try:
            yield from _with_less(value)
        except RecursionError:
            return
    elif isinstance(value, tuple):
        for place, part in enumerate(value):
            for less in _smaller(part):
                yield (*value[:place], less, *value[place + 1 :])


def _shorter(text: bytes | str) -> Iterator[bytes | str]:
    width = len(text) // 2
    while width:
        for start in range(0, len(text), width):
            yield text[:start] + text[start + width :]
        width //= 2


def _with_less(tree: dict[Any, Any] | list[Any]) -> Iterator[Any]:
    """The tree without one of its nodes, those near the root first."""
    left: list[tuple[Any, ...]] = [()]
    while left:
        path = left.pop(0)
        node = _at(tree, path)
        for key in list(node) if isinstance(node, dict) else range(len(node)):
            less = copy.deepcopy(tree)
            del _at(less, path)[key]
            yield less
            if isinstance(node[key], dict | list):
                left.append((*path, key))


def _at(tree: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        tree = tree[key]
    return tree

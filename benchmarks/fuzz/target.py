"""What is fuzzed: valid inputs to begin with, how they are changed, and what reads them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from slipway_core.errors import SlipwayError


class BrokenPromiseError(AssertionError):
    """A reader took an input and made of it what it must not."""


@dataclass(frozen=True)
class Target:
    """One reader of foreign input.

    `seeds` makes valid inputs, `mutate` makes another input of them, `read` reads one: it returns, or raises one of
    `typed`. `read` may check what it got and raise BrokenPromiseError. An input is a value that `repr` shows whole.
    `share` is how many inputs it gets of those of a run; a reader that draws pages gets fewer.
    """

    name: str
    seeds: Callable[[], Sequence[Any]]
    mutate: Callable[[Random, Sequence[Any]], Any]
    read: Callable[[Any], object]
    typed: tuple[type[Exception], ...] = (SlipwayError,)
    share: float = 1.0


def input_of(target: Target, seeds: Sequence[Any], seed: int, index: int) -> Any:
    """Return the input number `index`; the same for the same arguments. The first ones are the seeds themselves."""
    if index < len(seeds):
        return seeds[index]
    return target.mutate(Random(f"{seed}/{target.name}/{index}"), seeds)

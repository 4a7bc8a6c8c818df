"""Doing the same with many things, several at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Thing = TypeVar("Thing")
Outcome = TypeVar("Outcome")


def map_concurrently(act: Callable[[Thing], Outcome], things: Iterable[Thing], workers: int) -> list[Outcome]:
    """Return what comes of each, in the order of the things; `workers` of them are under way at once.

    The first error, in that order, is raised when those under way have ended; what has not begun does not begin.
    """
    if workers == 1:
        return [act(thing) for thing in things]
    pool = ThreadPoolExecutor(workers, thread_name_prefix="each")
    try:
        futures = [pool.submit(act, thing) for thing in things]
        return [future.result() for future in futures]
    finally:
        pool.shutdown(wait=True, cancel_futures=True)

"""A permission is of the moment: between the answer and the patch lie seconds, whatever was waited for before."""

from __future__ import annotations

import time
from collections.abc import Callable

from slipway_core.errors import TimedOutError

# How old the oldest part of a permission may be when the patch is sent.
LONGEST_AGE_S = 5.0
# What was read once is not read again, so that a second asking is short.
_ATTEMPTS = 3
# The API gives KServe's webhooks ten seconds. A raise that comes later is not waited for: observe, and ask again.
RAISE_LIMIT_S = 10.0


def require_fresh(permit: Callable[[], None]) -> None:
    """Ask, and ask again where the answer took so long that its beginning is old.

    :raises TimedOutError: it took too long each time, so nobody knows whether it still holds.
    :raises SlipwayError: what `permit` says.
    """
    took_s = 0.0
    for _ in range(_ATTEMPTS):
        began_s = time.monotonic()
        permit()
        took_s = time.monotonic() - began_s
        if took_s <= LONGEST_AGE_S:
            return
    raise TimedOutError(
        "checking whether the weight may be raised took too long",
        expected=f"an answer within {LONGEST_AGE_S:g} s, so that it still holds at the patch",
        found=f"{took_s:.1f} s, at the last of {_ATTEMPTS} attempts",
        remedy="check that the object store and the Kubernetes API answer in time; nothing was raised",
    )


def both(first: Callable[[], None], then: Callable[[], None]) -> Callable[[], None]:
    """Return a permission that asks one after the other.

    The lease comes first, since a pause is confirmed by what the holder does after it. The record comes last: whoever
    rejects a version and then resumes its canary must not see it raised.
    """

    def ask() -> None:
        first()
        then()

    return ask

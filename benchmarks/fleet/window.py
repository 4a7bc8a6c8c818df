"""How long the servers of a fleet answered with different versions, by what their clients got.

The window begins with the first answer, of any server, that is not of the version before, and ends with the last
answer, of any server, that is not of the version after. What counts is when the client had the answer in its hands.
So a request that was under way at the commit, and has the old version after another had the new one, is in the
window. A release that was taken back has the same version before and after: its window is the time from the first to
the last answer of any other version, and 0 where there was none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchmarks.fleet.answers import FleetAnswer


@dataclass(frozen=True)
class MixedWindow:
    """The window of one release, in milliseconds.

    :param answered_ms: the window as this module defines it.
    :param asked_ms: the same, but ending when the last request was *sent* that was not answered by the version after:
        for so long somebody who had already seen a change could ask and be answered by the other version.
    :param at_most_ms: how long it can have been at most, between the samples: from the sending of the last old request
        before any server changed to the first answer of the version after on the server that was last. None where a
        server gave no answer on one of the two sides.
    :param late: answers inside the window that are of the version before.
    """

    answered_ms: float
    asked_ms: float
    at_most_ms: float | None
    late: int


def mixed_version_window(answers: Iterable[FleetAnswer], before: int, after: int) -> MixedWindow:
    """Return the window of a release from the version `before` to the version `after`."""
    good = sorted((one for one in answers if one.error is None), key=lambda one: one.received)
    begin = next((one.received for one in good if one.version != before), None)
    others = [one for one in good if one.version != after]
    bound = _at_most(good, before, after)
    if begin is None or not others or others[-1].received < begin:
        return MixedWindow(0.0, 0.0, bound if begin is not None else 0.0, 0)
    asked = max(one.sent for one in others) - begin
    late = sum(one.received >= begin and one.version == before for one in good)
    return MixedWindow(
        answered_ms=1000 * (others[-1].received - begin),
        asked_ms=max(0.0, 1000 * asked),
        at_most_ms=bound,
        late=late,
    )


def _at_most(good: Sequence[FleetAnswer], before: int, after: int) -> float | None:
    begins, ends = [], []
    for server in {one.server for one in good}:
        own = [one for one in good if one.server == server]
        first = next((place for place, one in enumerate(own) if one.version != before), len(own))
        rest = [place for place, one in enumerate(own) if one.version != after]
        last = rest[-1] + 1 if rest else 0
        if first == 0 or last == len(own):
            return None
        begins.append(max(one.sent for one in own[:first]))
        ends.append(own[last].received)
    return 1000 * (max(ends) - min(begins)) if begins else None


def unseen(answers: Sequence[FleetAnswer], servers: Sequence[str], before: int, after: int) -> list[str]:
    """Return what was not seen and has to be, so that a window says anything: each server, protocol and version."""
    seen = {(one.server, one.protocol, one.version) for one in answers if one.error is None}
    return [
        f"{server} over {protocol} with version {version}"
        for server in servers
        for protocol in ("http", "grpc")
        for version in dict.fromkeys((before, after))
        if (server, protocol, version) not in seen
    ]

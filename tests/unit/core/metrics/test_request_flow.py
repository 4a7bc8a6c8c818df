"""Requests that began and were never answered: lost, overdue, counted once, and never fewer than none."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway_core.errors import MetricsUnavailableError
from slipway_core.metrics.request_flow import RequestFlow
from slipway_core.metrics.samples import Counters, Reading, Sample, reading_delta

LIMIT_S = 30.0


def counters(begun: int, answered: int, active: int, errors: int = 0, streams: int = 0) -> Counters:
    """What a router shows: `streams` of `active` are of a kind that may be open for long."""
    lost = max(0, begun - answered - active)
    flow = RequestFlow(begun, active, lost, begun - streams, active - streams, LIMIT_S)
    return Counters(answered, errors, flow=flow)


def samples(*looks: tuple[float, Counters]) -> list[Sample]:
    """The samples between readings at some moments, each remembering the one before."""
    readings = [Reading.of(at, {"router": seen}) for at, seen in looks]
    found = []
    for place in range(1, len(readings)):
        readings[place] = readings[place].remembering(readings[place - 1])
        found.append(reading_delta(readings[place - 1], readings[place]))
    return found


def test_a_request_that_its_client_gave_up_is_an_error() -> None:
    """It began and is neither answered nor active; it counts among the requests too."""
    (sample,) = samples((0, counters(100, 100, 0)), (20, counters(200, 170, 5)))
    assert sample == Sample(95, 25, {}, 25, begun=100, active=5)


def test_a_request_that_is_active_for_too_long_counts_once() -> None:
    """As overdue when the limit is over; not again when its client gives up, nor when it is answered after all."""
    looks = [(float(at), counters(10, 0, 10)) for at in range(0, 31, 10)]
    first, second, third, given_up, late = samples(
        *looks, (40.0, counters(10, 0, 4)), (50.0, counters(10, 4, 0))
    )
    assert (first.errors, second.errors) == (0, 0)
    assert (third.requests, third.errors, third.unanswered, third.active) == (10, 10, 10, 10)
    assert (given_up.requests, given_up.errors, given_up.active) == (0, 0, 4)
    assert (late.requests, late.errors, late.active) == (0, 0, 0)


def test_only_so_many_are_overdue_as_cannot_have_begun_since() -> None:
    """Of 50 that are active 30 may have begun within the limit: 20 have been active for longer."""
    found = samples((0, counters(100, 50, 50)), (15, counters(110, 60, 50)), (30, counters(130, 80, 50)))
    assert [one.errors for one in found] == [0, 20]


def test_open_streams_are_never_overdue() -> None:
    """Where the source cannot tell a stream from a call that hangs, age says nothing; giving up still counts."""
    looks = [(float(at), counters(10, 0, 10, streams=10)) for at in range(0, 100, 10)]
    assert all(one.errors == 0 for one in samples(*looks))
    assert samples(looks[-1], (100.0, counters(10, 0, 7, streams=7)))[0].unanswered == 3


def test_requests_that_end_while_the_page_is_read_are_not_lost() -> None:
    """At 4,000 a second twenty began and were answered between the reading of two counters; at 40 none were."""
    fast = samples(
        (0, counters(0, 0, 0)), (10, counters(40_000, 39_970, 10)), (20, counters(80_000, 79_980, 0))
    )
    assert [one.unanswered for one in fast] == [0, 0]
    slow = samples((0, counters(0, 0, 0)), (100, counters(400, 380, 10)))
    assert [one.unanswered for one in slow] == [10]
    # What is really lost adds up, and no more than that is left out of it in all.
    gone = [counters(40_000 * at, 40_000 * at - 100 * at, 0) for at in range(1, 6)]
    looks = [(0.0, counters(0, 0, 0)), *((10.0 * at, one) for at, one in enumerate(gone, start=1))]
    assert sum(one.unanswered for one in samples(*looks)) == 200 - 20  # those before had less to show
    looks += [(10.0 * at, counters(40_000 * at, 40_000 * at - 500, 0)) for at in (6, 7, 8)]
    assert sum(one.unanswered for one in samples(*looks)) == 500 - 20


def test_what_some_pages_alone_show_as_lost_is_not() -> None:
    """A pause between the reading of two counters, at 86 requests a second, makes none of them an error."""
    paused = [
        (at, counters(86 * at, 86 * at - lost, 0)) for at, lost in enumerate((0, 1, 5, 2, 0, 3, 1, 1, 0))
    ]
    assert [one.unanswered for one in samples(*paused)] == [0] * 8


def test_hanging_requests_count_at_once_beyond_what_a_pause_explains_and_all_soon() -> None:
    """Of 300 given up among 1,000 a pause of a tenth of a second explains ten, until four readings have shown them."""
    looks = [(0.0, counters(0, 0, 0)), *((float(at), counters(100 * at, 70 * at, 0)) for at in range(10, 14))]
    assert [one.unanswered for one in samples(*looks)] == [290, 30, 30, 30]
    looks += [(float(at), counters(1300, 910, 0)) for at in range(14, 17)]
    assert [one.unanswered for one in samples(*looks)][4:] == [10, 0, 0]
    assert sum(one.unanswered for one in samples(*looks)) == 390


def test_a_late_error_is_one_error() -> None:
    """The router's own timeout ends what was overdue already: that is the same failure."""
    looks = [(float(at), counters(10, 0, 10)) for at in range(0, 31, 10)]
    last = samples(*looks, (40.0, counters(10, 10, 0, errors=10)))[-1]
    assert (last.requests, last.errors) == (0, 0)


def test_a_process_that_was_started_anew_knows_of_no_request_before() -> None:
    """What began since is counted from 0; the marks of the process before say nothing of it."""
    (sample,) = samples((0, counters(100, 60, 40)), (60, counters(20, 15, 3)))
    assert sample == Sample(17, 2, {}, 2, begun=20, active=3)


def test_what_is_known_outlives_the_reader() -> None:
    """A reading that was saved and read again counts nothing twice, and goes on with the age of what is active."""
    first = Reading.of(0, {"router": counters(10, 0, 10)})
    for at in (10.0, 20.0, 31.0):
        first = Reading.of(at, {"router": counters(10, 0, 10)}).remembering(first)
    saved = Reading.from_dict(json.loads(json.dumps(first.to_dict())))
    assert saved == first
    # Two began, and two that had been overdue were answered; a reader that begins anew knows nothing of age.
    after = Reading.of(40, {"router": counters(12, 2, 10)})
    sample = reading_delta(saved, after.remembering(saved))
    assert (sample.requests, sample.errors, sample.begun) == (0, 0, 2)
    assert reading_delta(saved, after).errors == 0


@pytest.mark.parametrize("name", ["begun", "active", "lost", "timed_begun", "timed_active"])
def test_what_is_no_count_is_refused(name: str) -> None:
    """Negative and broken numbers raise; so does a limit that is none."""
    flow = RequestFlow(1, 1, 0, 1, 1, LIMIT_S)
    with pytest.raises(MetricsUnavailableError):
        replace(flow, **{name: -1})
    with pytest.raises(MetricsUnavailableError):
        replace(flow, limit_s=0)


@dataclass
class Server:
    """A server whose requests end in some way; what began, what was answered, and what is active."""

    begun: int = 0
    answered: int = 0
    errors: int = 0
    lost: int = 0
    active: list[float] = field(default_factory=list)
    overdue: int = 0

    def tick(self, now: float, new: int, good: int, bad: int, gone: int) -> None:
        self.begun += new
        self.active += [now] * new
        for kind, count in (("answered", good), ("errors", bad), ("lost", gone)):
            for _ in range(min(count, len(self.active))):
                self.active.pop(0)
                if kind == "lost":
                    self.lost += 1
                    continue
                self.answered += 1
                self.errors += kind == "errors"

    def look(self, skew: int) -> Counters:
        """A reading in which the gauge was read a moment before or after the counters."""
        return counters(self.begun, self.answered, max(0, len(self.active) + skew), self.errors)


few = st.integers(0, 20)


@given(st.lists(st.tuples(few, few, few, few, st.integers(-2, 2)), min_size=1, max_size=60))
def test_nobody_is_counted_twice_and_noise_does_not_add_up(
    history: list[tuple[int, int, int, int, int]],
) -> None:
    """Whatever ends how, with a gauge that is a little off: all lost ones are found, and at most the noise too much."""
    server, looks = Server(), [(0.0, counters(0, 0, 0))]
    too_long = 0
    for number, (new, good, bad, gone, skew) in enumerate(history, start=1):
        now = 5.0 * number
        server.tick(now, new, good, bad, gone)
        looks.append((now, server.look(skew)))
        too_long += sum(1 for since in server.active if now - since == LIMIT_S)
    looks.append((5.0 * len(looks), server.look(0)))
    found = samples(*looks)
    errors, requests = sum(one.errors for one in found), sum(one.requests for one in found)
    assert errors >= server.errors + server.lost
    assert errors <= server.errors + server.lost + too_long + 2
    assert requests <= server.begun + 2
    assert all(one.begun is not None and one.begun >= 0 for one in found)
    assert sum(one.begun or 0 for one in found) == server.begun

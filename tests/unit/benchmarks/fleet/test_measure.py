"""What a measured release has to be, so that its figures say anything."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.figure import MeasureError
from benchmarks.fleet.answers import FleetAnswer
from benchmarks.fleet.evidence import Evidence
from benchmarks.fleet.measure import lowest_rate_rps, release_of
from benchmarks.fleet.plan import Plan

SERVERS = ("a", "b")
RATE_RPS = 20.0


def answers(*, but_not: str = "", rate_rps: float = RATE_RPS) -> list[FleetAnswer]:
    """Return ten seconds of answers; all servers have version 2 from second 5 on, `but_not` one of them."""
    found = []
    for server in SERVERS:
        for number in range(int(10 * rate_rps)):
            sent = number / rate_rps
            version = 2 if sent >= 5.0 and server != but_not else 1
            protocol = "http" if number % 2 else "grpc"
            found.append(FleetAnswer(server, protocol, sent, sent + 0.002, version, version))
    return found


def seen(given: list[FleetAnswer], **changes: Any) -> Evidence:
    """Return a release that was committed."""
    told = {"outcomes": ["committed"], "prepare_s": 3.0, "commit_ms": 60.0} | changes
    loaded = {one: {"digits": [2]} for one in SERVERS}
    after = [one for one in given if one.sent > 9.0]
    plan = Plan(0, "nothing", "never", 0, 0.0, 0.0)
    return Evidence(plan, 1, 2, SERVERS, answers=given, after=after, loaded=loaded, **told)


def test_a_release_is_measured_by_what_users_saw() -> None:
    """Its window, its requests, and what the controller says of itself."""
    release = release_of(seen(answers()), RATE_RPS, 0.5)
    assert (release.window.answered_ms, release.requests, release.failed) == (0.0, 400, 0)
    assert (release.prepare_s, release.commit_ms) == (3.0, 60.0)


def test_failed_requests_are_counted_and_do_not_end_the_measurement() -> None:
    """That is a figure of its own."""
    failed = FleetAnswer("a", "http", 6.0, 6.1, error="HTTP 404")
    assert release_of(seen([*answers(), failed]), RATE_RPS, 0.5).failed == 1


@pytest.mark.parametrize(
    ("given", "changes", "expected"),
    [
        (answers(but_not="b"), {}, "b answers 1 over http, not 2"),
        (
            answers(),
            {"outcomes": ["taken_back"], "reasons": ["a: it is away"]},
            "it was taken_back: a: it is away",
        ),
        (answers()[:200], {}, "b over http with version 1"),
        (answers(rate_rps=10.0), {}, "only 10 requests/s reached a server"),
    ],
)
def test_a_release_that_says_nothing_gives_no_figure(
    given: list[FleetAnswer], changes: dict[str, Any], expected: str
) -> None:
    """A fleet of two versions, one that was taken back, servers that were not seen, too little traffic."""
    with pytest.raises(MeasureError, match=expected):
        release_of(seen(given, **changes), RATE_RPS, 0.5)


def test_the_rate_is_that_of_the_server_that_got_the_fewest() -> None:
    """A fleet with one idle server is not under load."""
    given = answers()
    assert lowest_rate_rps(given, SERVERS) == pytest.approx(RATE_RPS, rel=0.02)
    assert lowest_rate_rps(given, (*SERVERS, "c")) == 0.0

"""Requests that began and were not answered: what fails at once, what passes nothing, and what is no sign of it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import default_rng

from slipway_core.canary.judge import CanaryJudge
from slipway_core.metrics.samples import Sample, Window
from tests.support.canary.windows import judge, window


def seen(stable: Sample, candidate: Sample, seconds: float = 10.0) -> Window:
    """A window of a source that counts what begins."""
    return Window(seconds, stable, candidate)


def flow(begun: int, answered: int, active: int = 0, unanswered: int = 0) -> Sample:
    """A revision that answered without errors, and left some unanswered."""
    return Sample(answered + unanswered, unanswered, {}, unanswered, begun, active)


def test_none_answered_is_a_fail_in_the_first_window() -> None:
    """All clients of the candidate gave up, those of stable got their answers: nobody waits for a second window."""
    verdict = judge(weight=20).observe(seen(flow(144, 144), flow(36, 0, 2, unanswered=34)))
    assert verdict.status == "fail"
    assert verdict.reason == (
        "The candidate fails: it answers no requests. 34 of its requests started and none was answered; stable "
        "answered 144 of 144 in the same time."
    )


def test_requests_that_hang_while_their_clients_wait_are_a_fail_after_the_next_window() -> None:
    """Those of the first window had another one for their answer; those of the last may still be answered."""
    judged = judge(weight=20)
    assert judged.observe(seen(flow(144, 144), flow(36, 0, 36))).status == "inconclusive"
    verdict = judged.observe(seen(flow(144, 144), flow(36, 0, 72)))
    assert verdict.status == "fail"
    assert "36 of its requests started and none was answered" in verdict.reason


def test_a_deadlock_before_the_end_of_the_bake_does_not_pass() -> None:
    """The candidate answered nearly all; what began last is not over, which stable does not know."""
    judged = judge(weight=20)
    for _ in range(6):
        assert judged.observe(seen(flow(800, 800, 1), flow(200, 200, 0))).status == "pass"
    verdict = judged.observe(seen(flow(800, 800, 1), flow(200, 190, 10)))
    assert verdict.status == "inconclusive"
    assert verdict.reason == (
        "10 of the candidate's requests have started and are not answered yet; judging by stable, 0.25 would be normal."
    )
    assert judged.observe(seen(flow(800, 800, 1), flow(200, 210, 0))).status == "pass"


def test_where_both_are_slow_nothing_is_unusual() -> None:
    """Answers that take as long from both leave as many active, for as many that began."""
    judged = judge(weight=20)
    for _ in range(3):
        verdict = judged.observe(seen(flow(80, 80, 320), flow(20, 20, 85)))
    assert verdict.status == "pass"


def test_streams_that_are_open_for_long_are_no_requests_that_hang() -> None:
    """Stable has many open calls for as many that began; the candidate's first ones, all open, are no sign."""
    judged = judge(weight=20)
    for number in range(1, 6):
        verdict = judged.observe(seen(flow(80, 80, 2400), flow(20, 0, 20 * number)))
        assert verdict.status == "inconclusive"
        assert "Too little data" in verdict.reason


def test_clients_that_give_up_on_both_fail_nobody() -> None:
    """Where stable's clients give up as often, a candidate that answered none of a few is no fault."""
    judged = judge(weight=20)
    for _ in range(3):
        assert judged.observe(seen(flow(80, 8, 0, 72), flow(12, 0, 0, 12))).status != "fail"


def test_a_source_without_begun_that_sees_nobody_is_a_fail() -> None:
    """At 50 % no request of the candidate is seen: it answers nobody or is sent nobody, which is a fail either way."""
    judged = judge(weight=50, bake_s=180)
    statuses = [judged.observe(window((250, 0), (0, 0), 10.0)) for _ in range(3)]
    assert [one.status for one in statuses] == ["inconclusive", "inconclusive", "fail"]
    assert "answers no requests, or gets none" in statuses[-1].reason


def test_a_candidate_that_falls_silent_is_a_fail() -> None:
    """What was answered before does not count against the silence that followed."""
    judged = judge(weight=50)
    for _ in range(30):
        judged.observe(window((250, 0), (250, 0)))
    assert judged.observe(window((250, 0), (0, 0), 3.0)).status == "pass"
    assert judged.observe(window((250, 0), (0, 0), 3.0)).status == "fail"


def test_a_pause_is_no_silence() -> None:
    """With short windows two of them without a request may be a pause of the server's: that fails nobody."""
    judged = judge(weight=50)
    for _ in range(30):
        judged.observe(window((250, 0), (250, 0)))
    for _ in range(4):
        assert judged.observe(window((250, 0), (0, 0), 1.0)).status != "fail"
    hanging = judge(weight=50)
    hanging.observe(seen(flow(50, 50), flow(50, 0, 50), seconds=1.0))
    assert hanging.observe(seen(flow(50, 50), flow(50, 0, 100), seconds=1.0)).status == "inconclusive"


def test_where_the_source_shows_that_none_began_it_is_the_router() -> None:
    """Nobody was sent there: nothing is held against the candidate, and nothing passes."""
    judged = judge(weight=50)
    for _ in range(10):
        verdict = judged.observe(seen(flow(250, 250), flow(0, 0)))
    assert verdict.status == "inconclusive"
    assert "The router does not do what the status says" in verdict.reason


def test_the_first_window_of_a_step_shows_nobody_by_right() -> None:
    """It may have begun at the weight before, at which nobody was sent to the candidate."""
    judged = judge(weight=50)
    judged.observe(window((5000, 0), (0, 0)))
    assert judged.observe(window((10, 0), (0, 0))).status == "inconclusive"


def test_it_outlives_a_restart() -> None:
    """A saved judge goes on with what is not answered yet."""
    judged = judge(weight=20)
    judged.observe(seen(flow(144, 144), flow(36, 0, 36)))
    judged = CanaryJudge.from_json(judged.to_json())
    assert judged.observe(seen(flow(144, 144), flow(36, 0, 72))).status == "fail"
    state = json.loads(judged.to_json())
    state["answers"]["began"] = -1
    with pytest.raises(Exception, match="cannot be read"):
        CanaryJudge.from_json(json.dumps(state))


@given(
    st.integers(1, 99), st.integers(0, 400), st.floats(0.3, 1.0), st.floats(0, 8), st.integers(0, 2**32 - 1)
)
def test_a_candidate_that_answers_as_stable_does_fails_of_none_of_this(
    weight: int, rate: int, answered: float, wait: float, seed: int
) -> None:
    """Whatever the weight, the traffic, the clients' patience and the time for an answer."""
    draw = default_rng(seed)

    def sample(requests: int) -> Sample:
        good = int(draw.binomial(requests, answered))
        return Sample(
            requests, requests - good, {}, requests - good, requests, int(draw.poisson(wait * rate / 10))
        )

    judged = judge(weight=weight)
    for _ in range(12):
        sent = int(draw.poisson(rate))
        mine = int(draw.binomial(sent, weight / 100))
        reason = judged.observe(seen(sample(sent - mine), sample(mine))).reason
        assert "answers no requests" not in reason

"""What is made of a live canary's answers: figures, or the reason why there are none."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import pytest

from benchmarks.figure import MeasureError
from benchmarks.live import rollback, weight_changes
from slipway_sandbox.load.answers import Answer

STABLE, CANDIDATE = "moody-predictor-00001", "moody-predictor-00002"
WEIGHT_0_AT = 14.3


@dataclass(frozen=True)
class StepEnd:
    """As `benchmarks.live.canary.StepEnd`, which cannot be imported without Airflow."""

    decision: str = "roll_back"
    verdict: str = "fail"
    reason: str = "it fails more often"
    candidate: str = CANDIDATE
    windows: int = 2
    decided_at: float = 14.0
    weight_0_at: float | None = WEIGHT_0_AT
    patches: int = 1


def answer(sent: float, revision: str | None = STABLE, error: str | None = None) -> Answer:
    return Answer(sent, sent, sent + 0.002, "http", revision, error)


def answers() -> list[Answer]:
    """Twenty seconds of load, of which the candidate fails every fifth request from 10 to 14 s."""
    moments = [number / rollback.RATE_RPS for number in range(int(20 * rollback.RATE_RPS))]
    return [
        answer(at, CANDIDATE, "HTTP 500") if number % 5 == 0 and 10 <= at < 14 else answer(at)
        for number, at in enumerate(moments)
    ]


def test_a_rollback_is_measured_at_the_clients() -> None:
    """Seconds and bad answers are those that users saw; the decision's time is the release's own."""
    found = rollback.rollback_of(answers(), StepEnd())  # type: ignore[arg-type]
    assert found.seconds == pytest.approx(3.975)
    assert found.bad_answers == 160
    assert found.decision_to_weight_0_ms == pytest.approx(300.0)


@pytest.mark.parametrize(
    ("end", "more", "words"),
    [
        (StepEnd(decision="advance", verdict="pass", weight_0_at=None), [], "ended advance by pass"),
        (StepEnd(verdict="inconclusive"), [], "by inconclusive"),
        (StepEnd(patches=2), [], "2 patches"),
        (StepEnd(), [answer(WEIGHT_0_AT + 0.1, CANDIDATE)], "after weight 0 was observed"),
        (StepEnd(), [answer(15.0, STABLE, "HTTP 503")], "1 requests failed without the candidate"),
        (StepEnd(), [answer(15.0, None, "ClientError")], "1 requests failed without the candidate"),
        (StepEnd(), [answer(30.0)], r"only 133 requests/s"),
    ],
)
def test_what_is_no_clean_rollback_gives_no_figure(end: StepEnd, more: list[Answer], words: str) -> None:
    """A canary that ended otherwise, or that cost other users something, is told and not averaged away."""
    with pytest.raises(MeasureError, match=words):
        rollback.rollback_of([*answers(), *more], end)  # type: ignore[arg-type]


def test_a_candidate_without_bad_answers_gives_no_figure() -> None:
    """There is no time from what did not happen."""
    sound = [answer(one.sent, one.revision) for one in answers()]
    with pytest.raises(MeasureError, match="no user met"):
        rollback.rollback_of(sound, StepEnd())  # type: ignore[arg-type]


def test_figures_are_medians_that_say_their_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    """The three figures of a canary come from the same repeats."""
    repeats = tuple(
        rollback.Rollback(seconds, bad, ms) for seconds, bad, ms in ((4, 9, 300), (6, 5, 200), (5, 7, 250))
    )
    monkeypatch.setattr(rollback, "rollbacks", lambda percent: repeats)
    seconds, bad = rollback.measure_seconds(5), rollback.measure_bad_answers(5)
    decision = rollback.measure_decision_to_weight_0()
    assert (seconds.name, seconds.value, seconds.note) == (
        "rollback_s_at_5_percent",
        5,
        "median of 3, 4 to 6",
    )
    assert (bad.name, bad.value, bad.note) == ("bad_answers_at_5_percent", 7, "median of 3, 5 to 9")
    assert (decision.name, decision.value) == ("decision_to_weight_0_ms", 250)


def test_each_change_of_weight_is_one() -> None:
    """Percents lie from 1 to 99 and never repeat at once; the seed decides them."""
    found = weight_changes.weights(500, 4)
    assert len(found) == 500
    assert min(found) == 1
    assert max(found) == 99
    assert all(earlier != later for earlier, later in itertools.pairwise(found))
    assert found == weight_changes.weights(500, 4)
    assert found != weight_changes.weights(500, 5)


def test_every_failed_request_counts_against_weight_changes() -> None:
    """Whoever failed it: here both revisions are sound."""
    given = [
        answer(1.0),
        answer(1.1, CANDIDATE),
        answer(1.2, CANDIDATE, "HTTP 503"),
        answer(1.3, None, "reset"),
    ]
    figure = weight_changes.figure_of(given, 30.0)
    assert (figure.value, figure.unit) == (2.0, "requests")
    assert figure.note.startswith("of 4 ")


def test_weight_changes_without_traffic_on_both_are_none() -> None:
    """Where only one revision ever answered, no weight was changed, whatever failed or not."""
    with pytest.raises(MeasureError, match="two revisions"):
        weight_changes.figure_of([answer(1.0), answer(1.1)], 30.0)

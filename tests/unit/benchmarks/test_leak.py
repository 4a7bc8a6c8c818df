"""What is made of a rollback under streams: a figure, or the reason why there is none."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest

from benchmarks.figure import MeasureError
from benchmarks.live.leak import leak_of
from slipway_core.record.kinds import RolledBack
from slipway_sandbox.load.answers import Answer
from slipway_sandbox.load.open_streams import OpenStreams, StreamAnswer, StreamEnd
from slipway_sandbox.load.request_set import RequestSet

STABLE, CANDIDATE = "moody-predictor-00001", "moody-predictor-00002"
WEIGHT_0 = datetime(2026, 11, 25, 12, 0, tzinfo=UTC)
AT = WEIGHT_0.timestamp()


def told(drained: str | None = "pods_ended", seconds: float | None = 30.0) -> RolledBack:
    return RolledBack(
        stable_storage_uri=None,
        candidate_requests=None,
        candidate_errors=None,
        weight_0_at=WEIGHT_0,
        drained=drained,
        drain_seconds=seconds,
    )


def streams() -> OpenStreams:
    """One answer of the candidate before weight 0, two in the grace, one after it; two of stable's after it."""
    one = OpenStreams(RequestSet("x", np.ones((1, 1), dtype=np.float32), "y"), 1, "host", "moody")
    one.answers += [StreamAnswer(AT + s, CANDIDATE) for s in (-1, 1, 29, 31)]
    one.answers += [StreamAnswer(AT + s, STABLE) for s in (31, 32)]
    one.ends += [StreamEnd(AT + 29, CANDIDATE, "gone"), StreamEnd(AT + 29, None, "gone")]
    return one


def test_only_what_the_candidate_answers_after_the_word_is_a_leak() -> None:
    """Unary requests and streams apart; what came between weight 0 and the word is told beside it."""
    unary = [Answer(AT + s, AT + s, AT + s, "http", CANDIDATE, None) for s in (-1, 0.5, 30.5, 31)]
    found = leak_of("Knative", told(), CANDIDATE, unary, streams())
    assert (found.unary, found.streams, found.late, found.broken) == (2, 1, 1 + 2, 0)


def test_a_broken_stream_of_the_good_version_is_counted() -> None:
    """A rollback must not end what stable serves."""
    one = streams()
    one.ends.append(StreamEnd(AT + 5, STABLE, "gone"))
    assert leak_of("Knative", told(), CANDIDATE, [], one).broken == 1


@pytest.mark.parametrize(("drained", "seconds"), [("unseen", 35.0), ("still_asked", 60.0), (None, None)])
def test_without_the_word_there_is_no_figure(drained: str | None, seconds: float | None) -> None:
    """Nobody said that nobody is on the candidate."""
    with pytest.raises(MeasureError, match="does not say"):
        leak_of("Knative", told(drained, seconds), CANDIDATE, [], streams())

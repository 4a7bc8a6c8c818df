"""A canary as a log tells it."""

from __future__ import annotations

import math
from datetime import UTC, datetime

from slipway_core.canary.judge import AnalysisPolicy, CanaryJudge
from slipway_core.canary.log_lines import step_line, window_line
from slipway_core.metrics.samples import Sample, Window

AT = datetime(2026, 11, 22, 15, 47, 49, tzinfo=UTC)


def judge() -> CanaryJudge:
    made = CanaryJudge(AnalysisPolicy(minimum_candidate_requests=20))
    made.begin_step(20, 60.0)
    return made


def sample(requests: int, errors: int = 0) -> Sample:
    return Sample(requests, errors, {5.0: requests - errors, 10.0: errors, math.inf: 0})


def test_a_step_begins_with_what_will_happen() -> None:
    """Which step, which weight is set and seen, for how long."""
    assert step_line(0, 3, 20, 20, 60.0, 10.0) == (
        "step 1 of 3: weight 20 % is set, 20 % is seen in the traffic; watched for at least 1 min, judged every 10 s"
    )
    assert "the traffic does not name the candidate" in step_line(0, 3, 20, None, 60.0, 10.0)


def test_a_window_is_one_line_of_columns() -> None:
    """Time, weight, verdict and evidence; then both versions' requests, errors and p99."""
    verdict = judge().observe(Window(10.0, sample(1204, 1), sample(301)))
    assert window_line(verdict, AT) == (
        f"15:47:49 |  20 % | inconclusive | evidence {verdict.statistics.total_evidence:>7.3g} of 100 | "
        "candidate     301 req     0 err p99  4.95 ms | stable   1,204 req     1 err p99  4.95 ms"
    )


def test_the_columns_stay_where_they_are() -> None:
    """Few requests or many, passed or not: a person reads down a column."""
    made = judge()
    windows = [
        Window(10.0, sample(stable), sample(candidate))
        for stable, candidate in ((3, 1), (99_999, 12_345), (0, 0))
    ]
    lines = [window_line(made.observe(window), AT) for window in windows]
    assert len({tuple(at for at, sign in enumerate(line) if sign == "|") for line in lines}) == 1


def test_what_was_not_seen_is_said() -> None:
    """A window without data, a p99 beyond the last bound, no p99 at all, and whose requests they were."""
    made = judge()
    assert window_line(made.observe_failure("HTTP 503"), AT).endswith("| no data from the metrics source")
    slow = Sample(10, 0, {5.0: 0, math.inf: 10})
    line = window_line(made.observe(Window(10.0, slow, Sample(10, 0), source="replay")), AT)
    assert "p99    >5 ms" in line
    assert "p99        -" in line
    assert line.endswith("| replayed golden requests")

"""A canary as a log tells it."""

from __future__ import annotations

import math

from include.model_release.canary.judge import AnalysisPolicy, CanaryJudge
from include.model_release.canary.log_lines import step_line, window_line
from include.model_release.metrics.samples import Sample, Window


def judge() -> CanaryJudge:
    made = CanaryJudge(AnalysisPolicy(minimum_candidate_requests=20))
    made.begin_step(20, 60.0)
    return made


def sample(requests: int, errors: int = 0) -> Sample:
    return Sample(requests, errors, {5.0: requests - errors, 10.0: errors, math.inf: 0})


def test_a_step_begins_with_what_will_happen() -> None:
    """Which step, which weight, for how long."""
    assert step_line(0, 3, 20, 60.0, 10.0) == (
        "step 1 of 3: the candidate has 20 % of the users, watched for at least 1 min, judged every 10 s"
    )


def test_a_window_is_one_line_of_columns() -> None:
    """Time in the step, weight as set and as seen, both versions' requests, errors and p99, evidence, verdict."""
    verdict = judge().observe(Window(10.0, sample(1204, 1), sample(301)))
    assert window_line(verdict, elapsed_s=10.0, seen_weight=20) == (
        "      10 s | weight  20 %, seen  20 % | "
        "stable   1,204 requests     1 errors p99   4.95 ms | candidate     301 requests     0 errors p99   4.95 ms | "
        f"evidence {verdict.statistics.total_evidence:>7.3g} of 100 | inconclusive"
    )


def test_the_columns_stay_where_they_are() -> None:
    """Few requests or many: a person reads down a column."""
    made = judge()
    lines = [
        window_line(
            made.observe(Window(10.0, sample(stable), sample(candidate))), elapsed_s=at, seen_weight=seen
        )
        for at, stable, candidate, seen in ((1.0, 3, 1, 5), (70.0, 99_999, 12_345, None), (4000.0, 0, 0, 100))
    ]
    assert len({tuple(at for at, sign in enumerate(line) if sign == "|") for line in lines}) == 1


def test_what_was_not_seen_is_said() -> None:
    """A window without data, a weight that is not known, a p99 beyond the last bound, and whose requests they were."""
    made = judge()
    blind = window_line(made.observe_failure("HTTP 503"), elapsed_s=20.0, seen_weight=None)
    assert "| weight  20 %, seen     - | no data from the metrics source | evidence" in blind
    slow = Sample(10, 0, {5.0: 0, math.inf: 10})
    replayed = made.observe(Window(10.0, slow, Sample(10, 0), source="replay"))
    line = window_line(replayed, elapsed_s=20.0, seen_weight=20)
    assert "p99     >5 ms" in line
    assert "p99         -" in line
    assert line.endswith("| replayed golden requests")

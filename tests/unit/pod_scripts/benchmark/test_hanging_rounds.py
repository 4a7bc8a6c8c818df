"""After how long a round of perf_analyzer is taken to hang."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from benchmark_perf_analyzer import (
    FIRST_ROUND_S,
    HANGS_AFTER_S,
    ONE_BY_ONE_SLACK,
    ROUND_SLACK,
    SENDING_SLACK,
    try_limit_s,
)

from slipway_pod.benchmark.figures import Load
from slipway_pod.benchmark.load import BenchmarkRun, Deadline, Server, Subject
from slipway_pod.storage.s3 import Store

CANDIDATE = Subject("candidate", "m", "2")


@pytest.fixture
def run(tmp_path: Path) -> BenchmarkRun:
    """A benchmark of 200 requests a round, which may take 300 s."""
    nothing = object()
    return BenchmarkRun(
        Namespace(requests=200, warmup_requests=20),
        cast(Store, nothing),
        tmp_path,
        cast(Server, nothing),
        Deadline(300),
    )


def test_first_round_leaves_time_to_start_it_once_more(run: BenchmarkRun) -> None:
    """Nobody knows how long it should take: a minute, or a quarter of the time where that is less."""
    assert try_limit_s(run, CANDIDATE, Load(concurrency=2)) == FIRST_ROUND_S
    short, shortest = replace(run, deadline=Deadline(120)), replace(run, deadline=Deadline(40))
    assert try_limit_s(short, CANDIDATE, Load(concurrency=2)) == pytest.approx(30, abs=1)
    assert try_limit_s(shortest, CANDIDATE, Load(concurrency=2)) == HANGS_AFTER_S


def test_first_round_of_a_slow_model_is_not_started_twice(run: BenchmarkRun) -> None:
    """200 requests and 20 before them take 220 s on one instance, with however many in flight, at 1 s each."""
    run.request_s["candidate"] = 1.0
    assert try_limit_s(run, CANDIDATE, Load(concurrency=8)) == ONE_BY_ONE_SLACK * 220
    assert try_limit_s(run, Subject("baseline", "m", "1"), Load(concurrency=8)) == FIRST_ROUND_S
    run.took_s[("candidate", Load(concurrency=8).name)] = [30.0]
    assert try_limit_s(run, CANDIDATE, Load(concurrency=8)) == HANGS_AFTER_S + ROUND_SLACK * 30.0


def test_hang_of_a_fast_model_is_found_as_early_as_before(run: BenchmarkRun) -> None:
    """Where all requests one after the other take less than the limit, the limit stays."""
    run.request_s["candidate"] = 0.1
    assert try_limit_s(run, CANDIDATE, Load(concurrency=1)) == FIRST_ROUND_S


def test_round_is_measured_by_those_before_it(run: BenchmarkRun) -> None:
    """The slowest of this model at this level counts; other levels and models say nothing."""
    run.took_s[("candidate", Load(concurrency=2).name)] = [1.0, 2.0]
    assert try_limit_s(run, CANDIDATE, Load(concurrency=2)) == HANGS_AFTER_S + ROUND_SLACK * 2.0
    assert try_limit_s(run, CANDIDATE, Load(concurrency=8)) == FIRST_ROUND_S
    assert try_limit_s(run, Subject("baseline", "m", "1"), Load(concurrency=2)) == FIRST_ROUND_S


def test_round_at_a_rate_is_measured_by_the_rate(run: BenchmarkRun) -> None:
    """200 requests at 50 a second should be sent in 4 s."""
    assert try_limit_s(run, CANDIDATE, Load(request_rate_rps=50)) == HANGS_AFTER_S + SENDING_SLACK * 4

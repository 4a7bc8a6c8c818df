"""After how long a round is taken to hang, and what becomes of it then."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

import benchmark_genai_perf
import benchmark_perf_analyzer
from slipway_pod.benchmark import hanging_rounds
from slipway_pod.benchmark.figures import Load
from slipway_pod.benchmark.hanging_rounds import (
    FIRST_ROUND_S,
    HANGS_AFTER_S,
    ONE_BY_ONE_SLACK,
    ROUND_SLACK,
    SENDING_SLACK,
    run_round,
    try_limit_s,
)
from slipway_pod.benchmark.load import BenchmarkRun, Deadline, Server, Subject
from slipway_pod.errors import PodError
from slipway_pod.storage.s3 import Store

CANDIDATE = Subject("candidate", "m", "2")
ARGUMENTS = ["--server", "h:1", "--candidate", "m", "--candidate-version", "2", "--destination", "s3://b/out"]
TEXT = benchmark_genai_perf.Text(["once"], None, Path("/nowhere"))
MEASURES: dict[str, Callable[[BenchmarkRun], object]] = {
    "genai-perf": lambda run: benchmark_genai_perf.measure(run, TEXT, CANDIDATE, 1, Load(concurrency=1)),
    "perf_analyzer": lambda run: benchmark_perf_analyzer.measure(run, (), CANDIDATE, 1, Load(concurrency=1)),
}


class ServingServer:
    """Serves every model."""

    def require_serving(self, subject: Subject) -> None:
        """Raise nothing."""


def hangs_once(folder: Path, name: str, then: str) -> Path:
    """Lay a program into the folder that hangs in its first run; return where it counts its runs."""
    program, runs = folder / name, folder / "runs"
    program.write_text(f"#!/bin/sh\necho >> {runs}\n[ $(wc -l < {runs}) -gt 1 ] || exec sleep 60\n{then}\n")
    program.chmod(0o755)
    return runs


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


@pytest.mark.parametrize("generator", MEASURES)
def test_round_that_hangs_is_started_once_more_by_every_program(
    generator: str, run: BenchmarkRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second run's end counts: here it is a failure, and the benchmark's time is not over."""
    runs = hangs_once(tmp_path, generator, "exit 7")
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.setattr(hanging_rounds, "FIRST_ROUND_S", 0.5)
    monkeypatch.setattr(benchmark_genai_perf, "STARTS_IN_S", 0.0)
    told = vars(benchmark_genai_perf.arguments(ARGUMENTS))
    one = replace(run, options=Namespace(**told), server=cast(Server, ServingServer()))
    with pytest.raises(PodError) as raised:
        MEASURES[generator](one)
    assert f"{generator} ended with exit code 7" in (raised.value.found or "")
    assert len(runs.read_text().splitlines()) == 2


def test_time_of_a_round_is_that_of_its_second_try(
    run: BenchmarkRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the first one has hung does not make later rounds wait longer."""
    hangs_once(tmp_path, "generator", "exit 0")
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.setattr(hanging_rounds, "FIRST_ROUND_S", 2.0)
    assert run_round(run, CANDIDATE, Load(concurrency=2), ["generator"], starts_in_s=1.0).code == 0
    (took_s,) = run.took_s[("candidate", Load(concurrency=2).name)]
    assert took_s < 2.0

"""What drives a load generator: its turns, its time, and why it failed."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from slipway_pod.benchmark import load
from slipway_pod.benchmark.figures import Load, Quantiles, RoundFigures
from slipway_pod.benchmark.load import (
    BenchmarkRun,
    Deadline,
    Round,
    Subject,
    checked,
    complaint,
    load_parser,
    measure_in_turns,
)
from slipway_pod.errors import PodError
from slipway_pod.program.subprograms import Ended

COMMAND = ["--server", "h:1", "--candidate", "new", "--candidate-version", "2", "--destination", "s3://b/out"]
FIGURES = RoundFigures(5, 0, 2.0, Quantiles.of([1.0, 3.0]))
BASELINE = ["--baseline", "old", "--baseline-version", "1"]


class FakeServer:
    """Serves everything, or nothing."""

    def __init__(self, serves: bool = True) -> None:
        self.serves = serves

    def require_serving(self, subject: Subject) -> None:
        if not self.serves:
            raise PodError("ServerUnavailableError", f"The {subject} is not ready")


class FakeStore:
    def __init__(self) -> None:
        self.uploaded: dict[str, Any] = {}

    def upload(self, path: Path, url: str) -> None:
        self.uploaded[url] = json.loads(path.read_text())


def options(*more: str) -> argparse.Namespace:
    parser = load_parser("about")
    return checked(parser, parser.parse_args([*COMMAND, *more]))


def run(folder: Path, *more: str, serves: bool = True) -> Any:
    store, server = FakeStore(), FakeServer(serves)
    return BenchmarkRun(options(*more), store, folder, server, Deadline(60))  # type: ignore[arg-type]


def test_models_take_turns_and_who_is_first_changes(tmp_path: Path) -> None:
    """Each round measures both; figures go into the result, what they come from goes beside it."""
    result: dict[str, Any] = {"measurements": []}
    one = run(tmp_path, *BASELINE, "--rounds", "2", "--concurrency", "3")
    measure_in_turns(one, lambda subject, number, load: Round(FIGURES, {"of": subject.model}), result)
    order = [(entry["role"], entry["round"]) for entry in result["measurements"]]
    assert order == [("candidate", 1), ("baseline", 1), ("baseline", 2), ("candidate", 2)]
    whose = {"round": 1, "concurrency": 3, "request_rate_rps": None}
    assert result["measurements"][0] == {"role": "candidate", **whose, **FIGURES.to_json()}
    raw = one.store.uploaded["s3://b/out/raw/baseline-2.json"]
    assert raw == {"role": "baseline", **whose, "round": 2, "model": "old", "version": "1", "of": "old"}


def test_further_levels_of_a_sweep_are_measured_once(tmp_path: Path) -> None:
    """All rounds are at the first level; a later pod, which goes on counting, measures that one alone."""

    def levels(*more: str) -> list[tuple[int, float]]:
        result: dict[str, Any] = {"measurements": []}
        one = run(tmp_path, "--request-rate", "5", "10", "20", "--rounds", "2", *more)
        measure_in_turns(one, lambda *_: Round(FIGURES, {}), result)
        return [(entry["round"], entry["request_rate_rps"]) for entry in result["measurements"]]

    assert levels() == [(1, 5), (1, 10), (1, 20), (2, 5)]
    assert levels("--first-round", "3") == [(3, 5), (4, 5)]


def test_a_failure_keeps_the_rounds_before_it(tmp_path: Path) -> None:
    """What was measured before a round failed is in the result."""
    result: dict[str, Any] = {"measurements": []}

    def measure(_: Subject, number: int, load: Load) -> Round:
        if number == 2:
            raise PodError("TimedOutError", "late")
        return Round(FIGURES, {})

    with pytest.raises(PodError, match="late"):
        measure_in_turns(run(tmp_path, "--rounds", "3"), measure, result)
    assert len(result["measurements"]) == 1


REFUSAL = (
    "starting",
    "Failed to retrieve results from inference request.",
    "Thread [0] had error: out of range",
)


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (REFUSAL, "Thread [0] had error: out of range"),
        (REFUSAL[:2], "Failed to retrieve results from inference request."),
        (("it failed", "an error: why", "bye"), "an error: why"),
        (("it failed", "bye"), "it failed"),
        (("nothing", "bye"), "bye"),
        ((), "it said nothing"),
    ],
)
def test_the_line_that_tells_most(lines: tuple[str, ...], told: str) -> None:
    """The server's own words come before the load generator's, and an error before whatever was said last."""
    assert complaint(lines) == told


@pytest.mark.parametrize(
    ("role", "lines", "serves", "kind"),
    [
        ("candidate", REFUSAL, True, "BenchmarkRefusedError"),
        ("baseline", REFUSAL, True, "UserError"),
        ("candidate", ("segmentation fault",), True, "SlipwayError"),
        ("candidate", REFUSAL, False, "ServerUnavailableError"),
    ],
)
def test_who_is_to_blame(role: str, lines: tuple[str, ...], serves: bool, kind: str) -> None:
    """A request that the model refused is its own fault, unless the server is gone; anything else is ours."""
    server: Any = FakeServer(serves)
    try:
        error = load.ended_badly(server, Subject(role, "m", "1"), "perf_analyzer", Ended(1, lines))
    except PodError as raised:
        error = raised
    assert error.kind == kind
    assert f"{role} m version 1" in error.what


def test_a_late_load_generator_is_a_late_benchmark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the deadline it is ended, and the error names the limit of all rounds."""
    program = tmp_path / "generator"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    with pytest.raises(PodError) as raised:
        load.generate_load(["generator"], Deadline(0.5))
    assert (raised.value.kind, raised.value.expected) == ("TimedOutError", "all rounds within 0.5 s")


@pytest.mark.parametrize(("hangs", "kind"), [(1, None), (2, "TimedOutError")])
def test_a_load_generator_that_hangs_is_started_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hangs: int, kind: str | None
) -> None:
    """Where a limit of one try is given; one that hangs again is ended at the deadline."""
    program, tries = tmp_path / "generator", tmp_path / "tries"
    program.write_text(f"#!/bin/sh\necho >> {tries}\n[ $(wc -l < {tries}) -gt {hangs} ] || exec sleep 60\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    try:
        code: int | str = load.generate_load(["generator"], Deadline(4), try_limit_s=0.5).code
    except PodError as raised:
        code = raised.kind
    assert code == (kind or 0)
    assert len(tries.read_text().splitlines()) == 2


def test_an_image_without_the_load_generator_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The image must fit the generator that the release file names."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PodError, match=r"benchmark\.image"):
        load.generate_load(["generator"], Deadline(1))
    assert load.program_version("generator") == "not there"


def test_each_request_in_flight_is_warmed_up() -> None:
    """There is at least one warm-up request for each that is in flight."""
    assert options("--warmup-requests", "1", "--concurrency", "8").warmup_requests == 8


@pytest.mark.parametrize(
    "wrong",
    [
        ["--baseline", "old"],
        ["--requests", "2", "--concurrency", "1", "4"],
        ["--request-rate", "9", "--concurrency", "4"],
    ],
)
def test_arguments_that_hang_together(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A baseline wants its version, and a round at least as many requests as are in flight."""
    with pytest.raises(SystemExit, match="2"):
        options(*wrong)
    assert wrong[0] in capsys.readouterr().err

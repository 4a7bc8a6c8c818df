"""The frame of the programs that run a load generator: subjects, server, rounds in turns, and failures.

Each round measures the candidate and the baseline with a fixed number of requests, in turns, so that what slows the
machine meets both.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from slipway_pod.benchmark.figures import Load, RoundFigures
from slipway_pod.errors import PodError, first_line
from slipway_pod.program.arguments import new_parser, positive, s3_url, whole
from slipway_pod.program.progress import say
from slipway_pod.program.result import run_to_result
from slipway_pod.program.scratch import scratch_folder
from slipway_pod.program.software import tool_versions
from slipway_pod.program.subprograms import Ended, require_program, run_program
from slipway_pod.storage.s3 import Store

READY_TIMEOUT_S = 30.0
ANSWER_TIMEOUT_S = 10.0
# How perf_analyzer, which genai-perf drives too, says that the server answered a request with an error: in the
# server's own words, or in its own. It then often hangs or crashes instead of ending.
SERVERS_WORDS = re.compile(r"thread \[\d+\] had error", re.IGNORECASE)
REFUSED_REQUEST = re.compile(
    f"{SERVERS_WORDS.pattern}|failed to retrieve results from inference", re.IGNORECASE
)
# Finds the line that best says why a load generator failed.
COMPLAINTS = (
    SERVERS_WORDS,
    REFUSED_REQUEST,
    re.compile(r"\berror\b", re.IGNORECASE),
    re.compile("fail", re.IGNORECASE),
)
LOG_TAIL = 4000


# ---------------------------------------------------------------- the command line


def load_parser(about: str | None) -> argparse.ArgumentParser:
    """Return a parser with the arguments of every load generator."""
    parser = new_parser(about)
    add = parser.add_argument
    add("--server", required=True, metavar="HOST:GRPC_PORT", help="the staging Triton's gRPC address")
    add("--candidate", required=True, metavar="NAME", help="the candidate's name on the server")
    add("--candidate-version", required=True, metavar="V", help="its version")
    add("--baseline", metavar="NAME", help="the stable version's name on the server, if there is one")
    add("--baseline-version", metavar="V", help="its version")
    text = "requests in flight (2); of several the first is measured in all rounds, the others once"
    add("--concurrency", type=whole, nargs="+", metavar="N", help=text)
    text = "requests a second, sent by a schedule, instead of --concurrency; several as there"
    add("--request-rate", type=positive, nargs="+", metavar="R", help=text)
    add("--requests", type=whole, default=200, metavar="N", help="measured requests a round (%(default)s)")
    text = "unmeasured requests before them (%(default)s)"
    add("--warmup-requests", type=whole, default=20, metavar="N", help=text)
    add("--rounds", type=whole, default=2, metavar="N", help="how often each model is measured (%(default)s)")
    text = "number of the first round, so that a later pod can continue the count (%(default)s)"
    add("--first-round", type=whole, default=1, metavar="N", help=text)
    text = "limit for all rounds together (%(default)s)"
    add("--timeout-s", type=positive, default=300.0, metavar="S", help=text)
    add("--destination", required=True, type=s3_url, help="where to write, s3://BUCKET/PREFIX")
    return parser


def checked(parser: argparse.ArgumentParser, options: argparse.Namespace) -> argparse.Namespace:
    """Return the options; exit with code 2 where they contradict each other."""
    if bool(options.baseline) != bool(options.baseline_version):
        parser.error("--baseline and --baseline-version belong together")
    if options.concurrency and options.request_rate:
        parser.error("--concurrency and --request-rate exclude each other")
    most = max(load.concurrency or 1 for load in loads_of(options))
    if options.requests < most:
        parser.error(f"--requests must be at least --concurrency ({most}), found {options.requests}")
    # The load generator wants at least one warm-up request for each that is in flight.
    options.warmup_requests = max(options.warmup_requests, most)
    return options


def loads_of(options: argparse.Namespace) -> list[Load]:
    """Return the levels of load, the one first that all rounds are measured at."""
    if options.request_rate:
        return [Load(request_rate_rps=rate) for rate in options.request_rate]
    return [Load(concurrency=number) for number in options.concurrency or [2]]


# ---------------------------------------------------------------- what is measured


class Deadline:
    """A limit in seconds that starts now."""

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._end = time.monotonic() + timeout_s

    def remaining_s(self) -> float:
        """Return what is left, never below 0."""
        return max(0.0, self._end - time.monotonic())

    def passed(self) -> PodError:
        """Return the error for a benchmark that reached its limit."""
        return PodError(
            "TimedOutError",
            "The benchmark did not finish in time",
            expected=f"all rounds within {self.timeout_s:g} s",
            found="still at work",
            remedy="raise benchmark.timeout_s, or lower benchmark.requests, in the release file",
        )


@dataclass(frozen=True)
class Subject:
    """What is measured: `candidate` or `baseline`, and the model and version on the server."""

    role: str
    model: str
    version: str

    def __str__(self) -> str:
        return f"{self.role} {self.model} version {self.version}"


class Server:
    """Triton over gRPC: whether it serves a model, and what that model takes."""

    def __init__(self, address: str, timeout_s: float) -> None:
        """Wait until the server answers, at most 30 s.

        :raises PodError: of kind ServerUnavailableError.
        """
        import tritonclient.grpc

        self.address = address
        self.client = tritonclient.grpc.InferenceServerClient(address)
        deadline = Deadline(min(READY_TIMEOUT_S, timeout_s))
        while not self._is_live():
            if not deadline.remaining_s():
                raise PodError(
                    "ServerUnavailableError",
                    f"Triton at {address} does not answer",
                    expected=f"an answer within {deadline.timeout_s:g} s",
                    found="none",
                    remedy="check that the staging server runs and this is its gRPC port, then try again",
                )
            time.sleep(min(0.5, deadline.remaining_s()))

    def _is_live(self) -> bool:
        """Not whether it calls itself ready: a server on which any other model failed to load does not."""
        from tritonclient.utils import InferenceServerException

        try:
            return bool(self.client.is_server_live(client_timeout=5.0))
        except InferenceServerException:
            return False

    def describe(self, subject: Subject) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the model's metadata, and its configuration as the server has filled it in."""
        self.require_serving(subject)
        metadata = self._ask(subject, partial(self.client.get_model_metadata, as_json=True))
        config = self._ask(subject, partial(self.client.get_model_config, as_json=True))
        return dict(metadata), dict(config["config"])

    def require_serving(self, subject: Subject) -> None:
        """Raise PodError (ServerUnavailableError) unless the model is ready now."""
        if not self._ask(subject, self.client.is_model_ready):
            raise PodError(
                "ServerUnavailableError",
                f"The {subject} is not ready on Triton at {self.address}",
                expected="a loaded model",
                found="not ready",
                remedy="load it there first, then run the task again",
            )

    def _ask(self, subject: Subject, question: Callable[..., Any]) -> Any:
        from tritonclient.utils import InferenceServerException

        try:
            return question(
                model_name=subject.model, model_version=subject.version, client_timeout=ANSWER_TIMEOUT_S
            )
        except InferenceServerException as error:
            raise PodError(
                "ServerUnavailableError",
                f"Triton at {self.address} gives no description of the {subject}",
                found=first_line(error),
                remedy="check that the model is loaded and the server runs, then run the task again",
            ) from error


# ---------------------------------------------------------------- the load generator


def generate_load(
    command: Sequence[str],
    deadline: Deadline,
    environment: Mapping[str, str] | None = None,
    *,
    try_limit_s: float | None = None,
) -> Ended:
    """Run a load generator to its end, which may be a bad one.

    :param try_limit_s: after so long it is taken to hang: it is ended and started once more, and may then take all the
        time that is left. None: it is waited for.
    :raises PodError: of kind TimedOutError.
    """
    remedy = "correct benchmark.image in the release file: it must fit benchmark.generator"
    path = require_program(command[0], remedy)
    for try_s in (None,) if try_limit_s is None else (try_limit_s, None):
        left_s = deadline.remaining_s()
        limit_s = left_s if try_s is None else min(try_s, left_s)
        try:
            return run_program(
                [path, *command[1:]], limit_s, environment=environment, gives_up=REFUSED_REQUEST
            )
        except TimeoutError:
            if not deadline.remaining_s():
                break
            say("measure", f"{command[0]} has hung for {limit_s:g} s: it is started once more")
    raise deadline.passed()


def ended_badly(server: Server, subject: Subject, program: str, ended: Ended) -> PodError:
    """Return why the load generator ended without a measurement. Raises PodError itself when the server is gone.

    The log is asked, not the server's statistics: Triton counts an error that a Python model answers as
    success.
    """
    print("\n".join(ended.lines)[-LOG_TAIL:], file=sys.stderr)
    server.require_serving(subject)
    text = complaint(ended.lines)
    found = f"{program} ended with exit code {ended.code}: {text}"
    if not REFUSED_REQUEST.search(text):
        remedy = "read the pod's log, and report it"
        return PodError("SlipwayError", f"The {subject} could not be measured", found=found, remedy=remedy)
    return refused(subject, found)


def complaint(lines: Sequence[str]) -> str:
    """Return the line of a load generator's output that says what went wrong."""
    telling = (line for pattern in COMPLAINTS for line in lines if pattern.search(line))
    return next(telling, lines[-1] if lines else "it said nothing")[:300]


def refused(subject: Subject, found: str) -> PodError:
    """Return the error for a request that failed: the candidate is refused, or the baseline cannot take the set."""
    candidate = subject.role == "candidate"
    return PodError(
        "BenchmarkRefusedError" if candidate else "UserError",
        f"The {subject} fails requests",
        expected="an answer to every request",
        found=found,
        remedy="send it the golden set's rows one by one to see which it cannot take"
        if candidate
        else "the stable version cannot answer this golden set: correct the set",
    )


# ---------------------------------------------------------------- the run


@dataclass(frozen=True)
class BenchmarkRun:
    """One run of a benchmark: options, store, working folder, server, and deadline.

    `took_s` has how long the rounds of a role at a level of load have taken so far, `request_s` how long one request of
    a role takes by itself, seconds.
    """

    options: argparse.Namespace
    store: Store
    folder: Path
    server: Server
    deadline: Deadline
    took_s: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    request_s: dict[str, float] = field(default_factory=dict)

    @classmethod
    def open(cls, options: argparse.Namespace, store: Store, folder: Path) -> BenchmarkRun:
        """Wait for the server; the time begins now."""
        deadline = Deadline(options.timeout_s)
        return cls(options, store, folder, Server(options.server, options.timeout_s), deadline)

    @property
    def subjects(self) -> list[Subject]:
        """Return the candidate, and the baseline where one is named."""
        options = self.options
        subjects = [Subject("candidate", options.candidate, options.candidate_version)]
        if options.baseline:
            subjects.append(Subject("baseline", options.baseline, options.baseline_version))
        return subjects


@dataclass(frozen=True)
class Round:
    """What one round has measured of one model: its figures, and what they were computed from."""

    figures: RoundFigures
    raw: Mapping[str, Any]


Measure = Callable[[Subject, int, Load], Round]
"""Measures one model in the round of a number, at a level of load."""


def measure_in_turns(run: BenchmarkRun, measure: Measure, result: dict[str, Any]) -> None:
    """Measure all rounds into the result's `measurements`, and keep what each was computed from.

    All rounds are at the first level of load. The others are measured once, in the first pod's first round.
    """
    options, (load, *others) = run.options, loads_of(run.options)
    for number in range(options.first_round, options.first_round + options.rounds):
        measure_pair(run, measure, number, load, result["measurements"])
        for other in others if number == 1 else ():
            measure_pair(run, measure, number, other, result["measurements"], suffix=f"-{other.name}")


def measure_pair(
    run: BenchmarkRun,
    measure: Measure,
    number: int,
    load: Load,
    measurements: list[dict[str, Any]],
    suffix: str = "",
) -> None:
    """Measure one round of each model, one after the other, at one level of load."""
    # The order changes from round to round: neither model is always measured on the warmer machine.
    for subject in run.subjects if number % 2 else run.subjects[::-1]:
        measured = measure(subject, number, load)
        whose = {"role": subject.role, "round": number, **asdict(load)}
        measurements.append({**whose, **measured.figures.to_json()})
        say("measure", f"round {number}, {subject.role}, {load}: {_line_about(measured.figures)}")
        raw = run.folder / f"{subject.role}-{number}{suffix}.json"
        named = {"model": subject.model, "version": subject.version}
        raw.write_text(json.dumps({**whose, **named, **measured.raw}))
        run.store.upload(raw, f"{run.options.destination}/raw/{raw.name}")


def _line_about(figures: RoundFigures) -> str:
    return (
        f"{figures.requests} requests, {figures.throughput_rps:.1f}/s, "
        f"p50 {figures.latency.p50_ms:.2f} ms, p99 {figures.latency.p99_ms:.2f} ms"
    )


def run_benchmark(
    options: argparse.Namespace,
    work: Callable[[argparse.Namespace, Store, Path, dict[str, Any]], None],
    packages: Iterable[str],
    generator: str,
) -> int:
    """Run `work` in its own folder; it fills in the result as it goes. Returns the exit code.

    :param generator: the tool that makes the load, as the result names it.
    """

    def work_in_folder(store: Store, result: dict[str, Any]) -> None:
        # Written even when nothing was measured.
        result |= {"generator": generator, "measurements": []}
        with scratch_folder("benchmark-") as folder:
            work(options, store, folder, result)

    return run_to_result(
        options.destination,
        work_in_folder,
        tools=lambda: {**tool_versions(packages), "perf_analyzer": program_version("perf_analyzer")},
        subject="benchmark",
    )


def program_version(name: str) -> str:
    """Return what a program says of itself, or that it is not there."""
    path = shutil.which(name)
    if path is None:
        return "not there"
    answer = subprocess.run([path, "--version"], capture_output=True, text=True, check=False, timeout=60)
    found = re.search(r"\d+(?:\.\d+)+", answer.stdout + answer.stderr)
    return found[0] if found else "unknown"

"""One round of a load generator, which is started once more where it hangs.

perf_analyzer, which genai-perf drives too, was seen to hang now and then: at a rate, with requests in flight, and over
`/generate`. A round is taken to hang when it lasts so much longer than it should.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from slipway_pod.benchmark.figures import Load
from slipway_pod.benchmark.load import BenchmarkRun, Subject, generate_load
from slipway_pod.program.subprograms import Ended

HANGS_AFTER_S, SENDING_SLACK, ROUND_SLACK = 20.0, 3.0, 10.0
FIRST_ROUND_S, FIRST_ROUND_SHARE = 60.0, 0.25
# Of the time that a first round takes whose requests are answered one after the other.
ONE_BY_ONE_SLACK = 1.5


def run_round(
    run: BenchmarkRun,
    subject: Subject,
    load: Load,
    command: Sequence[str],
    environment: Mapping[str, str] | None = None,
    *,
    starts_in_s: float = 0.0,
) -> Ended:
    """Run a load generator for one round; one that hangs is ended and started once more.

    :param starts_in_s: how long it may take before it sends the first request.
    :raises PodError: of kind TimedOutError, the benchmark's time is over.
    """
    limit_s, began = try_limit_s(run, subject, load) + starts_in_s, time.monotonic()
    ended = generate_load(command, run.deadline, environment, try_limit_s=limit_s)
    took_s = time.monotonic() - began
    # Of two tries the second one counts.
    took_s -= limit_s if took_s > limit_s else 0.0
    run.took_s.setdefault((subject.role, load.name), []).append(took_s)
    return ended


def try_limit_s(run: BenchmarkRun, subject: Subject, load: Load) -> float:
    """Return after how long a round is taken to hang.

    At a request rate it follows from the rate. With requests in flight the rounds before tell. The first one has a
    minute, or a quarter of the time that is left where that is less (20 s at least). A slow model has more: the time
    that its requests take one after the other, as they do on one instance, however many are in flight.
    """
    if load.request_rate_rps is not None:
        requests = load.requests(run.options.requests)
        return HANGS_AFTER_S + SENDING_SLACK * requests / load.request_rate_rps
    if took_s := run.took_s.get((subject.role, load.name)):
        return HANGS_AFTER_S + ROUND_SLACK * max(took_s)
    first_s = min(FIRST_ROUND_S, max(HANGS_AFTER_S, FIRST_ROUND_SHARE * run.deadline.remaining_s()))
    requests = int(run.options.requests + run.options.warmup_requests)
    return max(first_s, ONE_BY_ONE_SLACK * requests * run.request_s.get(subject.role, 0.0))

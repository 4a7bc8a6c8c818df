"""What a smoke test does with a version, phase by phase; each returns its part of the report."""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from slipway_pod.models.deadlines import Deadlines
from slipway_pod.models.tensors import Tensor
from slipway_pod.program.progress import say
from slipway_pod.smoke_test.memory import resident_mib
from slipway_pod.smoke_test.platform import require_working_platform
from slipway_pod.smoke_test.probes import Model
from slipway_pod.smoke_test.requests import Answered, Asker, WireTensor, difference
from slipway_pod.smoke_test.server import END_S, OwnServer

EXECUTION = re.compile(r"model (\S+), instance (\S+), executing (\d+) requests")
STEADY_REQUESTS = 40
# Of a slow model fewer tell as much.
STEADY_LEAST = 3
STEADY_LIMIT_S = 20.0
# After so many requests without an answer no more are sent.
UNHEARD_MOST = 2
MEMORY_SAMPLES = 25
# Of one group of requests that are sent at once, and of all of them, until each instance was seen.
AT_ONCE = 16
INSTANCE_REQUESTS = 2000
INSTANCE_LIMIT_S = 20.0


@dataclass(frozen=True)
class Plan:
    """What is asked for; the limits are in seconds."""

    model: str
    repository: Path
    log: Path
    loads: int
    requests: int
    concurrency: int
    load_timeout_s: float
    request_timeout_s: float
    memory_timeout_s: float
    ends_at: float
    abs_tolerance: float
    rel_tolerance: float

    def left_s(self) -> float:
        """Return how much time is left."""
        return self.ends_at - time.monotonic()

    def new_server(self) -> OwnServer:
        """Return a server that has loaded nothing yet."""
        return OwnServer(self.repository, self.log, start_timeout_s=min(120.0, max(1.0, self.left_s())))

    def alike(self, first: Answered, other: Answered) -> str:
        """Return in what two answers differ beyond the tolerances; empty if they do not."""
        return difference(first, other, self.abs_tolerance, self.rel_tolerance)


def load(plan: Plan, server: OwnServer) -> dict[str, Any]:
    """Load the version with its real configuration and warm-up; say how that went.

    :raises PodError: the server was ended from outside, or loads no other model either.
    """
    began, since = time.monotonic(), server.log_size()
    limit_s = max(1.0, min(plan.load_timeout_s, plan.left_s()))
    status, reason = "loaded", ""
    try:
        reply = server.call("POST", f"/v2/repository/models/{plan.model}/load", b"{}", timeout_s=limit_s)
        if reply.status != 200:
            status, reason = "refused", f"HTTP {reply.status}: {reply.error}"
    except TimeoutError:
        status, reason = "timed out", f"no answer within {limit_s:g} s"
        if limit_s < plan.load_timeout_s:
            status = "cut short"
    except OSError as error:
        status, reason = "refused", f"no answer: {type(error).__name__}"
    ended = server.ended(0.0 if status in ("loaded", "timed out", "cut short") else END_S)
    if ended:
        status, reason = "crashed", ended
    seconds = time.monotonic() - began
    lines = [] if status == "loaded" else server.telling_lines(since)
    say("load", f"{status} in {seconds:.2f} s{f': {reason}' if reason else ''}")
    if status != "loaded":
        server.stop()
        require_working_platform(
            plan.repository, plan.log, plan.log.parent, limit_s=plan.left_s(), failed=f"{status}: {reason}"
        )
    return {"status": status, "seconds": round(seconds, 3), "reason": reason, "log": lines}


def model_of(plan: Plan, server: OwnServer) -> tuple[Model, dict[str, dict[str, Any]]]:
    """Return what can be asked of the model, and the configurations of it and of all that it calls, by name."""
    configs: dict[str, dict[str, Any]] = {}
    wanted = [plan.model]
    while wanted:
        name = wanted.pop()
        if name not in configs:
            configs[name] = server.config(name)
            steps = (configs[name].get("ensemble_scheduling") or {}).get("step", [])
            wanted += [str(step["model_name"]) for step in steps]
    config = configs[plan.model]
    reply = server.call("GET", f"/v2/models/{plan.model}")
    inputs_served = json.loads(reply.body).get("inputs", []) if reply.status == 200 else []
    optional = {str(one["name"]) for one in config.get("input", []) if one.get("optional")}
    inputs = tuple(
        Tensor(str(one["name"]), str(one["datatype"]), tuple(map(int, one["shape"])), one["name"] in optional)
        for one in inputs_served
    )
    ragged = any(one.get("allow_ragged_batch") for one in config.get("input", []))
    is_ragged = bool(ragged or config.get("batch_input") or config.get("batch_output"))
    return Model(plan.model, inputs, int(config.get("max_batch_size", 0)), is_ragged), configs


def streams(configs: Mapping[str, Mapping[str, Any]]) -> bool:
    """Return whether the model answers in streams, which are not asked here."""
    return any((one.get("model_transaction_policy") or {}).get("decoupled") for one in configs.values())


def steady(plan: Plan, asker: Asker, request: Sequence[WireTensor], first: Answered) -> dict[str, Any]:
    """Ask the same row again and again: how long an answer takes now, and whether it stays the same."""
    answers: list[Answered] = []
    ends_at = time.monotonic() + min(STEADY_LIMIT_S, max(0.0, plan.left_s()))
    while len(answers) < STEADY_REQUESTS and (len(answers) < STEADY_LEAST or time.monotonic() < ends_at):
        answers.append(asker.ask(request))
        if sum(one.unheard for one in answers) >= UNHEARD_MOST:
            break
    times = [one.ms for one in answers if one.outcome == "answered"]
    return {
        "requests": len(answers),
        "answered": len(times),
        "p50_ms": round(median(times), 3) if times else None,
        "p90_ms": round(quantiles(times, n=10)[-1], 3) if len(times) > 1 else None,
        "differ": sum(bool(plan.alike(first, one)) for one in answers if not one.unheard),
        "silent": sum(one.unheard for one in answers),
    }


def instances(
    plan: Plan,
    server: OwnServer,
    asker: Asker,
    request: Sequence[WireTensor],
    first: Answered,
    configs: Mapping[str, Mapping[str, Any]],
    deadlines: Deadlines,
) -> dict[str, Any]:
    """Ask one row until every instance has answered it, as the server's own log tells, and compare the answers.

    Where no model has a second instance there is nothing to compare: it is asked once.
    """
    expected = {name: instances_of(config) for name, config in configs.items()}
    expected = {name: number for name, number in expected.items() if number}
    since, ends_at = server.log_size(), time.monotonic() + min(INSTANCE_LIMIT_S, max(0.0, plan.left_s()))
    asked, silent, differences, seen = 0, 0, Counter[str](), dict[str, Counter[str]]()
    most = max(expected.values(), default=1)
    at_once = 1 if most < 2 else deadlines.at_once(most, AT_ONCE, INSTANCE_LIMIT_S / 2)
    limit_s = deadlines.limit_s(at_once)
    _log_verbosely(server, level=1)
    try:
        while True:
            answers = asker.ask_all([request] * at_once, limit_s)
            asked += len(answers)
            silent += sum(one.unheard for one in answers)
            if most > 1:
                found = (plan.alike(first, one) for one in answers if not one.unheard)
                differences.update(filter(None, found))
            seen = executions(server.log_text(since))
            complete = all(len(seen.get(name, ())) >= number for name, number in expected.items())
            over = asked >= INSTANCE_REQUESTS or time.monotonic() > ends_at
            if complete or over or silent or server.exit_code() is not None:
                break
    finally:
        _log_verbosely(server, level=0)
    say(
        "instances",
        f"{sum(map(len, seen.values()))} seen, {asked} requests, {differences.total()} answers differ, "
        f"{silent} without an answer",
    )
    return {
        "expected": expected,
        "seen": {name: dict(sorted(counts.items())) for name, counts in seen.items() if name in expected},
        "requests": asked,
        "silent": silent,
        "limit_s": round(limit_s, 3),
        "differ": differences.total(),
        "differences": [text for text, _ in differences.most_common(5)],
    }


def _log_verbosely(server: OwnServer, *, level: int) -> None:
    """Have the server log who answers, or log as before; one that is dead is noticed where it is asked."""
    with contextlib.suppress(OSError):
        server.call("POST", "/v2/logging", json.dumps({"log_verbose_level": level}).encode())


def instances_of(config: Mapping[str, Any]) -> int:
    """Return how many instances a configuration, completed by the server, makes; of an ensemble 0."""
    groups = [group for group in config.get("instance_group", []) if not group.get("passive")]
    return sum(int(group.get("count", 1)) * max(1, len(group.get("gpus", []))) for group in groups)


def executions(log: str) -> dict[str, Counter[str]]:
    """Return, from a verbose log, how many requests each instance of each model was given."""
    found: dict[str, Counter[str]] = {}
    for model, instance, number in EXECUTION.findall(log):
        found.setdefault(model, Counter())[instance] += int(number)
    return found


def memory(
    plan: Plan,
    server: OwnServer,
    asker: Asker,
    requests: Sequence[Sequence[WireTensor]],
    deadlines: Deadlines,
) -> dict[str, Any]:
    """Send many requests; note the server's memory on the way."""
    samples = [(0, resident_mib(server.pid))]
    ends_at = time.monotonic() + min(plan.memory_timeout_s, max(0.0, plan.left_s()))
    sent, failed, silent, block = 0, 0, 0, max(1, plan.requests // MEMORY_SAMPLES)
    limit_s = deadlines.limit_s(plan.concurrency)

    def goes_on() -> bool:
        return time.monotonic() < ends_at and silent <= UNHEARD_MOST * plan.concurrency

    while sent < plan.requests and goes_on() and server.exit_code() is None:
        upto = min(plan.requests, sent + block)
        while sent < upto and goes_on():
            batch = range(sent, min(upto, sent + plan.concurrency))
            answers = asker.ask_all([requests[number % len(requests)] for number in batch], limit_s)
            silent += sum(one.unheard for one in answers)
            failed += sum(one.outcome != "answered" and not one.unheard for one in answers)
            sent += len(answers)
        samples.append((sent, resident_mib(server.pid)))
    say("memory", f"{samples[0][1]:.1f} MiB, after {sent} requests {samples[-1][1]:.1f} MiB")
    return {
        "wanted": plan.requests,
        "requests": sent,
        "failed": failed,
        "silent": silent,
        "limit_s": round(limit_s, 3),
        "samples": [[number, round(mib, 3)] for number, mib in samples],
        "ended": server.ended(),
    }


def timed(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return what a phase returns, with its seconds."""
    began = time.monotonic()
    found = work()
    return {**found, "seconds": round(time.monotonic() - began, 3)}

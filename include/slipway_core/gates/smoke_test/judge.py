"""The verdict of a smoke test: each check by its policy, and what they come to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, Literal

from slipway_core.errors import SmokeTestInconclusiveError, SmokeTestRefusedError
from slipway_core.gates.smoke_test.growth import Growth, growth_of
from slipway_core.gates.smoke_test.report import Memory, SmokeTestReport
from slipway_core.spec.smoke_test import SmokeTest
from slipway_core.spec.validation import Policy

Status = Literal["pass", "warn", "inconclusive", "fail"]
CheckStatus = Literal["pass", "warn", "inconclusive", "fail", "off"]
_RISING: tuple[Status, ...] = ("pass", "warn", "inconclusive", "fail")
_MIB = 2**20
# In what Triton's Python backend says when it finds no room for its tensors.
_SHARED_MEMORY = "shared memory"


@dataclass(frozen=True)
class Check:
    """One question to the version: what was found, in words, and what its policy makes of that."""

    name: str
    title: str
    status: CheckStatus
    summary: str


@dataclass(frozen=True)
class SmokeTestVerdict:
    """The worst of the checks, and all of them; `growth` is None if it could not be measured."""

    status: Status
    checks: tuple[Check, ...]
    growth: Growth | None = None

    @property
    def reasons(self) -> tuple[str, ...]:
        """Return what the checks of this status say; nothing for a pass."""
        return (
            ()
            if self.status == "pass"
            else tuple(one.summary for one in self.checks if one.status == self.status)
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict for JSON."""
        return {**asdict(self), "reasons": list(self.reasons)}


@dataclass(frozen=True)
class _Found:
    """What a check has found: `bad`, `good`, or `unknown`."""

    answer: Literal["good", "bad", "unknown"]
    summary: str


def judge_smoke_test(report: SmokeTestReport, limits: SmokeTest) -> SmokeTestVerdict:
    """Hold a report against the limits.

    A check that could not be made is inconclusive, never a pass; what comes after a load that failed is not asked at
    all, and the load is the reason.
    """
    growth = None if report.memory is None else growth_of(report.memory.samples)
    loads = _check("loads", "Loads and warm-up", "fail", _loads(report, limits))
    if loads.status == "fail":
        return SmokeTestVerdict("fail", (loads,))
    checks = [loads, _check("answers", "Golden rows are answered", "fail", _answers(report))]
    if checks[-1].status != "fail":
        checks += _limited(report, limits, growth)
    status = max((one.status for one in checks if one.status != "off"), key=_RISING.index)
    return SmokeTestVerdict(status, tuple(checks), growth)


def require_smoke_test(verdict: SmokeTestVerdict, limits: SmokeTest, model: str, version: int) -> None:
    """Raise unless the release may go on.

    :raises SmokeTestRefusedError: the verdict is `fail`.
    :raises SmokeTestInconclusiveError: it is `inconclusive`, and the release file asks to be sure.
    """
    found = "; ".join(verdict.reasons)
    if verdict.status == "fail":
        raise SmokeTestRefusedError(
            f"{model} version {version} failed the smoke test",
            expected="loads, answers and memory within the limits of `smoke_test`",
            found=found,
            remedy=_remedy(found, limits),
        )
    if verdict.status == "inconclusive" and limits.on_inconclusive == "refuse":
        raise SmokeTestInconclusiveError(
            f"the smoke test of {model} version {version} is undecided",
            expected="a decision on every check, since `smoke_test.on_inconclusive` is `refuse`",
            found=found,
            remedy="Raise `smoke_test.timeout_s` or `request_timeout_s`, or turn off unsupported checks.",
        )


def _remedy(found: str, limits: SmokeTest) -> str:
    """Return what to do; of shared memory Triton itself names an option that no release file has."""
    page = "Look at evidence/smoke_test.html, which has the lines of the server's log."
    if _SHARED_MEMORY not in found:
        return page
    has = limits.shm_size or "the node's 64 MiB"
    return (
        f"{page} The pod has {has} at /dev/shm: raise `smoke_test.shm_size`, and give your servers as much."
    )


def _limited(report: SmokeTestReport, limits: SmokeTest, growth: Growth | None) -> Iterator[Check]:
    yield _check(
        "first_request", "First answer after a load", limits.first_request, _first_request(report, limits)
    )
    yield _check("instances", "Every instance answers alike", limits.instances, _instances(report))
    memory = _memory(report, limits, growth)
    yield _check("memory_growth", "Growth of the memory", limits.memory_growth, memory)
    gpu = limits.gpu_memory if limits.gpu_memory_mib_max is not None else "off"
    yield _check("gpu_memory", "Share of the GPU's memory", gpu, _gpu(report, limits))
    yield _check("robustness", "Boundary inputs", limits.robustness, _robustness(report))


def _check(name: str, title: str, policy: Policy, found: _Found) -> Check:
    status: CheckStatus = "pass"
    if policy == "off":
        status = "off"
    elif found.answer == "bad":
        status = policy
    elif found.answer == "unknown":
        status = "inconclusive"
    return Check(name, title, status, found.summary)


def _loads(report: SmokeTestReport, limits: SmokeTest) -> _Found:
    bad = next((one for one in report.loads if one.status != "loaded"), None)
    number = len(report.loads)
    if bad is not None:
        reason = f"load {report.loads.index(bad) + 1} of {limits.loads} {bad.status}: {bad.reason}"
        return _Found(
            "bad", f"{reason}; the log: {bad.log[-1]}" if bad.status == "crashed" and bad.log else reason
        )
    if number < limits.loads:
        return _Found("unknown", f"loaded {number} times; {limits.loads} are asked for")
    longest = max(one.seconds for one in report.loads)
    return _Found("good", f"loaded {number} times on new servers, in at most {longest:.1f} s")


def _answers(report: SmokeTestReport) -> _Found:
    if report.broken is not None:
        died = f"; {report.broken.died}" if report.broken.died else ""
        if report.broken.silent and not died:
            reason = f"the first golden row got no answer in time, and no error: {report.broken.message}"
            return _Found("unknown", reason)
        return _Found("bad", f"the first golden row got no answer: {report.broken.message}{died}")
    if report.not_asked:
        return _Found("unknown", report.not_asked)
    steady, memory = report.steady, report.memory
    if steady is None or memory is None:
        return _Found("unknown", "the time was up before golden rows were asked")
    silent = steady.silent + memory.silent
    failed = steady.requests - steady.answered - steady.silent + memory.failed
    asked = steady.requests + memory.requests
    if not asked:
        return _Found("unknown", "no golden row was asked after the first")
    if memory.ended:
        return _Found("bad", f"after {memory.requests} golden requests {memory.ended}")
    if failed > 0:
        return _Found("bad", f"{failed} of {asked} golden requests got an error in the place of an answer")
    if silent > 0:
        return _Found("unknown", f"{silent} of {asked} golden requests got no answer in time, and no error")
    return _Found("good", f"{asked} golden requests were answered")


def _first_request(report: SmokeTestReport, limits: SmokeTest) -> _Found:
    times = [one.first_request_ms for one in report.loads if one.first_request_ms is not None]
    if report.steady is None or report.steady.p50_ms is None or not times:
        return _Found("unknown", "the first answer was not timed")
    # The median of the loads: one first answer on a busy node says nothing of the model.
    first, steady = median(times), report.steady.p50_ms
    reason = f"first answers took {first:.1f} ms (median of {len(times)} loads), steady ones {steady:.1f} ms"
    is_slow = first > max(limits.first_request_floor_ms, limits.first_request_ratio_max * steady)
    return _Found("bad" if is_slow else "good", reason)


def _instances(report: SmokeTestReport) -> _Found:
    found = report.instances
    if found is None:
        return _Found("unknown", "the instances were not asked")
    number = sum(found.expected.values())
    if not number or not found.requests:
        return _Found("unknown", "the server named no instance" if not number else "no instance was asked")
    if report.steady is not None and report.steady.differ:
        return _Found("unknown", "the model answers one row in more than one way, on whatever instance")
    if found.differ:
        reason = "; ".join(found.differences)
        return _Found(
            "bad", f"{found.differ} of {found.requests} answers to one row differ between instances: {reason}"
        )
    if found.silent:
        reason = f"{found.silent} of {found.requests} requests got no answer within {found.limit_s:g} s"
        return _Found("unknown", f"{reason}: what these instances answer was not compared")
    if found.unseen:
        reason = f"{found.unseen} of {number} instances answered nothing in {found.requests} requests"
        return _Found("unknown", reason)
    if found.is_alone:
        reason = "1 instance" if number == 1 else f"{number} models with 1 instance each"
        return _Found("good", f"{reason}, seen in the server's log, so nothing to compare it with")
    instances = f"{number} instances, all seen"
    return _Found("good", f"{instances} in the server's log, answers alike")


def _memory(report: SmokeTestReport, limits: SmokeTest, growth: Growth | None) -> _Found:
    found, most = report.memory, limits.memory_growth_mib_max
    if found is None or growth is None:
        return _Found("unknown", f"too few requests to judge: {0 if found is None else found.requests}")
    if not any(mib for _, mib in found.samples):
        return _Found("unknown", "the memory of the server could not be read")
    reason = (
        f"{growth.mib:+.2f} MiB per 1000 requests over {found.requests}, at most {most:g}{_by_end(found)}"
    )
    if growth.low_mib > most:
        return _Found("bad", reason)
    return _Found("good" if growth.mib <= most else "unknown", reason)


def _by_end(found: Memory) -> str:
    return f"; {found.samples[-1][1]:.0f} MiB at the end"


def _gpu(report: SmokeTestReport, limits: SmokeTest) -> _Found:
    if limits.gpu_memory_mib_max is None:
        return _Found("good", "no limit is set (`smoke_test.gpu_memory_mib_max`)")
    if report.gpu is None:
        return _Found("unknown", "the pod's server sees no GPU")
    used = max(0, report.gpu.after_bytes - report.gpu.before_bytes) / _MIB
    reason = f"{used:.0f} MiB more in use than before the load, at most {limits.gpu_memory_mib_max}"
    return _Found("good" if used <= limits.gpu_memory_mib_max else "bad", reason)


def _robustness(report: SmokeTestReport) -> _Found:
    found = report.robustness
    if found is None:
        return _Found("unknown", "no boundary input was asked")
    # A model that answers one row in more than one way cannot be distinguished from one that was changed.
    is_steady = report.steady is None or not report.steady.differ
    bad = [one for one in found.probes if one.harmed and (is_steady or one.died or one.outcome == "silent")]
    if bad:
        reason = "; ".join(f"{one.name} ({one.via}): {one.harmed}" for one in bad[:3])
        return _Found("bad", f"{len(bad)} of {len(found.probes)} boundary inputs do harm: {reason}")
    unheard = [one for one in found.probes if one.unheard]
    if unheard:
        reason = "; ".join(f"{one.name} ({one.via}): {one.unheard}" for one in unheard[:3])
        return _Found("unknown", f"{len(unheard)} of {len(found.probes)} boundary inputs: {reason}")
    if found.left_out:
        return _Found("unknown", f"{found.left_out} boundary inputs were left out: {found.reason}")
    if not found.probes:
        return _Found("unknown", "no boundary input was asked")
    answered = sum(one.outcome == "answered" for one in found.probes)
    refused = len(found.probes) - answered
    reason = f"{len(found.probes)} boundary inputs: {answered} answered, {refused} refused with an error"
    return _Found("good", reason)

"""What the judge of a canary can find at a model's traffic: a bad version played to it, before there is one."""

from __future__ import annotations

from dataclasses import dataclass, replace

from slipway_core.canary.judge import CanaryJudge
from slipway_core.canary.plan import decide
from slipway_core.doctor.finding import Finding, fine
from slipway_core.doctor.line import Status
from slipway_core.metrics.samples import Sample, Window
from slipway_core.spec.release_file import ReleaseSpec
from slipway_core.written_numbers import number

GROSS, SMALL = 0.10, 0.01
"""The share of requests that fail of a version that must be found, and of one that should be."""
_LATENCY_MS = 10.0
_ROUNDING = 1e-9
# A canary of days is played in longer windows: what it finds is about the same.
_MOST_WINDOWS = 2000


@dataclass(frozen=True)
class PlayedCanary:
    """What became of a candidate that fails a share of its requests, at a steady traffic.

    :param end: `found`, `promoted`, or `stuck`: a step that could not be judged.
    :param weight: of the step at which it ended, in percent.
    :param seconds: how long the canary lasted.
    :param errors: how many of users' requests failed.
    """

    end: str
    weight: int
    seconds: float
    errors: int


def play(spec: ReleaseSpec, requests_per_s: float, error_share: float) -> PlayedCanary:
    """Play a canary to the judge: stable never fails, the candidate fails evenly, and both are as fast.

    Requests come evenly, so a real canary is found sooner or later than this one; it is the middle of what to expect.
    """
    plan = spec.rollout.plan
    longest_s = len(plan.steps) * plan.max_bake_s
    plan = replace(plan, window_s=max(plan.window_s, longest_s / _MOST_WINDOWS))
    judge, elapsed_s, traffic = CanaryJudge(spec.rollout.analysis), 0.0, _Traffic(requests_per_s, error_share)
    for step in plan.steps:
        judge.begin_step(step.weight, step.bake_s)
        in_step_s, decision = 0.0, "continue"
        while decision == "continue":
            verdict = judge.observe(traffic.window(plan.window_s, step.weight))
            in_step_s += plan.window_s
            decision = decide(verdict, in_step_s, step, plan)
        elapsed_s += in_step_s
        if decision != "advance":
            end = "found" if verdict.status == "fail" else "stuck"
            return PlayedCanary(end, step.weight, elapsed_s, traffic.errors)
    return PlayedCanary("promoted", plan.steps[-1].weight, elapsed_s, traffic.errors)


class _Traffic:
    """Requests as they come: whole ones, whose parts are carried over to the next window."""

    def __init__(self, requests_per_s: float, error_share: float) -> None:
        self._per_s, self._error_share = requests_per_s, error_share
        self._owed = {"stable": 0.0, "candidate": 0.0, "errors": 0.0}
        self.errors = 0

    def window(self, seconds: float, weight: int) -> Window:
        """Return the next window, at a weight in percent."""
        asked = self._per_s * seconds
        stable = self._whole("stable", asked * (100 - weight) / 100)
        candidate = self._whole("candidate", asked * weight / 100)
        errors = min(candidate, self._whole("errors", candidate * self._error_share))
        self.errors += errors
        return Window(
            seconds,
            Sample(stable, 0, {_LATENCY_MS: stable}),
            Sample(candidate, errors, {_LATENCY_MS: candidate}),
        )

    def _whole(self, name: str, more: float) -> int:
        self._owed[name] += more
        whole = int(self._owed[name] + _ROUNDING)
        self._owed[name] -= whole
        return whole


def power_finding(model: str, spec: ReleaseSpec, requests_per_s: float) -> Finding:
    """Return what the canary of a release file would find at a traffic."""
    what = f"canary of {model} at {number(requests_per_s)} requests/s"
    gross, small = play(spec, requests_per_s, GROSS), play(spec, requests_per_s, SMALL)
    well = play(spec, requests_per_s, 0.0)
    remedy = (
        "lengthen `bake_s` or `max_bake_s`, or raise the weights of `rollout.steps`, then "
        "`slipway doctor --only release_files`"
    )
    if gross.end == "promoted":
        return Finding(
            what,
            Status.FAILED,
            f"a version that fails {GROSS:.0%} of its requests would be promoted",
            "such a version is rolled back",
            "at this traffic the steps are too short for the judge to see anything",
            remedy,
        )
    if well.end == "stuck":
        return Finding(
            what,
            Status.WARNING,
            f"a good version would not pass the step of {well.weight} %, and `on_inconclusive: "
            f"{spec.rollout.on_inconclusive}` ends it",
            f"{spec.rollout.analysis.minimum_candidate_requests} candidate requests in {spec.rollout.max_bake_s} s",
            "every release ends without a promotion",
            remedy,
        )
    if small.end == "promoted":
        return Finding(
            what,
            Status.WARNING,
            f"a version that fails {SMALL:.0%} of its requests would be promoted; one that fails {GROSS:.0%} is found "
            f"{_found(gross)}",
            f"one that fails {SMALL:.0%} is found",
            "a small fault reaches all users",
            remedy,
        )
    return fine(
        what,
        f"a version that fails {SMALL:.0%} of its requests is found {_found(small)}; {GROSS:.0%}, {_found(gross)}",
    )


def _found(played: PlayedCanary) -> str:
    return f"at {played.weight} % after {played.seconds:.0f} s and {played.errors} failed requests"

"""The mirror comparison: what stable and candidate answered to the same requests, and the verdict.

The requests are copies of users', so their number and kind are what users send while the comparison lasts. A
refusal is certain: it is given only where no further requests could have changed it. With n requests that stable
answered, r asked for and N = max(n, r), the candidate is refused when

    it failed on more than error_percent_max / 100 * N of them,
    its answers differ on more than differ_percent_max / 100 * N (where that is set), or
    more than (1 - agreement_min) of N requests' rows got another class.

Otherwise n < r is inconclusive. So is an agreement that is asked for and was measured on too few requests: where all of
k requests agree, a candidate that agrees on no more than agreement_min of them had a chance of agreement_min ** k to
look so, and 5 % is too much (the rule of three, Hanley and Lippman-Hand 1983).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from slipway_core.errors import MirrorInconclusiveError, MirrorRefusedError
from slipway_core.gates.pod_report import parse_report
from slipway_core.spec.conversion.parity import ParityRules
from slipway_core.spec.release_file import ReleaseSpec
from slipway_core.spec.rollout.mirror_comparison import MirrorComparison

Status = Literal["pass", "fail", "inconclusive"]
# The largest value of a 64-bit counter.
_Number = Annotated[int, Field(ge=0, lt=2**63)]
# The rounding error that shares may have.
_ROUNDING = 1e-9
# The probability with which a candidate that agrees too rarely may look as if it always agreed.
_CHANCE = 0.05


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class MirrorCounts(_Part):
    """What became of the requests that arrived. `compared` were answered by both: `equal` or `differ` within the
    tolerances, and `agree` or `disagree` on the class where they show one.
    """

    received: _Number
    ignored: _Number
    dropped: _Number
    compared: _Number
    equal: _Number
    differ: _Number
    agree: _Number
    disagree: _Number
    candidate_failed: _Number
    stable_failed: _Number
    both_failed: _Number

    @property
    def judged(self) -> int:
        """Return the number of requests that stable answered: on these the candidate can be judged."""
        return self.compared + self.candidate_failed

    @property
    def showed_a_class(self) -> int:
        """Return the number of requests of which both answers show a class."""
        return self.agree + self.disagree


class MirrorRows(_Part):
    """Rows of the answers that show a class, and those with the same class from both."""

    compared: _Number
    agree: _Number

    @model_validator(mode="after")
    def _counted(self) -> Self:
        if self.agree > self.compared:
            raise ValueError(f"{self.agree} of {self.compared} rows agree")
        return self


class MirrorLatency(_Part):
    """Of the answers that were compared, in milliseconds, as measured in the pod."""

    avg: float
    p50: float
    p90: float
    p99: float


class MirrorReport(_Part):
    """The pod's report: counts, latencies and the largest differences."""

    counts: MirrorCounts
    rows: MirrorRows
    protocols: dict[str, _Number] = {}
    outputs: dict[str, dict[str, _Number]] = {}
    failures: dict[str, dict[str, _Number]] = {}
    latency_ms: dict[str, MirrorLatency | None] = {}
    class_changes: tuple[dict[str, JsonValue], ...] = ()
    differences: tuple[dict[str, JsonValue], ...] = ()
    seconds: Annotated[float, Field(ge=0)] = 0.0

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> MirrorReport:
        """Return the report in the pod's result.json.

        :raises SlipwayError: it is not such a report. The fault is the pod's.
        """
        expected = "`counts` and `rows`, as mirror_comparison.py writes them"
        return parse_report(cls, value, pod="comparison", expected=expected)


@dataclass(frozen=True)
class MirrorLimits:
    """The limits that the report must meet; shares are 0 to 1. `class_output` is the output that shows the class."""

    requests: int
    required: bool
    abs_tolerance: float
    rel_tolerance: float
    class_output: str
    agreement_min: float
    error_percent_max: float
    differ_percent_max: float | None

    def agreement_requests(self, compared: int) -> int:
        """Return how many requests must show a class before their agreement counts; no more than were compared."""
        if self.agreement_min <= 0:
            return 0
        if self.agreement_min >= 1:
            return max(compared, 1)
        return max(min(compared, math.ceil(math.log(_CHANCE) / math.log(self.agreement_min))), 1)


@dataclass(frozen=True)
class MirrorVerdict:
    """The verdict and its reason in words; shares are None if nothing was measured."""

    status: Status
    reason: str
    error_percent: float | None = None
    differ_percent: float | None = None
    agreement: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict for JSON."""
        return asdict(self)


def mirror_limits(spec: ReleaseSpec, mirror: MirrorComparison) -> MirrorLimits:
    """Return the limits of a release, those that the file leaves out taken from its other gates."""
    # Only a classifier's answers show a class to agree on.
    agreement_min = spec.validation.agreement_min if spec.validation.tells_classes else 0.0
    # A conversion that copies its source has no tolerance.
    parity = getattr(spec.conversion, "parity", ParityRules())
    return MirrorLimits(
        requests=mirror.requests,
        required=mirror.required,
        abs_tolerance=_first(mirror.abs_tolerance, parity.abs_tolerance),
        rel_tolerance=_first(mirror.rel_tolerance, parity.rel_tolerance),
        class_output=mirror.output or spec.validation.output,
        agreement_min=_first(mirror.agreement_min, agreement_min),
        error_percent_max=mirror.error_percent_max,
        differ_percent_max=mirror.differ_percent_max,
    )


def _first(given: float | None, otherwise: float) -> float:
    return otherwise if given is None else given


def judge_mirror(report: MirrorReport, limits: MirrorLimits) -> MirrorVerdict:
    """Hold a report against the limits, as the module says."""
    counts, rows = report.counts, report.rows
    judged = counts.judged
    expected = max(judged, limits.requests)
    agreement = rows.agree / rows.compared if rows.compared else None
    # Rows of the requests so far; for the requests still missing the same number of rows each is assumed.
    expected_rows = rows.compared * max(1.0, limits.requests / counts.compared) if counts.compared else 0.0
    reasons = []
    if counts.candidate_failed > limits.error_percent_max / 100 * expected + _ROUNDING:
        reasons.append(_failed_words(report, limits))
    if rows.compared - rows.agree > (1 - limits.agreement_min) * expected_rows + _ROUNDING:
        reasons.append(
            f"{rows.agree} of {rows.compared} rows got the same class as from stable; at least "
            f"{limits.agreement_min:.1%} is asked for"
        )
    allowed = limits.differ_percent_max
    if allowed is not None and counts.differ > allowed / 100 * expected + _ROUNDING:
        reasons.append(
            f"{counts.differ} of {counts.compared} answers differ beyond the tolerances; at most "
            f"{allowed:g} % may"
        )
    status: Status = "fail"
    reason = "; ".join(reasons)
    if not reasons:
        status, reason = _without_fault(report, limits, agreement)
    return MirrorVerdict(
        status,
        reason,
        error_percent=100 * counts.candidate_failed / judged if judged else None,
        differ_percent=100 * counts.differ / counts.compared if counts.compared else None,
        agreement=agreement,
    )


def not_compared(why: str) -> MirrorVerdict:
    """Return the verdict where no comparison could be made at all."""
    return MirrorVerdict("inconclusive", f"nothing was compared: {why}")


def require_mirror(verdict: MirrorVerdict, limits: MirrorLimits, model: str, version: int) -> None:
    """Raise unless the verdict is a pass.

    MirrorRefusedError: it is `fail`, or `inconclusive` and more is required. MirrorInconclusiveError: it is
    `inconclusive`, and the release may go on without the comparison.
    """
    if verdict.status == "pass":
        return
    if verdict.status == "inconclusive" and not limits.required:
        raise MirrorInconclusiveError(
            f"{model} version {version} was not compared with stable on users' requests",
            expected=f"{limits.requests} mirrored requests compared",
            found=verdict.reason,
            remedy="See that the router mirrors requests (docs/mirror.md).",
        )
    failed = verdict.status == "fail"
    raise MirrorRefusedError(
        f"{model} version {version} does not answer users' requests as stable does"
        if failed
        else f"{model} version {version} was not compared with stable on users' requests",
        expected="answers within the limits of `rollout.mirror_comparison`"
        if failed
        else f"{limits.requests} mirrored requests compared, for `rollout.mirror_comparison.required` is true",
        found=verdict.reason,
        remedy="Look at evidence/mirror.html for what differs."
        if failed
        else "See that the router mirrors requests (docs/mirror.md), raise `timeout_s`, lower `requests`, or name "
        "under `rollout.mirror_comparison.output` an output that users ask for.",
    )


def mirror_evidence(
    *,
    model: str,
    version: int,
    stable_version: int,
    release_id: str,
    created_at: str,
    verdict: MirrorVerdict,
    limits: MirrorLimits,
    report: MirrorReport | None,
) -> dict[str, Any]:
    """Return the evidence, ready for JSON and for `mirror_html.render_mirror_html`."""
    return {
        "model": model,
        "version": version,
        "stable_version": stable_version,
        "release_id": release_id,
        "created_at": created_at,
        "verdict": verdict.to_dict(),
        "limits": asdict(limits),
        "report": None if report is None else report.model_dump(mode="json"),
    }


def _failed_words(report: MirrorReport, limits: MirrorLimits) -> str:
    counts = report.counts
    kinds = ", ".join(f"{times} × {kind}" for kind, times in report.failures.get("candidate", {}).items())
    return (
        f"the candidate failed on {counts.candidate_failed} of {counts.judged} requests that stable answered"
        f"{f' ({kinds})' if kinds else ''}; at most {limits.error_percent_max:g} % may fail"
    )


def _without_fault(report: MirrorReport, limits: MirrorLimits, agreement: float | None) -> tuple[Status, str]:
    counts = report.counts
    if not counts.received:
        return "inconclusive", "no mirrored request arrived: see that the router mirrors to the comparer"
    if counts.judged < limits.requests:
        return (
            "inconclusive",
            f"{counts.judged} of {limits.requests} requests were compared in {_seconds(report)}"
            + (f"; {_lost(counts)}" if _lost(counts) else ""),
        )
    # A request without rows shows no class.
    shown = min(counts.showed_a_class, report.rows.compared)
    needed = limits.agreement_requests(counts.compared)
    if shown < needed:
        return (
            "inconclusive",
            f"{shown} of {counts.compared} answers show a class in the output `{limits.class_output}`: "
            f"{limits.agreement_min:.1%} agreement is asked for, and {needed} must show one",
        )
    sentences = [
        f"stable and candidate answered {counts.compared} requests, {counts.differ} of them differently"
    ]
    if counts.candidate_failed:
        sentences.append(f"the candidate failed on {counts.candidate_failed}")
    if agreement is not None:
        sentences.append(f"{agreement:.1%} of {report.rows.compared} rows got the same class")
    return "pass", "; ".join(sentences)


def _lost(counts: MirrorCounts) -> str:
    lost = {
        "were dropped": counts.dropped,
        "were ignored": counts.ignored,
        "failed on stable": counts.stable_failed + counts.both_failed,
    }
    return ", ".join(f"{number} {what}" for what, number in lost.items() if number)


def _seconds(report: MirrorReport) -> str:
    return f"{report.seconds:.0f} s"

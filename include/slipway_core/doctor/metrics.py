"""What a reading of a live revision shows, and what it must show for the judge."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from slipway_core.doctor.finding import Finding, fine
from slipway_core.doctor.line import Status
from slipway_core.metrics.samples import Reading
from slipway_core.metrics.source_kind import visibility_of
from slipway_core.spec.release_file import ReleaseSpec
from slipway_core.written_numbers import counted


def visibility_findings(model: str, spec: ReleaseSpec) -> Iterator[Finding]:
    """Yield what the release file's metrics source does not see of what such a model has, as it is declared."""
    sees = visibility_of(spec.rollout.metrics)
    if spec.rollout.streaming.protocol_of(is_decoupled=bool(spec.serving.decoupled)) is None:
        sees = replace(sees, stream_errors=True)
    if spec.rollout.protocol == "http":
        sees = replace(sees, grpc_errors=True)
    what = f"what the metrics source of {model} sees"
    if not sees.unseen and not sees.unsure:
        yield fine(what, "everything that the judge counts")
    if sees.unseen:
        yield Finding(
            what,
            Status.WARNING,
            f"not: {', '.join(sees.unseen)}",
            remedy="choose another source or query set under `rollout.metrics`: docs/metrics.md has the table",
        )
    if sees.unsure:
        yield Finding(
            what,
            Status.UNKNOWN,
            f"that depends on your own selectors: {', '.join(sees.unsure)}",
            remedy="slipway doctor --only planted_faults --plant",
        )


def reading_findings(what: str, spec: ReleaseSpec, reading: Reading) -> Iterator[Finding]:
    """Yield what a live look has shown: requests, latency buckets, and requests that are never answered."""
    counters = [one.counters for one in reading.series.values()]
    requests, errors = sum(one.requests for one in counters), sum(one.errors for one in counters)
    if not requests:
        yield Finding(
            what,
            Status.UNKNOWN,
            "the live revision has counted no request, so nobody knows which labels its answers carry",
            "requests of users",
            remedy="send requests, then `slipway doctor --only metrics`",
        )
        return
    yield fine(what, f"{counted(requests, 'request')}, {counted(errors, 'error')}")
    buckets = {bound for one in counters for bound in one.latency_buckets}
    if buckets:
        yield fine(f"{what}: latency", counted(len(buckets), "bucket"))
    else:
        yield Finding(
            f"{what}: latency",
            Status.WARNING,
            "there is no latency bucket",
            "cumulative buckets with the label `le`",
            "a candidate that is slow is not found",
            "python -m slipway_core.metrics, and look for the histogram there",
        )
    yield _flow_finding(f"{what}: requests that are never answered", all(one.flow for one in counters))


def _flow_finding(what: str, is_seen: bool) -> Finding:
    if is_seen:
        return fine(what, "the source tells what has begun and what is active")
    return Finding(
        what,
        Status.WARNING,
        "the source does not tell what has begun",
        "counts of attempts that began, and of those that are active",
        "a candidate that hangs is seen by its timeouts alone, if anybody answers these",
        "set `begun` and `active` under `rollout.metrics.overrides`: docs/metrics.md",
    )


@dataclass(frozen=True)
class PlantedCounts:
    """What was planted, and what the metrics source counted of it.

    :param sent_errors: how many requests were to fail.
    :param answered: the HTTP statuses that these were answered with.
    :param hung: what came of the request that was not answered.
    :param errors: the errors that were counted, unanswered requests among them.
    :param unanswered: the unanswered requests that were counted.
    """

    sent_errors: int
    answered: tuple[str, ...]
    hung: str
    errors: int
    unanswered: int

    @property
    def are_all_there(self) -> bool:
        """Whether each fault was counted."""
        return self.errors - self.unanswered >= self.sent_errors and self.unanswered >= 1


def planted_findings(what: str, counts: PlantedCounts) -> Iterator[Finding]:
    """Yield whether planted errors were counted, and whether a request was that was never answered."""
    remedy = "docs/metrics.md: choose another source or query set under `rollout.metrics`"
    seen = counts.errors - counts.unanswered
    statuses = f"{counts.sent_errors} requests were answered {', '.join(counts.answered)}"
    if seen >= counts.sent_errors:
        yield fine(f"planted errors with {what}", f"{statuses}; {counted(seen, 'error')} counted")
    else:
        yield Finding(
            f"planted errors with {what}",
            Status.FAILED,
            f"{statuses}; {counted(seen, 'error')} counted",
            f"{counts.sent_errors} errors",
            remedy=remedy,
        )
    hung = f"planted hang with {what}"
    if counts.hung != "no answer":
        yield Finding(
            hung,
            Status.UNKNOWN,
            f"the request that hangs was answered: {counts.hung}",
            "no answer",
            remedy="see whether the gateway has a time limit that is shorter than three seconds",
        )
    elif counts.unanswered:
        yield fine(hung, f"{counted(counts.unanswered, 'request')} without an answer counted")
    else:
        yield Finding(
            hung,
            Status.FAILED,
            "a request that its client gave up was not counted",
            "one request without an answer",
            remedy=remedy,
        )

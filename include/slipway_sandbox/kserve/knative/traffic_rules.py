"""How KServe chooses the traffic of a Knative Service, and what it concludes from the traffic that Knative has.

The emulated KServe and the model that tests explore state by state (`slipway_sandbox.lab.simulation`) both follow
these rules. Source: KServe 0.20.0, `ksvc_reconciler.go` (`createKnativeService`) and
`inference_service_status.go` (`PropagateStatus`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """One line of traffic; `latest`: the latest ready revision gets it, whichever `revision` that is now."""

    revision: str
    percent: int
    latest: bool
    tag: str = ""


def targets(
    canary_percent: int | None, *, latest_ready: str, rolled_out: str, tag_latest: bool
) -> tuple[Target, ...]:
    """Return the lines that KServe writes for a `canaryTrafficPercent`.

    :param latest_ready: the revision that "latest" stands for now; "" where it is not looked up.
    :param rolled_out: the revision that was rolled out last; "": none, and the percent is ignored.
    :param tag_latest: whether the InferenceService asks for an address of its own for "latest".
    """
    tag = "latest" if tag_latest else ""
    if canary_percent is None or not rolled_out:
        return (Target(latest_ready, 100, latest=True, tag=tag),)
    latest = Target(latest_ready, canary_percent, latest=True, tag=tag)
    if canary_percent >= 100:
        return (latest,)
    return (latest, Target(rolled_out, 100 - canary_percent, latest=False, tag="prev"))


@dataclass(frozen=True)
class RolledOut:
    """The revisions that KServe notes as rolled out: the last one, and the one before it; "": none."""

    latest: str = ""
    previous: str = ""


def rolled_out_after(
    before: RolledOut, traffic: Iterable[Target], *, latest_created: str, latest_ready: str
) -> RolledOut:
    """Return what KServe notes when it sees this traffic.

    100 % on "latest" marks that revision as rolled out, whether or not it is the one that the spec describes. A percent
    below 100 on the revision that is rolled out already falls back to the one before it.
    """
    lines = tuple(traffic)
    line = next((one for one in lines if one.latest and one.revision == latest_ready), None)
    if line is None:
        return before
    if before.latest != latest_ready:
        return RolledOut(latest_ready, before.latest) if line.percent == 100 else before
    has_all = sum(one.percent for one in lines if one.revision == latest_ready) == 100
    if latest_ready == latest_created and line.percent < 100 and has_all and before.previous:
        return RolledOut(before.previous, before.previous)
    return before

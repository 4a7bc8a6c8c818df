"""Whether a release may raise the weight of its version: the one place where that is decided.

Whatever gives a version more users asks here first: the preview, the first percent, each step, the promotion, a first
deployment, and a return to a version by name. What counts is the record of this attempt, read again, and the canary's
lease as it was stored right before the patch. The states of Airflow's tasks do not count: a task that was marked as
success has left nothing in the record.

What takes users *off* a version asks nobody.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slipway_core.errors import (
    CanaryEndedError,
    CanaryPausedError,
    RaiseRefusedError,
    SlipwayError,
)
from slipway_core.four_eyes import are_two_people
from slipway_core.record.requirements import Before, Requirements
from slipway_core.record.state import ReleaseState
from slipway_core.rollout.lease import Lease

_REMEDY = "see the record and the reports of this release; start it again when it is fixed"


@dataclass(frozen=True)
class Raise:
    """What is asked for.

    :param release_id: the release run that asks.
    :param weight: percent of the traffic: 0 for a preview, 100 for the promotion or a first version.
    :param manifest_sha256: digest of the version's manifest as it lies in the store now.
    :param version: which version gets the users; None: the one whose record it is. A rollback proves in the record of
        the version that is left what it needs for another one.
    """

    release_id: str
    weight: int
    manifest_sha256: str
    version: int | None = None


def raise_refusal(wanted: Raise, state: ReleaseState) -> RaiseRefusedError | None:
    """Return why the record does not allow this raise; None if it does.

    :param state: the fold of the version's record.
    """
    lacking = _rejected(wanted, state) or _not_this_attempt(wanted, state) or _not_proved(wanted, state)
    if lacking is None:
        return None
    expected, found = lacking
    return RaiseRefusedError(
        f"version {state.version} of {state.model!r} may not get {wanted.weight} % of the traffic",
        expected=expected,
        found=found,
        remedy=_REMEDY,
    )


def fleet_refusal(state: ReleaseState | None, *, manifest_sha256: str) -> RaiseRefusedError | None:
    """Return why the servers of a fleet may not get a version; None if its record allows it.

    A fleet has no canary of its own: what counts is what the version's newest release has proved before users met it,
    the gates and the approvals, and that nobody has taken it back or rejected it since.

    :param state: the fold of the version's record; None if it has none.
    :param manifest_sha256: digest of the version's manifest as it lies in the store now.
    """
    if state is None:
        lacking: Lacking | None = ("a record of the version's gates", "it has no record")
        name = "this version"
    else:
        name = f"version {state.version} of {state.model!r}"
        wanted = Raise(state.release_id, 100, manifest_sha256)
        lacking = _rejected(wanted, state) or _taken_back(state) or _proved_for_fleet(wanted, state)
    if lacking is None:
        return None
    return RaiseRefusedError(
        f"{name} may not go to a fleet", expected=lacking[0], found=lacking[1], remedy=_REMEDY
    )


def lease_refusal(holder: str, lease: Lease | None) -> SlipwayError | None:
    """Return why the holder of the lease may not raise a weight now; None if it may.

    :param holder: the name under which the lease should be held.
    :param lease: the lease as the renewal right before the patch stored it; None if there is none.
    """
    if lease is None or lease.holder != holder or lease.is_ended:
        return CanaryEndedError(
            "the canary is over",
            expected=f"its lease, held by {holder}",
            found="no lease" if lease is None else _whose(lease),
            remedy="the candidate's share is 0 or being rolled back; release the version again with `force`",
        )
    if lease.paused:
        return CanaryPausedError(
            "the canary is paused",
            expected="no pause",
            found=lease.paused,
            remedy="resume it by the DAG canary_pause",
        )
    return None


# What was expected, and what was found instead.
Lacking = tuple[str, str]


def _rejected(wanted: Raise, state: ReleaseState) -> Lacking | None:
    if state.rejection is None or wanted.version not in (None, state.version):
        return None
    return "a version that is not rejected", f"it was {state.rejection.sentence}"


def _taken_back(state: ReleaseState) -> Lacking | None:
    if state.rolling_back or state.standing == "rolled_back" or state.outcome == "rolled_back":
        return "a version that was not rolled back", f"it was: {state.reason or 'no reason was given'}"
    return None


def _proved_for_fleet(wanted: Raise, state: ReleaseState) -> Lacking | None:
    required = state.required
    if required is None:
        return "a record that says what the release must prove", "one that does not say it"
    return (
        _manifest_differs(wanted, state)
        or _gate_missing(required.gates, state)
        or _approval_missing(required, wanted, state)
    )


def _not_this_attempt(wanted: Raise, state: ReleaseState) -> Lacking | None:
    """Return what is lacking where the newest attempt is not the one that asks, or is over; None if it is open."""
    if state.release_id != wanted.release_id:
        return (
            f"the newest release of the version to be {wanted.release_id}",
            f"{state.release_id} began after it",
        )
    if state.outcome != "open":
        return "a release that is under way", f"one that ended as {state.outcome}"
    if state.rolling_back:
        return (
            "a release that is not being rolled back",
            f"it is being rolled back: {state.reason or 'no reason was given'}",
        )
    bad = next((stage for stage in state.stages if stage.outcome in ("refused", "failed")), None)
    if bad is not None:
        return (
            "no stage that refused or failed",
            f"{bad.name} {bad.outcome}: {bad.reason or 'no reason was given'}",
        )
    return None


def _not_proved(wanted: Raise, state: ReleaseState) -> Lacking | None:
    """Return what is lacking where the attempt has not proved what it must; None if it has."""
    required = state.required
    if required is None:
        return "a record that says what the release must prove", "one that does not say it"
    return (
        _manifest_differs(wanted, state)
        or _gate_missing(required.gates_for(wanted.weight), state)
        or _approval_missing(required, wanted, state)
        or _step_missing(required, wanted, state)
    )


def _manifest_differs(wanted: Raise, state: ReleaseState) -> Lacking | None:
    if not state.verified_sha256:
        return "every published file compared with the manifest in this release", "they were not"
    if state.verified_sha256 != wanted.manifest_sha256:
        return f"the manifest {state.verified_sha256}, which was verified", wanted.manifest_sha256 or "none"
    return None


def _gate_missing(gates: Sequence[str], state: ReleaseState) -> Lacking | None:
    stages = {stage.name: stage for stage in state.stages}
    for gate in gates:
        found = stages.get(gate)
        if found is None or found.outcome != "passed":
            return f"the gate {gate}, passed", "it was not run" if found is None else f"it is {found.outcome}"
        if found.manifest_sha256 != state.verified_sha256:
            seen = found.manifest_sha256 or "no manifest that it names"
            return f"the gate {gate}, passed for the manifest {state.verified_sha256}", f"it looked at {seen}"
    return None


def _approval_missing(required: Requirements, wanted: Raise, state: ReleaseState) -> Lacking | None:
    for before in required.approvals_for(wanted.weight):
        lacking = _approval_of(before, required, state)
        if lacking is not None:
            return lacking
    return None


def _approval_of(before: Before, required: Requirements, state: ReleaseState) -> Lacking | None:
    given = [one for one in state.approvals if one.before == before]
    wanted = f"the approval before the {before}"
    if not given:
        return wanted, "no approval"
    of_this = [one for one in given if one.manifest_sha256 == state.verified_sha256]
    if not of_this:
        return f"{wanted}, of the manifest {state.verified_sha256}", "another one was approved"
    if not required.by_other:
        return None
    if are_two_people((one.by for one in of_this), state.triggered_by):
        return None
    found = f"by {of_this[-1].by or 'an unknown person'}"
    if not state.triggered_by:
        return f"{wanted}, by two people, since no person has started the release", f"{found} alone"
    return f"{wanted}, by a person other than {state.triggered_by}", found


def _step_missing(required: Requirements, wanted: Raise, state: ReleaseState) -> Lacking | None:
    if wanted.weight == 0:
        return None
    if wanted.weight not in (*required.weights, 100):
        steps = ", ".join(map(str, required.weights)) or "none"
        return f"a weight of the canary's steps ({steps}) or 100", f"{wanted.weight}"
    passed = {step.weight for step in state.canary if step.verdict == "pass"}
    missing = [weight for weight in required.weights if weight < wanted.weight and weight not in passed]
    if missing:
        return f"the step at {missing[0]} %, passed", "it was not"
    return None


def _whose(lease: Lease) -> str:
    if lease.is_ended:
        return f"ended by {lease.ended_by}: {lease.ended_reason or 'no reason was given'}"
    return f"held by {lease.holder or 'nobody'}"

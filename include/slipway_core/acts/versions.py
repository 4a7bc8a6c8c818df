"""Acts on a version: keep it from being released, keep its files."""

from __future__ import annotations

from slipway_core.acts.act import Act, Command
from slipway_core.acts.run_name_parts import followed_by, version
from slipway_core.acts.situation import Availability, Available, Refused, Situation
from slipway_core.four_eyes import is_same_person


def _reject(now: Situation) -> Availability:
    if now.line is not None and now.line.rejection is not None:
        return Refused(
            f"Version {now.version} was {now.line.rejection.sentence}.",
            f'slipway unreject {now.model} {now.version} --reason "…"',
        )
    if now.version is not None and now.version == now.document.live_version:
        return Available(f"Version {now.version} stays live. To move users off it, roll back.")
    return Available()


def _unreject(now: Situation) -> Availability:
    line = now.line
    again = f'slipway unreject {now.model} {now.version} --reason "…"'
    if line is None or line.rejection is None:
        return Refused(f"Version {now.version} is not rejected.", now.look)
    others = (line.rejection.by, line.triggered_by, line.promoted_for)
    if now.by_other and any(is_same_person(now.person, one) for one in others):
        return Refused(
            "You rejected this version or started its release, so another person must lift the rejection.",
            again,
        )
    return Available()


def _pin(now: Situation) -> Availability:
    line = now.line
    if line is not None and line.pinned:
        return Refused(
            f"Version {now.version} is pinned.", f'slipway unpin {now.model} {now.version} --reason "…"'
        )
    if line is not None and line.files_gone:
        return Refused(f"The files of version {now.version} were deleted.", now.look)
    return Available()


def _unpin(now: Situation) -> Availability:
    if now.line is None or not now.line.pinned:
        return Refused(
            f"Version {now.version} is not pinned.", f'slipway pin {now.model} {now.version} --reason "…"'
        )
    return Available()


REJECT = Act(
    name="reject",
    title="Reject",
    description="Prevents further releases of the version. The live version stays live.",
    means="start_run",
    workflow="rejection",
    required=("model", "version", "reason"),
    optional=("evidence",),
    possible=_reject,
    run_name=followed_by(version, "reject"),
    action="reject",
    on_old_data=True,
    places=frozenset({"model", "ended_release"}),
    emphasis="danger",
    command=Command(
        "Prevent further releases of a version. A live version stays live: `slipway rollback` moves users off it.",
        ('slipway reject digits 3 --reason "trained on test data"',),
        next_command="slipway explain {model} {version}",
    ),
)
UNREJECT = Act(
    name="unreject",
    title="Lift the rejection",
    description="Lets the version be released again.",
    means="start_run",
    workflow="rejection",
    required=("model", "version", "reason"),
    optional=("evidence",),
    possible=_unreject,
    run_name=followed_by(version, "unreject"),
    action="unreject",
    places=frozenset({"model", "ended_release"}),
    command=Command(
        "Lift a version's rejection. The release file can require a different person than the one who rejected it.",
        ('slipway unreject digits 3 --reason "it was the benchmark\'s fault"',),
        next_command="slipway explain {model} {version}",
    ),
)
PIN = Act(
    name="pin",
    title="Pin",
    description="Keeps the version's files regardless of the retention policy.",
    means="start_run",
    workflow="pin",
    required=("model", "version", "reason"),
    possible=_pin,
    run_name=followed_by(version, "pin"),
    action="pin",
    on_old_data=True,
    places=frozenset({"model", "ended_release"}),
    command=Command(
        "Keep a version's files regardless of the retention policy.",
        ('slipway pin digits 3 --reason "the audit\'s reference"',),
    ),
)
UNPIN = Act(
    name="unpin",
    title="Unpin",
    description="Lets the retention policy delete the version's files again.",
    means="start_run",
    workflow="pin",
    required=("model", "version", "reason"),
    possible=_unpin,
    run_name=followed_by(version, "unpin"),
    action="unpin",
    places=frozenset({"model", "ended_release"}),
    command=Command(
        "Let the retention policy delete a version's files again.",
        ('slipway unpin digits 3 --reason "audit is over"',),
    ),
)

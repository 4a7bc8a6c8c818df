"""Rejected versions: which releases reject their version, and who may lift a rejection."""

from __future__ import annotations

from slipway_core.errors import InputMissingError
from slipway_core.four_eyes import require_other_person, require_person
from slipway_core.record.kinds import VersionRejected, VersionUnrejected
from slipway_core.record.shown import Shown
from slipway_core.record.state import Rejection, ReleaseState

REASON_LIMIT = 500
# Whose rollback says something against the version. A guard, a failed task and a stopped run say nothing about it.
_AGAINST_THE_VERSION = frozenset({"judge", "a person"})


def rejection_due(state: ReleaseState, *, who: str | None) -> VersionRejected | None:
    """Return with what a release that ends rejects its version; None if it does not, or is rejected already.

    A gate refused it, the judge had it taken back, or a person did. A release that failed for another reason says
    nothing against its version.

    :param state: the fold of the version's record, of this release's attempt.
    :param who: the person who started the run.
    """
    if state.rejection is not None or state.outcome not in ("refused", "rolled_back"):
        return None
    if state.rolled_back_by is not None and state.rolled_back_by not in _AGAINST_THE_VERSION:
        return None
    if state.outcome == "rolled_back" and state.rolled_back_by is None:
        return None
    reason = (state.reason or "no reason was given")[:REASON_LIMIT]
    if state.rolled_back_by == "a person":
        return VersionRejected(reason=reason, by=who, stage="rollback")
    return VersionRejected(reason=reason, stage=state.refused_by or "canary")


def rejected_by(who: str | None, reason: str, *, shown: tuple[Shown, ...] = ()) -> VersionRejected:
    """Return what is written where a person rejects a version.

    :param shown: what is in front of that person.
    :raises UserError: the person is unknown.
    """
    return VersionRejected(reason=reason[:REASON_LIMIT], by=require_person(who), stage=None, shown=shown)


def unrejected_by(
    who: str | None, reason: str, state: ReleaseState | None, *, by_other: bool, shown: tuple[Shown, ...] = ()
) -> VersionUnrejected:
    """Return what is written where a person lifts a version's rejection.

    :param state: the fold of the version's record; None if it has none.
    :param by_other: whether it must be another person than the one who rejected it, and than those whose releases of it
        were rejected.
    :param shown: what is in front of that person.
    :raises InputMissingError: the version is not rejected.
    :raises UserError: the person is unknown, or another person must.
    """
    person = require_person(who)
    if state is None or state.rejection is None:
        raise InputMissingError(
            "no rejection to lift", expected="a version that is rejected", found="one that is not"
        )
    rejection = state.rejection
    if by_other:
        require_other_person(
            person,
            (rejection.by, *rejection.released_by),
            may=f"lift the rejection of version {state.version} of {state.model!r}",
            than="the person who rejected it and the one who started its release (`rollout.approval.by_other`)",
            found=_whose_release(rejection) + rejection.sentence,
        )
    return VersionUnrejected(
        reason=reason[:REASON_LIMIT], by=person, rejection_seq=rejection.seq, shown=shown
    )


def _whose_release(rejection: Rejection) -> str:
    if not rejection.released_by:
        return ""
    return f"a release that {' and '.join(rejection.released_by)} started, "

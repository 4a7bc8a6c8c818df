"""Which version a run may begin with: a release with one that users have not met, a rollback with one that was good.

Asked under the model's lock, before the record is opened. A rollback asks `restore_refusal` again right before users
are led back. Whether a release that was admitted may raise a weight is asked elsewhere (`raise_permission`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from slipway_core.errors import (
    AlreadyReleasedError,
    RaiseRefusedError,
    StartNeedsPersonError,
    UserError,
    VersionRejectedError,
)
from slipway_core.record.state import ReleaseState

Admission = Literal["begin", "resume"]


@dataclass(frozen=True)
class AdmissionFacts:
    """What is known when a release asks to begin, read under the model's lock.

    :param release_id: the Airflow run id that asks.
    :param state: the fold of the version's record; None if it has none.
    :param live: the version that is live; None: none is.
    :param taken_back: the newest other version, where users were taken back from it and only a person may start the
        next release; None if no person is needed, or one has started this run.
    :param force: whether a version that users have met is asked for again.
    """

    model: str
    version: int
    release_id: str
    state: ReleaseState | None
    live: int | None
    taken_back: int | None
    force: bool


def decide_admission(facts: AdmissionFacts) -> Admission:
    """Decide whether a release may begin.

    :returns: `resume` where this run has opened the version's record already and is run again; `begin` where the
        record is still to be opened, also by a run that has ended and was cleared.
    :raises VersionRejectedError: the version was rejected.
    :raises AlreadyReleasedError: users have met it, or a newer one is live, and it is not asked for again.
    :raises StartNeedsPersonError: the model was rolled back, and nobody has started this by hand.
    """
    state = facts.state
    require_not_rejected(state)
    if not facts.force:
        require_unreleased(facts.model, facts.version, state)
        require_newer(facts.model, facts.version, live=facts.live)
    if state is not None and (state.release_id, state.outcome) == (facts.release_id, "open"):
        return "resume"
    if facts.taken_back is not None:
        raise _person_needed(facts.model, facts.version, taken_back=facts.taken_back)
    return "begin"


def require_not_rejected(state: ReleaseState | None) -> None:
    """Refuse to release a version that was rejected, also where it is asked for again by name.

    :param state: the fold of the version's record; None if it has none.
    :raises VersionRejectedError: it was; the message says by whom, when, why and what to do.
    """
    if state is None or state.rejection is None:
        return
    raise VersionRejectedError(
        f"version {state.version} of {state.model!r} was rejected",
        expected="a version that is not rejected",
        found=state.rejection.sentence,
        remedy="release a new version; if the rejection no longer applies, lift it with the DAG "
        "version_rejection (`unreject`), with a reason",
    )


def _person_needed(model: str, version: int, *, taken_back: int) -> StartNeedsPersonError:
    return StartNeedsPersonError(
        f"version {version} of {model!r} does not start automatically",
        expected="a person who starts it, since version "
        f"{taken_back} was rolled back (`rollout.after_rollback: wait`)",
        found="a run that an event or a schedule has started",
        remedy="start `model_release` by hand, or set `rollout.after_rollback: continue`",
    )


def require_unreleased(model: str, version: int, state: ReleaseState | None) -> None:
    """Refuse to release a version again that users have met; what came later changes nothing.

    :param state: the fold of the version's record; None if it has none.
    :raises AlreadyReleasedError: it was promoted or rolled back before.
    """
    if state is None:
        return
    met = state.outcome if state.outcome in ("promoted", "rolled_back") else state.standing
    if met:
        raise AlreadyReleasedError(
            f"version {version} of {model!r} was released before",
            expected="a version that was never promoted or rolled back",
            found=f"{met}; its newest run is {state.release_id}, which ended as {state.outcome}",
            remedy="release a new version, or tick `Release again` (force)",
        )


def require_newer(model: str, version: int, *, live: int | None) -> None:
    """Refuse to release a version that is older than the live one.

    Releases that queue may come out of order; an old one must not take the users back behind a newer one.

    :param live: the version that is live; None: none is.
    :raises AlreadyReleasedError: a newer version is live.
    """
    if live is not None and live > version:
        raise AlreadyReleasedError(
            f"a newer version of {model!r} than {version} is live",
            expected=f"a version above {live}",
            found=f"version {version}",
            remedy="release a newer version, or tick `Release again` (force) to go back to this one",
        )


def require_older(model: str, version: int, *, live: int) -> None:
    """Raise unless the version to go back to is older than the one that is live.

    :param live: the version that is live.
    :raises UserError: it is not older.
    """
    if version < live:
        return
    raise UserError(
        f"version {version} of {model!r} is not older than version {live}, which is live",
        expected=f"a version below {live}",
        found=str(version),
        remedy="release it, or ask for it with `newer`, which another person must approve",
    )


def restore_refusal(state: ReleaseState, *, manifest_sha256: str) -> RaiseRefusedError | None:
    """Return why users may not be led back to a version that was named; None if its record shows it promoted.

    :param state: the fold of the record of the version to go back to.
    :param manifest_sha256: digest of its manifest as it lies in the store now.
    """
    remedy = "name another version, or release this one again, through every gate, with `force`"
    if state.rejection is not None:
        found = f"it was {state.rejection.sentence}"
        if state.standing == "promoted":
            remedy = (
                "name another version; if the rejection no longer applies, lift it with the DAG "
                "version_rejection (`unreject`), with a reason, then start this again"
            )
        else:
            remedy = f"{remedy}, once the rejection is lifted with the DAG version_rejection (`unreject`)"
    elif state.standing != "promoted":
        found = "it was rolled back" if state.standing else "it was never promoted"
    elif state.promoted_sha256 not in ("", manifest_sha256):
        found = f"another manifest, {manifest_sha256}"
    else:
        return None
    return RaiseRefusedError(
        f"no users may be sent to version {state.version} of {state.model!r}",
        expected="a version that the record shows promoted, and neither rolled back nor rejected since",
        found=found,
        remedy=remedy,
    )

"""Whether a release may begin, and raise weights, now: release windows, freezes and what was overridden.

Values in, values out. A hold keeps back starts and raises. Whoever takes users *off* a version asks nothing of this.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from slipway_core.errors import ReleaseHeldError, ReleaseNotNowError, SlipwayError, UserError
from slipway_core.four_eyes import are_two_people, require_other_person, require_person
from slipway_core.operations.freezes import Freeze, utc_text
from slipway_core.operations.rejection import REASON_LIMIT
from slipway_core.operations.windows import is_open, next_opening
from slipway_core.record.kinds import HoldOverridden
from slipway_core.record.shown import Shown
from slipway_core.record.state import HoldOverride
from slipway_core.spec.rollout.release_windows import ReleaseWindow

_SHOWN = 3


@dataclass(frozen=True)
class Cause:
    """One reason to wait: a freeze, or that no window is open.

    :param set_by: the person whose freeze it is; None: it is the release file's.
    :param sha256: what an override of it names.
    :param key: where the freeze lies.
    """

    reason: str
    until: datetime | None
    sha256: str
    set_by: str | None = None
    key: str | None = None


@dataclass(frozen=True)
class Hold:
    """Why nothing may begin or be raised now, in words, and when that ends by itself at the earliest.

    `is_unknown`: whether there is a freeze could not be read, which is not the same as that there is none.
    """

    reason: str
    until: datetime | None
    is_unknown: bool = False

    @classmethod
    def of(cls, causes: Sequence[Cause]) -> Hold | None:
        """Return the hold that these causes make; None if there are none."""
        if not causes:
            return None
        ends = [cause.until for cause in causes if cause.until is not None]
        more = f"; and {len(causes) - _SHOWN} more" if len(causes) > _SHOWN else ""
        return cls("; ".join(cause.reason for cause in causes[:_SHOWN]) + more, max(ends, default=None))

    @classmethod
    def unknown(cls, error: SlipwayError) -> Hold:
        """Return the hold of a release whose freezes are unknown."""
        return cls(f"the freezes could not be read ({error.in_short()[:REASON_LIMIT]})", None, True)

    def error(self, what: str, *, refuse: bool) -> ReleaseHeldError | ReleaseNotNowError:
        """Return the error for who asked.

        :param what: what was asked for.
        :param refuse: the release file says that a hold is not waited for. What could not be read always is.
        """
        until = "as soon as it ends" if self.until is None else f"at {utc_text(self.until)}"
        facts = {"expected": "an open release window and no freeze", "found": self.reason}
        if refuse and not self.is_unknown:
            remedy = f"start it again {until}, or see the DAG release_freeze (`thaw`, `override`)"
            return ReleaseNotNowError(f"{what} is held", **facts, remedy=remedy)
        return ReleaseHeldError(
            f"{what} is held",
            **facts,
            remedy=f"it continues automatically {until}; see the DAG release_freeze",
        )


def causes_of(
    now: datetime, model: str, windows: Sequence[ReleaseWindow], freezes: Iterable[Freeze]
) -> list[Cause]:
    """Return every reason to wait at this moment.

    :param now: with a time zone.
    :param windows: the release file's.
    :param freezes: those that nobody has lifted.
    """
    causes = [
        Cause(one.sentence, one.until, one.sha256, one.by, one.key)
        for one in freezes
        if one.until > now and one.model in (None, model)
    ]
    if not is_open(windows, now):
        opens = next_opening(windows, now)
        named = "; ".join(window.in_words for window in windows[:_SHOWN])
        when = "" if opens is None else f", and it opens next on {utc_text(opens)}"
        reason = f"no release window of {model!r} is open ({named}){when}"
        causes.append(Cause(reason, opens, _digest(windows, opens)))
    return causes


def hold_of(
    causes: Iterable[Cause], overrides: Sequence[HoldOverride], *, triggered_by: str | None
) -> Hold | None:
    """Return what holds a version, once overrides are counted; None: nothing does.

    Two people must stand behind each: an override counts where it is another person's than the freeze, and, of a
    closed window, than who started the release. Where no person has started it, two people override.

    :param overrides: those in the version's record.
    :param triggered_by: who started the release; None: an event or a schedule did, or it is not started yet.
    """

    def is_overridden(cause: Cause) -> bool:
        agreed = [one.by for one in overrides if one.hold_sha256 == cause.sha256]
        return are_two_people(agreed, cause.set_by or triggered_by)

    return Hold.of([cause for cause in causes if not is_overridden(cause)])


def overridden_by(
    who: str | None, reason: str, causes: Sequence[Cause], *, shown: tuple[Shown, ...] = ()
) -> list[HoldOverridden]:
    """Return what is written where a person overrides, for one version, what holds it now.

    :param shown: what is in front of that person.
    :raises UserError: nothing holds it, the person is unknown, or it is the one who wrote the freeze.
    """
    person = require_person(who)
    if not causes:
        raise UserError("nothing to override", expected="a freeze or a closed release window", found="none")
    for cause in causes:
        require_other_person(
            person,
            (cause.set_by,),
            may="override this freeze",
            than="the one who wrote it",
            found=cause.reason,
            instead=", or lift the freeze for all models (`thaw`)",
        )
    return [
        HoldOverridden(
            by=person,
            reason=reason[:REASON_LIMIT],
            hold_sha256=cause.sha256,
            hold=cause.reason,
            set_by=cause.set_by,
            shown=shown,
        )
        for cause in causes
    ]


def _digest(windows: Sequence[ReleaseWindow], opens: datetime | None) -> str:
    """Return what names this closed time: another one, or other windows, are another."""
    content = [window.model_dump(mode="json") for window in windows]
    moment = None if opens is None else utc_text(opens)
    return hashlib.sha256(json.dumps([content, moment], sort_keys=True).encode()).hexdigest()

"""Whether an act makes sense now, and if not, why not and what to do instead.

It looks at the read model, which may be some seconds behind, and knows nothing of rights: Airflow does. The workflow
asks again, and what it says counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from slipway_core.acts.table import ACTS, ActName
from slipway_core.four_eyes import is_same_person
from slipway_core.read_model.documents import (
    VERSIONS_LIMIT,
    FreezeLine,
    ModelDocument,
    OpenRelease,
    VersionLine,
)
from slipway_core.read_model.live import LiveDocument
from slipway_core.record.stage_names import stage_name

_NAMED = 8
"""So many of a model's versions a refusal names, the newest ones."""


@dataclass(frozen=True)
class Available:
    """The act makes sense now.

    :param told: what would happen, in a sentence; "" where the act's own sentence says all.
    """

    told: str = ""


@dataclass(frozen=True)
class Refused:
    """The act makes no sense now.

    :param reason: a sentence.
    :param next_command: what to type instead, or to see more.
    """

    reason: str
    next_command: str


@dataclass(frozen=True)
class Situation:
    """What there is to judge by.

    :param person: who asks; "": not known, so four eyes are not looked at.
    :param version: of an act about a version; None: the model's newest, live or open one, as the act means it.
    :param force: a release of a version that users have met.
    :param live: the live document of the canary that is watched.
    :param by_other: the release file asks for another person than who started (`rollout.approval.by_other`).
    :param freezes: those that hold the model; None: not read.
    :param findings: the names of the open findings; None: not read.
    :param old: why what there is to judge by may be old, in words; "": it is as new as can be.
    """

    document: ModelDocument
    person: str = ""
    version: int | None = None
    force: bool = False
    live: LiveDocument | None = None
    by_other: bool = False
    freezes: Sequence[FreezeLine] | None = None
    findings: Sequence[str] | None = None
    old: str = ""

    @property
    def model(self) -> str:
        """The model's name."""
        return self.document.model

    @property
    def open(self) -> OpenRelease | None:
        """The release that is under way."""
        return self.document.open_release

    @property
    def line(self) -> VersionLine | None:
        """What is known of the version that is meant."""
        return None if self.version is None else self.document.line(self.version)

    def about(self, version: int | None) -> Situation:
        """Return the same situation, of an act about another version, or about none."""
        return replace(self, version=version)

    def forced(self, force: bool) -> Situation:
        """Return the same situation, of a release with or without `force`."""
        return replace(self, force=force)

    @property
    def paused(self) -> str:
        """Why a person has paused the canary; "": nobody has."""
        if self.open is None:
            return ""
        if self.live is not None and self.live.release_id == self.open.release_id:
            return self.live.paused
        return self.open.paused


Availability = Available | Refused


def availability(name: ActName, situation: Situation) -> Availability:
    """Return whether an act makes sense now.

    By what may be old no act is refused that takes users back or holds something, and none is offered that raises.
    """
    found = _RULES[name](situation)
    if not situation.old:
        return found
    if not ACTS[name].on_old_data:
        return Refused(
            f"How things stand is not known now: {situation.old.rstrip('.')}. What takes users back can be done.",
            _look(situation),
        )
    if isinstance(found, Refused):
        return Available("What is shown may be old. The workflow looks itself.")
    return found


def _release(now: Situation) -> Availability:
    version, line, live = now.version, now.line, now.document.live_version
    if now.open is not None and now.open.version == version:
        return Refused(
            f"Version {version} is being released already, by the run {now.open.release_id}.", _watch(now)
        )
    if version is None or line is None:
        return Available()
    again = f"slipway release {now.model} {version} --force"
    if line.rejection is not None:
        return Refused(
            f"Version {version} was {line.rejection.told}.",
            f'slipway unreject {now.model} {version} --reason "…"',
        )
    if line.files_gone:
        return Refused(
            f"The files of version {version} were deleted, and its number cannot be used again.", _look(now)
        )
    if now.force:
        return Available()
    if version == live:
        return Refused(f"Version {version} is live.", again)
    if line.standing == "promoted" and live is not None and version < live:
        return Refused(
            f"Version {version} was live before.", f'slipway rollback {now.model} --to {version} --reason "…"'
        )
    if line.standing:
        told = "promoted" if line.standing == "promoted" else "rolled back"
        return Refused(f"Users have met version {version} before: it was {told}.", again)
    if live is not None and version < live:
        return Refused(f"A newer version, {live}, is live.", again)
    return Available()


def _rollback(now: Situation) -> Availability:
    """Return whether users can be taken back; where no version is named they always can, whatever the documents say."""
    live, before = now.document.live_version, now.document.previous_version
    if now.version is not None:
        return _rollback_to(now, now.version)
    if now.open is not None and (now.open.is_rollback or now.open.rolling_back):
        return Available("A roll back is under way already; one more takes users to the same version.")
    if now.open is not None and has_users(now.open):
        to = "the stable version" if live is None else f"version {live}"
        return Available(
            f"Users leave version {now.open.version} within seconds; {to} has all of them. "
            f"Version {now.open.version} is rejected."
        )
    if live is None or before is None:
        known = "no version is live" if live is None else f"no version was live before version {live}"
        return Available(f"By the records {known}. The workflow looks at the cluster itself.")
    return Available(f"All users go from version {live} to version {before}. Version {live} is rejected.")


def _rollback_to(now: Situation, version: int) -> Availability:
    live, line = now.document.live_version, now.line
    if version == live and now.open is None:
        return Refused(f"Version {version} is live.", _look(now))
    if line is None or line.standing != "promoted":
        return Refused(
            f"Version {version} was never promoted, or was rolled back since.",
            f"slipway release {now.model} {version}",
        )
    if line.rejection is not None:
        return Refused(
            f"Version {version} was {line.rejection.told}.",
            f'slipway unreject {now.model} {version} --reason "…"',
        )
    if line.files_gone:
        return Refused(f"The files of version {version} were deleted.", _look(now))
    if live is not None and version > live:
        return Available(f"Version {version} is newer than what is live: another person must approve.")
    return Available(f"All users go to version {version}, once it has answered on staging as it did before.")


def _canary(now: Situation) -> Refused | None:
    """Return why there is no canary to pause or to resume."""
    if now.open is None:
        return Refused(f"No release of {now.model} is under way.", _look(now))
    if now.open.is_rollback or now.open.rolling_back:
        return Refused("Users are being taken back.", _watch(now))
    if not has_users(now.open):
        stage = stage_name(now.open.stage) if now.open.stage else "its beginning"
        return Refused(
            f"Version {now.open.version} has no users yet: the release is at {stage}.", _watch(now)
        )
    return None


def _pause(now: Situation) -> Availability:
    if now.paused:
        return Refused(f"The canary is paused already: {now.paused}", f"slipway resume {now.model}")
    return _canary(now) or Available()


def _resume(now: Situation) -> Availability:
    refused = _canary(now)
    if refused is None and not now.paused:
        return Refused("The canary is not paused.", f"slipway pause {now.model}")
    return refused or Available()


def _answer(now: Situation) -> Availability:
    if now.open is None or not now.open.waits_for_approval:
        return Refused(f"Nothing of {now.model} waits for a person.", _look(now))
    return Available()


def _approve(now: Situation) -> Availability:
    if now.open is not None and now.open.waits_for_approval:
        refused = four_eyes(now, now.open.triggered_by)
        if refused is not None:
            return refused
    return _answer(now)


def four_eyes(now: Situation, started_by: str) -> Refused | None:
    """Return why who asks may not approve what that person has started."""
    if now.by_other and is_same_person(now.person, started_by):
        return Refused(
            "You have started this release: another person must agree.", f"slipway approve {now.model}"
        )
    return None


def _abort(now: Situation) -> Availability:
    if now.open is None:
        return Refused(f"No release of {now.model} is under way.", _look(now))
    if now.open.is_rollback:
        return Refused("A roll back is under way, and takes users to the safe side.", _watch(now))
    if now.open.rolling_back:
        return Refused("Users are being taken back already.", _watch(now))
    return Available()


def _reject(now: Situation) -> Availability:
    if now.line is not None and now.line.rejection is not None:
        return Refused(
            f"Version {now.version} was {now.line.rejection.told}.",
            f'slipway unreject {now.model} {now.version} --reason "…"',
        )
    if now.version is not None and now.version == now.document.live_version:
        return Available(f"Version {now.version} stays live. To bring users back from it, roll back.")
    return Available()


def _unreject(now: Situation) -> Availability:
    line = now.line
    again = f'slipway unreject {now.model} {now.version} --reason "…"'
    if line is None or line.rejection is None:
        return Refused(f"Version {now.version} is not rejected.", _look(now))
    others = (line.rejection.by, line.triggered_by, line.promoted_for)
    if now.by_other and any(is_same_person(now.person, one) for one in others):
        return Refused(
            "You have rejected this version, or have started its release: another person must lift that.",
            again,
        )
    return Available()


def _freeze(now: Situation) -> Availability:
    return Available()


def _thaw(now: Situation) -> Availability:
    if now.freezes is not None and not now.freezes:
        return Refused(
            f"There is no freeze of {now.model}.",
            f'slipway freeze --model {now.model} --until … --reason "…"',
        )
    return Available()


def _override(now: Situation) -> Availability:
    held = "" if now.open is None else now.open.held
    if now.freezes is not None and not now.freezes and not held:
        return Refused(f"Nothing holds {now.model}.", _look(now))
    own = next((one for one in now.freezes or () if is_same_person(one.by, now.person)), None)
    if own is not None:
        return Refused(
            "You have written this freeze: another person must override it.",
            f'slipway thaw --model {now.model} --reason "…"',
        )
    return Available()


def _pin(now: Situation) -> Availability:
    line = now.line
    if line is not None and line.pinned:
        return Refused(
            f"Version {now.version} is pinned.", f'slipway unpin {now.model} {now.version} --reason "…"'
        )
    if line is not None and line.files_gone:
        return Refused(f"The files of version {now.version} were deleted.", _look(now))
    return Available()


def _unpin(now: Situation) -> Availability:
    if now.line is None or not now.line.pinned:
        return Refused(
            f"Version {now.version} is not pinned.", f'slipway pin {now.model} {now.version} --reason "…"'
        )
    return Available()


def _close_finding(now: Situation) -> Availability:
    if now.findings is not None and not now.findings:
        return Refused(f"No finding of {now.model} is open.", _look(now))
    return Available()


def _tune(now: Situation) -> Availability:
    if now.line is not None and now.line.files_gone:
        return Refused(f"The files of version {now.version} were deleted.", _look(now))
    if now.version is None or _was_released(now, now.version):
        return Available()
    never = f"Version {now.version} of {now.model} was never released"
    others = [
        str(line.version)
        for line in now.document.versions
        if not line.files_gone and not line.rejected_only and not line.unreadable
    ]
    if not others:
        return Refused(f"{never}, and no other version has files.", "slipway list")
    older = len(others) - _NAMED
    rest = f" and {older} older ones" if older > 0 else ""
    return Refused(f"{never}. Versions with files: {', '.join(others[:_NAMED])}{rest}.", _look(now))


def _was_released(now: Situation, version: int) -> bool:
    """Tell whether a release of a version was ever started, or whether the document is too full to say."""
    if now.line is not None:
        return not now.line.rejected_only
    versions = now.document.versions
    return len(versions) >= VERSIONS_LIMIT and version < versions[0].version


def has_users(release: OpenRelease) -> bool:
    """Return whether a canary of the release has users, or shall have some."""
    return bool(release.weight_intended or release.weight_observed)


def _look(now: Situation) -> str:
    return f"slipway get {now.model}"


def _watch(now: Situation) -> str:
    return f"slipway get {now.model} -w"


_RULES: dict[ActName, Callable[[Situation], Availability]] = {
    "release": _release,
    "rollback": _rollback,
    "pause": _pause,
    "resume": _resume,
    "approve": _approve,
    "decline": _answer,
    "abort": _abort,
    "reject": _reject,
    "unreject": _unreject,
    "freeze": _freeze,
    "thaw": _thaw,
    "override": _override,
    "pin": _pin,
    "unpin": _unpin,
    "close_finding": _close_finding,
    "tune": _tune,
}

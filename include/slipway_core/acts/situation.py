"""What there is to judge by whether an act makes sense now, and what the answer is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slipway_core.read_model.documents import FreezeLine, ModelDocument, OpenRelease, VersionLine
    from slipway_core.read_model.live import LiveDocument


@dataclass(frozen=True)
class Available:
    """The act makes sense now.

    :param description: what would happen, in a sentence; "" if the act's own description is enough.
    """

    description: str = ""


@dataclass(frozen=True)
class Refused:
    """The act makes no sense now.

    :param reason: a sentence.
    :param next_command: what to type instead, or to see more.
    """

    reason: str
    next_command: str


Availability = Available | Refused


@dataclass(frozen=True)
class Situation:
    """What there is to judge by.

    :param person: who asks; "": unknown, so two-person approval is not checked.
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

    @property
    def look(self) -> str:
        """The command that shows more."""
        return f"slipway get {self.model}"

    @property
    def watch(self) -> str:
        """The command that follows the release."""
        return f"slipway get {self.model} -w"

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


def has_users(release: OpenRelease) -> bool:
    """Return whether a canary of the release has users, or shall have some."""
    return bool(release.weight_intended or release.weight_observed)

"""What the overview shows: a line for each model, in the order in which a release manager wants to see them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from slipway_core.read_model.documents import (
    FindingLine,
    FreezeLine,
    ModelDocument,
    OpenRelease,
    Unreadable,
    VersionLine,
)
from slipway_core.read_model.live import LiveDocument

Show = Literal["all", "needs_you", "in_flight", "went_badly", "findings", "frozen"]
SHOWS: Mapping[Show, str] = {
    "all": "All",
    "needs_you": "Needs you",
    "in_flight": "In flight",
    "went_badly": "Last release failed",
    "findings": "Findings",
    "frozen": "Frozen",
}
SEARCH_LIMIT = 100
_ENDED_SHOWN = 12
_BAD = ("rolled_back", "refused", "failed")


@dataclass(frozen=True)
class Need:
    """What waits for a person: `kind` is `approval`, `pause` or `hold`, `reason` the reason in words."""

    kind: Literal["approval", "pause", "hold"]
    reason: str


@dataclass(frozen=True)
class Ended:
    """A release that is over, as a bar: high where the version was promoted, else low, so that no colour is needed."""

    version: int
    outcome: str

    @property
    def kind(self) -> str:
        """Its colour."""
        return {"promoted": "good", "rolled_back": "bad", "failed": "bad", "refused": "warn"}.get(
            self.outcome, ""
        )

    @property
    def height(self) -> int:
        """Its bar's height in tenths."""
        return 10 if self.outcome == "promoted" else 4

    @property
    def label(self) -> str:
        """What it says in words."""
        return f"v{self.version} {self.outcome.replace('_', ' ')}"


@dataclass(frozen=True)
class OverviewLine:
    """A model in the overview.

    :param document: what is known of it; None: it cannot be read, and `unreadable` says why.
    :param live: where the watch of its canary stands, if it is this release's.
    :param freezes: those in force, of this model and of every one.
    """

    model: str
    document: ModelDocument | None
    unreadable: str
    live: LiveDocument | None
    freezes: tuple[FreezeLine, ...]

    @property
    def findings(self) -> tuple[FindingLine, ...]:
        """What was seen amiss with the model, and is open."""
        return () if self.document is None else self.document.findings

    @property
    def in_flight(self) -> OpenRelease | None:
        """The release that is under way."""
        return None if self.document is None else self.document.open_release

    @property
    def last(self) -> VersionLine | None:
        """The newest release that is over."""
        return None if self.document is None else self.document.last

    @property
    def ended(self) -> tuple[Ended, ...]:
        """The last versions whose releases are over, oldest first."""
        versions = () if self.document is None else self.document.versions
        over = [one for one in versions if one.finished_at is not None and not one.rejected_only]
        return tuple(Ended(one.version, one.outcome) for one in reversed(over[:_ENDED_SHOWN]))

    @property
    def went_badly(self) -> bool:
        """Whether the newest release that is over has not gone live."""
        return self.last is not None and self.last.outcome in _BAD

    @property
    def needs(self) -> tuple[Need, ...]:
        """What waits for a person."""
        release = self.in_flight
        if release is None:
            return ()
        found: list[Need] = []
        if release.waits_for_approval:
            found.append(Need("approval", f"waits for approval before the {release.waits_for_approval}"))
        if paused := release.paused or (self.live.paused if self.live else ""):
            found.append(Need("pause", f"paused: {paused}"))
        if release.held:
            found.append(Need("hold", f"held: {release.held}"))
        return tuple(found)

    @property
    def rank(self) -> int:
        """Where it stands: what waits for a person first, then what moves, then what is amiss."""
        if self.needs:
            return 0
        if self.in_flight is not None:
            return 1
        return 2 if self.findings or self.unreadable else 3

    def is_shown(self, show: Show) -> bool:
        """Tell whether the line belongs to a choice of lines."""
        return {
            "all": True,
            "needs_you": bool(self.needs),
            "in_flight": self.in_flight is not None,
            "went_badly": self.went_badly,
            "findings": bool(self.findings),
            "frozen": bool(self.freezes),
        }[show]


@dataclass(frozen=True)
class Overview:
    """The lines that were asked for, how many there are of each choice, and the names of all models."""

    lines: tuple[OverviewLine, ...]
    counts: Mapping[Show, int]
    search: str
    show: Show
    names: frozenset[str] = frozenset()


def overview_lines(
    models: Mapping[str, ModelDocument | Unreadable],
    lives: Mapping[str, LiveDocument],
    everywhere: Iterable[FreezeLine],
    now: datetime,
) -> list[OverviewLine]:
    """Return a line for each model, in order.

    :param lives: the documents of canaries that are watched, by model.
    :param everywhere: the freezes of every model that nobody has lifted.
    """
    every = tuple(everywhere)
    lines = [
        OverviewLine(
            model=name,
            document=found if isinstance(found, ModelDocument) else None,
            unreadable=found.reason if isinstance(found, Unreadable) else "",
            live=_of_this_release(found, lives.get(name)),
            freezes=freezes_now(found, every, now),
        )
        for name, found in models.items()
    ]
    return sorted(lines, key=lambda line: (line.rank, line.model))


def freezes_now(
    found: ModelDocument | Unreadable, everywhere: Iterable[FreezeLine], now: datetime
) -> tuple[FreezeLine, ...]:
    """Return the freezes that hold a model at this moment: its own, and those of every model."""
    own = found.freezes if isinstance(found, ModelDocument) else ()
    return tuple(one for one in (*own, *everywhere) if one.until > now)


def chosen(lines: Sequence[OverviewLine], search: str, show: Show) -> Overview:
    """Return the lines whose model's name has the words searched for, and which belong to the choice."""
    words = search[:SEARCH_LIMIT].casefold().split()
    found = [line for line in lines if all(word in line.model for word in words)]
    return Overview(
        tuple(line for line in found if line.is_shown(show)),
        {name: sum(line.is_shown(name) for line in found) for name in SHOWS},
        " ".join(search[:SEARCH_LIMIT].split()),
        show,
        frozenset(line.model for line in lines),
    )


def _of_this_release(found: ModelDocument | Unreadable, live: LiveDocument | None) -> LiveDocument | None:
    if live is None or isinstance(found, Unreadable) or found.open_release is None:
        return None
    return live if live.release_id == found.open_release.release_id else None

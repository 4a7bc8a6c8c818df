"""What the page of a release shows, made of what is read."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from datetime import datetime

from slipway.read_model.answers import Known
from slipway.read_model.reader import ReadModel
from slipway.web.release.charts import Chart, charts_of
from slipway.web.release.headline import Headline, headline
from slipway.web.release.story import Chapter, story_of
from slipway_core.acts.situation import Situation
from slipway_core.read_model.delivery import ExpectedEnd, expected_end
from slipway_core.read_model.documents import ModelDocument, OpenRelease, VersionLine
from slipway_core.read_model.live import LiveDocument, LiveWindow
from slipway_core.read_model.release_view import ReleaseView

_SILENT_WINDOWS = 4
_SILENT_AT_LEAST_S = 40.0


@dataclass(frozen=True)
class Followed:
    """The little that changes while a release is under way: two documents, and no record.

    :param live: what the watch of this very release wrote last.
    :param known: the document, with the age and the problem of the oldest that is shown.
    """

    known: Known[ModelDocument]
    version: int
    live: LiveDocument | None

    @property
    def document(self) -> ModelDocument:
        """The model's document."""
        return self.known.value

    @property
    def problem(self) -> str:
        """Why what is shown may be old; "" where it is not."""
        return self.known.problem

    @property
    def line(self) -> VersionLine | None:
        """The version."""
        return self.document.line(self.version)

    @property
    def open(self) -> OpenRelease | None:
        """Where its release stands; None where it is over."""
        release = self.document.open_release
        return release if release is not None and release.version == self.version else None

    @property
    def stamp(self) -> str:
        """What is another where the page would show something else."""
        live = None if self.live is None else (self.live.release_id, self.live.written_at)
        return hashlib.sha256(
            repr((self.line, self.open, live, self.document.live_version)).encode()
        ).hexdigest()[:16]

    def silent_s(self, now: datetime) -> float | None:
        """Return for how long the watch of the canary has written nothing; None where it does, or need not."""
        if (
            self.open is None
            or self.live is None
            or self.live.decision
            or self.open.stage not in ("canary", "hold")
        ):
            return None
        age_s = (now - self.live.written_at).total_seconds()
        return age_s if age_s > max(_SILENT_WINDOWS * self.live.window_s, _SILENT_AT_LEAST_S) else None


@dataclass(frozen=True)
class ReleasePage:
    """Everything that the page of a release shows."""

    followed: Followed
    view: ReleaseView
    top: Headline
    charts: tuple[Chart, ...]

    @property
    def line(self) -> VersionLine:
        """The version: by its record, which the page has read whole."""
        return self.view.line

    @property
    def is_over(self) -> bool:
        """Whether nothing of it will change by itself any more: the document and the record say so."""
        return self.followed.open is None and self.view.open_now is None

    @property
    def stamp(self) -> str:
        """What an open page compares with the pulse's; "" where something that was read is behind: it asks again."""
        line = self.followed.line
        agree = (self.followed.open is None) == (self.view.open_now is None)
        is_current = line is None or self.view.line.last_seq >= line.last_seq
        return self.followed.stamp if agree and is_current else ""

    @property
    def story(self) -> tuple[Chapter, ...]:
        """What happened, newest first."""
        return story_of(self.view.log)

    @property
    def newest(self) -> LiveWindow | None:
        """The newest window that was judged."""
        live = self.followed.live
        return live.windows[-1] if live is not None and live.windows else None

    def ends(self, now: datetime) -> ExpectedEnd | None:
        """Return when the release may end, as earlier ones went; None if it is unknown."""
        release = self.followed.open
        left = [step.name for step in self.view.steps if step.state in ("here", "ahead")]
        return None if release is None else expected_end(self.followed.document, release, left, now)

    def situation(self, person: str) -> Situation:
        """Return what acts are judged by."""
        followed = self.followed
        return Situation(
            followed.document,
            person=person,
            version=followed.version,
            live=followed.live,
            by_other=self.view.required is not None and self.view.required.by_other,
            old=followed.known.old,
        )


def follow(read_model: ReadModel, model: str, version: int) -> Followed:
    """Return what changes of a release.

    :raises SlipwayError: nothing is known about the model, or the store does not answer.
    """
    document, live = read_model.known_model(model), read_model.known_live(model)
    line, found = document.value.line(version), live.value
    release_id = "" if line is None else line.release_id
    if found is not None and (found.version, found.release_id) != (version, release_id):
        found = None
    return Followed(document.with_age_of(live), version, found)


def release_page(read_model: ReadModel, model: str, version: int) -> ReleasePage:
    """Return what the page of a release shows.

    :raises InputMissingError: the version has no record.
    :raises SlipwayError: the store does not answer.
    """
    view = read_model.known_release(model, version)
    followed = follow(read_model, model, version)
    followed = replace(followed, known=followed.known.with_age_of(view))
    now = followed.open if view.value.open_now is not None else None
    return ReleasePage(
        followed,
        view.value,
        headline(view.value.line, now or view.value.open_now, followed.live),
        () if followed.live is None else charts_of(followed.live.windows),
    )

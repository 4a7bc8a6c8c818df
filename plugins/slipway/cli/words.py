"""Moments, durations and outcomes in words, as every command says them."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from slipway.cli.plain import plain
from slipway_core.record.stage_names import stage_name
from slipway_core.written_numbers import counted

if TYPE_CHECKING:
    from rich.text import Text

    from slipway_core.read_model.documents import ModelDocument, OpenRelease, VersionLine

_STYLES = {
    "promoted": "green",
    "open": "cyan",
    "rolled_back": "red",
    "refused": "red",
    "failed": "red",
    "cancelled": "yellow",
    "pass": "green",
    "fail": "red",
    "inconclusive": "yellow",
}


def age(moment: datetime | None, now: datetime) -> str:
    """Write how long ago a moment was: `12 s`, `5 min`, `3 h 20 min`, `4 d`; "" for None."""
    if moment is None:
        return ""
    return span((now - moment).total_seconds())


def span(seconds: float) -> str:
    """Write a duration in at most two units, of which nobody needs the rest."""
    whole = max(int(seconds), 0)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min" + (f" {whole % 60} s" if whole < 600 and whole % 60 else "")
    if whole < 86_400:
        return f"{whole // 3600} h" + (f" {whole % 3600 // 60} min" if whole % 3600 >= 60 else "")
    return f"{whole // 86_400} d"


def moment(at: datetime | None) -> str:
    """Write a moment in UTC; "" for None."""
    return "" if at is None else f"{at:%Y-%m-%d %H:%M:%S} UTC"


def styled(word: str, text: str | None = None) -> Text:
    """Return an outcome or a verdict in its colour.

    :param text: what is written instead of the word.
    """
    from rich.text import Text

    return Text(plain(text if text is not None else word.replace("_", " ")), style=_STYLES.get(word, ""))


def in_flight(release: OpenRelease | None) -> str:
    """Write in a few words where a release is; "" for None."""
    if release is None:
        return ""
    if release.is_rollback or release.rolling_back:
        return f"version {release.version}: users are being moved back; {percent(release.weight_observed)}"
    if release.waits_for_approval:
        return f"version {release.version}: waits for approval before the {release.waits_for_approval}"
    if release.paused:
        return f"version {release.version}: paused at {percent(release.weight_observed)}"
    if release.held:
        return f"version {release.version}: held at {percent(release.weight_observed)}"
    if release.step:
        return f"version {release.version}: step {release.step} of {release.steps}, {percent(release.weight_observed)}"
    return f"version {release.version}: {stage_name(release.stage) if release.stage else 'begins'}"


def percent(weight: int | None) -> str:
    """Write a weight; one that nobody has observed is unknown."""
    return "weight unknown" if weight is None else f"{weight} %"


def ended(line: VersionLine | None) -> str:
    """Write how the newest release that is over has ended; "" for None."""
    if line is None:
        return ""
    sentence = f"version {line.version} {line.outcome.replace('_', ' ')}"
    return (
        f"{sentence} by {stage_name(line.refused_by)}"
        if line.outcome == "refused" and line.refused_by
        else sentence
    )


def notes(document: ModelDocument, now: datetime) -> str:
    """Write what else is to be known of a model: freezes in force, open findings; "" for nothing."""
    freezes = [f"frozen by {one.by} until {moment(one.until)}" for one in document.freezes if one.until > now]
    found = [counted(len(document.findings), "open finding")] if document.findings else []
    return "; ".join([*freezes, *found])


def live(document: ModelDocument, now: datetime) -> str:
    """Write which version is live and since when."""
    if document.live_version is None:
        return "none"
    since = age(document.live_since, now)
    return f"{document.live_version}" + (f" ({since})" if since else "")

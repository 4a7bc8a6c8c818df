"""The release file's `rollout.release_windows`: when a version may be given more users."""

from __future__ import annotations

import re
from functools import cache
from typing import Annotated, Literal, Self
from zoneinfo import ZoneInfo, available_timezones

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from slipway_core.identifiers import nearest
from slipway_core.spec.parts import SpecPart

Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
DAYS: tuple[Day, ...] = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

_CLOCK = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]|24:00")
_ZONE = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+){0,2}")
_ZONE_LIMIT = 64


def _quoted(value: object) -> object:
    if isinstance(value, int):
        raise ValueError('must be a text: write "16:00", with quotes (YAML reads 16:00 as a number)')
    return value


def _clock(text: str) -> str:
    if not _CLOCK.fullmatch(text):
        raise ValueError('must be hours and minutes, such as "09:00"')
    return text


def _opens(text: str) -> str:
    if text == "24:00":
        raise ValueError('must be a time of the day on which it opens, at most "23:59"')
    return text


@cache
def _is_zone(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (OSError, ValueError, KeyError):  # whatever the data base has under that name
        return False
    return True


def _zone(text: str) -> str:
    if len(text) <= _ZONE_LIMIT and _ZONE.fullmatch(text) and _is_zone(text):
        return text
    near = nearest(text, sorted(available_timezones(), key=lambda name: abs(len(name) - len(text))))
    hint = f"; did you mean {near}?" if near else ""
    raise ValueError(f"must be a time zone of the IANA data base, such as Europe/Berlin{hint}")


ClockTime = Annotated[str, BeforeValidator(_quoted), AfterValidator(_clock)]
TimeZone = Annotated[str, AfterValidator(_zone)]


class ReleaseWindow(SpecPart):
    """Hours of some days of the week in which releases may begin and raise weights."""

    days: Annotated[tuple[Day, ...], Field(min_length=1, max_length=7)]
    """The days on which it opens."""
    opens: Annotated[ClockTime, AfterValidator(_opens)]
    closes: ClockTime
    """If not after `opens`: on the next day. "24:00" is the end of the day."""
    time_zone: TimeZone = "UTC"
    """From the IANA database, such as Europe/Berlin; daylight saving time follows it."""

    @model_validator(mode="after")
    def _is_no_moment(self) -> Self:
        if self.opens == self.closes:
            raise ValueError(
                f'a window from {self.opens} to {self.closes} is empty; for a whole day, close it at "24:00"'
            )
        if len(set(self.days)) < len(self.days):
            raise ValueError(f"a day is listed twice: {', '.join(self.days)}")
        return self

    @property
    def in_words(self) -> str:
        """The window as a message names it."""
        return f"{', '.join(self.days)} {self.opens} to {self.closes} ({self.time_zone})"

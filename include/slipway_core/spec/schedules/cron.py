"""Times that come again, as cron writes them: five fields, in UTC."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Annotated

from pydantic import AfterValidator

LEAST_APART = timedelta(hours=1)
"""What is scheduled is measured on the one staging server, which releases need."""
LONGEST_LATE = timedelta(hours=6)
"""A time that is longer past than this is left out: nobody was there to keep it."""
_LONGEST_TEXT = 100
_FIELD = r"[0-9A-Za-z*/,\-]+"
_FIVE_FIELDS = re.compile(rf"{_FIELD}( {_FIELD}){{4}}")
# A leap day may be eight years away.
_YEARS = 9
# A week of days at the most times that are looked at, where they lie an hour apart.
_LOOKED_AT = 24 * 7
_FIRST = datetime(2026, 1, 1, tzinfo=UTC)


def _cron(text: str) -> str:
    if len(text) > _LONGEST_TEXT or not _FIVE_FIELDS.fullmatch(text):
        raise ValueError(
            "must be five fields of cron with one space between, in UTC, such as 0 3 * * 0 (Sundays at 03:00)"
        )
    from croniter import CroniterError, croniter

    try:
        times = croniter(text, _FIRST, max_years_between_matches=_YEARS)
        first = [times.get_next(datetime) for _ in range(_LOOKED_AT)]
    except (CroniterError, ValueError, OverflowError) as error:
        raise ValueError(f"is not a valid schedule: {error}") from error
    if any(later - earlier < LEAST_APART for earlier, later in pairwise(first)):
        raise ValueError("must not come more often than once an hour")
    return text


Cron = Annotated[str, AfterValidator(_cron)]


def due_time(cron: str, now: datetime) -> datetime | None:
    """Return the last time that cron names, UTC, where it is not too long past; None otherwise.

    :param cron: as a release file has it, checked.
    :param now: with its time zone.
    """
    from croniter import croniter

    moment = now.astimezone(UTC)
    times = croniter(cron, moment + timedelta(seconds=1), max_years_between_matches=_YEARS)
    last: datetime = times.get_prev(datetime)
    return last if moment - last <= LONGEST_LATE else None

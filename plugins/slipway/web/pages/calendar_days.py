"""The days of the calendar: when each model may be given more users, and when it is frozen. Values in, values out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from slipway_core.operations.windows import open_times
from slipway_core.read_model.documents import FreezeLine
from slipway_core.spec.rollout.release_windows import ReleaseWindow

DAYS = 14
_DAY = timedelta(days=1)
Span = tuple[datetime, datetime]


@dataclass(frozen=True)
class Part:
    """A part of a day, in hours since its beginning (UTC)."""

    begins_h: float
    ends_h: float

    @property
    def label(self) -> str:
        """The part as people write it: `09:00 to 16:00`."""
        return f"{_clock(self.begins_h)} to {_clock(self.ends_h)}"


@dataclass(frozen=True)
class DayCell:
    """One day of one model: `opened` and `frozen` are its parts, in order."""

    opened: tuple[Part, ...]
    frozen: tuple[Part, ...]

    @property
    def label(self) -> str:
        """What the picture shows, in words."""
        opened = ", ".join(part.label for part in self.opened)
        frozen = ", ".join(part.label for part in self.frozen)
        return (f"open {opened}" if opened else "closed") + (f"; frozen {frozen}" if frozen else "")


@dataclass(frozen=True)
class ModelRow:
    """A model that has windows or is frozen; "": every other one. `windows` are in words; none: always open."""

    model: str
    windows: tuple[str, ...]
    cells: tuple[DayCell, ...]


@dataclass(frozen=True)
class CalendarView:
    """The days, a row for each model that is ever held, and the names of those that never are."""

    days: tuple[date, ...]
    rows: tuple[ModelRow, ...]
    never_held: tuple[str, ...]


def calendar_view(
    windows: Mapping[str, Sequence[ReleaseWindow]],
    freezes: Mapping[str, Sequence[FreezeLine]],
    everywhere: Iterable[FreezeLine],
    now: datetime,
) -> CalendarView:
    """Return the days from today on.

    :param windows: of each model's release file; none: it is always open.
    :param freezes: of each model.
    :param everywhere: those of every model.
    """
    first = now.astimezone(UTC).date()
    days = tuple(first + timedelta(days=number) for number in range(DAYS))
    every = [(one.at, one.until) for one in everywhere]
    rows, never_held = [], []
    for model in sorted({*windows, *freezes}):
        frozen = [*every, *((one.at, one.until) for one in freezes.get(model, ()))]
        own = windows.get(model, ())
        if not own and not freezes.get(model):
            never_held.append(model)
            continue
        opened = open_times(own, now) if own else [(_start(first), _start(first + DAYS * _DAY))]
        cells = tuple(DayCell(_parts(opened, day), _parts(frozen, day)) for day in days)
        rows.append(ModelRow(model, tuple(window.in_words for window in own), cells))
    if every and never_held:
        whole = _parts([(_start(first), _start(first + _DAY))], first)
        rows.append(ModelRow("", (), tuple(DayCell(whole, _parts(every, day)) for day in days)))
    return CalendarView(days, tuple(rows), tuple(never_held))


def _parts(spans: Iterable[Span], day: date) -> tuple[Part, ...]:
    begins, ends = _start(day), _start(day + _DAY)
    found = sorted(
        (_hours(max(one, begins), begins), _hours(min(other, ends), begins))
        for one, other in spans
        if one < ends and other > begins
    )
    return tuple(Part(one, other) for one, other in found)


def _start(day: date) -> datetime:
    return datetime.combine(day, time(), tzinfo=UTC)


def _hours(moment: datetime, begins: datetime) -> float:
    return round((moment - begins) / timedelta(hours=1), 3)


def _clock(hours: float) -> str:
    minutes = round(hours * 60)
    return f"{minutes // 60:02d}:{minutes % 60:02d}"

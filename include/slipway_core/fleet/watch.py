"""What the watch over a fleet has told: a server that is known to be dead is told once, not every five minutes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Self

from pydantic import BaseModel, ConfigDict, ValidationError

from slipway_core.identifiers import validate_model_name
from slipway_core.value_types import UtcTime

LIMIT_BYTES = 1 << 20
TOLD_AGAIN_AFTER = timedelta(days=1)


def watch_key(fleet: str) -> str:
    """Return where it lies what was told of a fleet."""
    return f"fleets/{validate_model_name(fleet)}/watch.json"


class Notified(BaseModel):
    """When a finding was told last, and by which run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    at: UtcTime
    run_id: str


class NotifiedFindings(BaseModel):
    """What is amiss with a fleet and was told, by the finding's words."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    told: dict[str, Notified] = {}

    def to_bytes(self) -> bytes:
        """Return the document as UTF-8 JSON."""
        return self.model_dump_json(indent=2).encode() + b"\n"

    @classmethod
    def from_bytes(cls, content: bytes | None) -> Self:
        """Return the document in `content`; where that is none, nothing was told: to tell again is the safe side."""
        try:
            return cls() if content is None else cls.model_validate_json(content)
        except ValidationError:
            return cls()

    def news(self, found: Sequence[str], run_id: str, now: datetime) -> list[str]:
        """Return what a run has to tell: what no earlier run has told within a day.

        What an earlier try of the same run has told counts as new: otherwise the second try would be a success.
        """
        return [one for one in found if not self._is_known(one, run_id, now)]

    def after(self, found: Sequence[str], run_id: str, now: datetime) -> Self:
        """Return what is kept when a run has told its news; what is not found any more is forgotten."""
        new = self.news(found, run_id, now)
        kept = {one: self.told[one] for one in found if one not in new}
        return type(self)(told={**kept, **{one: Notified(at=now, run_id=run_id) for one in new}})

    def _is_known(self, finding: str, run_id: str, now: datetime) -> bool:
        notified = self.told.get(finding)
        return notified is not None and notified.run_id != run_id and now - notified.at < TOLD_AGAIN_AFTER

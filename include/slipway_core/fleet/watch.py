"""What the watch over a fleet has reported: a dead server is reported once a day, not every five minutes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Self

from pydantic import BaseModel, ConfigDict, ValidationError

from slipway_core.identifiers import validate_model_name
from slipway_core.value_types import UtcTime

LIMIT_BYTES = 1 << 20
REPORT_AGAIN_AFTER = timedelta(days=1)


def watch_key(fleet: str) -> str:
    """Return the key of the document that records what was reported of a fleet."""
    return f"fleets/{validate_model_name(fleet)}/watch.json"


class Notified(BaseModel):
    """When a finding was last reported, and by which run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    at: UtcTime
    run_id: str


class NotifiedFindings(BaseModel):
    """The findings on a fleet that were reported, by their text."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    notified: dict[str, Notified] = {}

    def to_bytes(self) -> bytes:
        """Return the document as UTF-8 JSON."""
        return self.model_dump_json(indent=2).encode() + b"\n"

    @classmethod
    def from_bytes(cls, content: bytes | None) -> Self:
        """Return the document in `content`; an unreadable one counts as empty, since reporting twice is safe."""
        try:
            return cls() if content is None else cls.model_validate_json(content)
        except ValidationError:
            return cls()

    def news(self, found: Sequence[str], run_id: str, now: datetime) -> list[str]:
        """Return the findings that a run has to report: those that no earlier run has reported within a day.

        What an earlier try of the same run has reported counts as new: otherwise the second try would succeed.
        """
        return [one for one in found if not self._is_known(one, run_id, now)]

    def after(self, found: Sequence[str], run_id: str, now: datetime) -> Self:
        """Return the document after a run has reported its news; findings that are gone are removed."""
        new = self.news(found, run_id, now)
        kept = {one: self.notified[one] for one in found if one not in new}
        return type(self)(notified={**kept, **{one: Notified(at=now, run_id=run_id) for one in new}})

    def _is_known(self, finding: str, run_id: str, now: datetime) -> bool:
        notified = self.notified.get(finding)
        return notified is not None and notified.run_id != run_id and now - notified.at < REPORT_AGAIN_AFTER

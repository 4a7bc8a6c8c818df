"""One answer of one server, as its client got it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class FleetAnswer:
    """One request to one server, and what came of it.

    `sent` and `received` are unix seconds. `version` is what made the answer, by the model's own output; `reported`
    is the version in the answer's envelope. Both are None where `error` is not.
    """

    server: str
    protocol: str
    sent: float
    received: float
    version: int | None = None
    reported: int | None = None
    error: str | None = None

    @property
    def tells_true(self) -> bool:
        """Whether the version that the answer reports is the one that made it."""
        return self.error is not None or self.reported == self.version

    def to_line(self) -> str:
        """Return the answer as a line of the file that `read` reads."""
        return json.dumps(asdict(self))


def read(lines: Iterable[bytes]) -> list[FleetAnswer]:
    """Return the answers of whole lines."""
    return [FleetAnswer(**json.loads(line)) for line in lines]

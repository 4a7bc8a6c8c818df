"""What the lane has built and run, as a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass
class Entry:
    """One image: how long its build took, its size, and what was run in it."""

    build_s: float
    size_mb: float
    ran: list[str] = field(default_factory=list)


@dataclass
class Ledger:
    """What one run of the lane has built and run: engine, base images, images, and notes of what was seen."""

    engine: str = ""
    bases: list[str] = field(default_factory=list)
    entries: dict[str, Entry] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def lines(self) -> Iterator[str]:
        """Yield the table, line by line."""
        yield f"engine: {self.engine}"
        yield from self.notes
        if not self.entries:
            return
        yield from (f"base image: {base}" for base in self.bases)
        yield f"{'image':<20}{'build s':>8}{'MB':>7}  ran as user 10001, read-only root, no capabilities"
        for name, entry in self.entries.items():
            yield f"{name:<20}{entry.build_s:>8.0f}{entry.size_mb:>7.0f}  {'; '.join(entry.ran) or 'nothing'}"

"""A level of load: so many requests in flight, or so many a second."""

from __future__ import annotations

from dataclasses import dataclass

from slipway_core.written_numbers import amount


@dataclass(frozen=True)
class LoadLevel:
    """Either a concurrency or a request rate; the other one is None."""

    concurrency: int | None = None
    request_rate_rps: float | None = None

    @property
    def label(self) -> str:
        """Return the level in words."""
        if self.request_rate_rps is not None:
            return f"{amount(self.request_rate_rps)} requests/s"
        return f"concurrency {self.concurrency}"

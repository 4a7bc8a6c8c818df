"""Times as Kubernetes writes them."""

from __future__ import annotations

from datetime import UTC, datetime


def api_time(when: datetime | None = None) -> str:
    """Return a time as Kubernetes writes it, in UTC and whole seconds: `2026-11-20T10:00:00Z`. Default: now."""
    return (when or datetime.now(UTC)).strftime("%Y-%m-%dT%H:%M:%SZ")

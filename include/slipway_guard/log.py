"""The guard's log: one JSON object a line."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, TextIO

_log = logging.getLogger("slipway.guard")


class JsonLines(logging.Formatter):
    """Writes a record as `{"at", "level", "event", …}`; an exception's text is part of the line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "facts", {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def set_up(level: str, stream: TextIO | None = None) -> None:
    """Send the guard's log to `stream` (default: stdout), from `level` (`info`, `warning`, `error`) on."""
    handler = logging.StreamHandler(stream or sys.stdout)
    handler.setFormatter(JsonLines())
    _log.handlers = [handler]
    _log.propagate = False
    _log.setLevel(level.upper())


def say(event: str, level: int = logging.INFO, *, exc_info: bool = False, **facts: Any) -> None:
    """Write one line: `event` is a word to search for, `facts` are the rest of it."""
    _log.log(level, event, extra={"facts": facts}, exc_info=exc_info)

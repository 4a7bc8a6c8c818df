"""What the libraries log while they send: addresses, keys, whole requests. None of it goes into any log."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_APPRISE = "apprise"
# urllib3 logs each request with its path, which is a secret of Slack and Teams.
_LOGGERS = (_APPRISE, "requests", "urllib3.connection", "urllib3.connectionpool", "urllib3.util.retry")


class _Kept(logging.Filter):
    """Lets nothing through that its own thread logs; Apprise's warnings are kept in `lines`."""

    def __init__(self) -> None:
        super().__init__()
        self._thread = threading.get_ident()
        self.lines: list[str] = []

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the record is another thread's."""
        if record.thread != self._thread:
            return True
        if record.name == _APPRISE and record.levelno >= logging.WARNING:
            self.lines.append(record.getMessage())
        return False


@contextmanager
def kept_from_logs() -> Iterator[list[str]]:
    """Keep out of every log what the libraries say in this thread; give Apprise's warnings instead."""
    kept, loggers = _Kept(), [logging.getLogger(name) for name in _LOGGERS]
    for logger in loggers:
        logger.addFilter(kept)
    try:
        yield kept.lines
    finally:
        for logger in loggers:
            logger.removeFilter(kept)

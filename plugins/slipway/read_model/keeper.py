"""What a task does at its end, so that pages see at once what it has changed: best effort, and for a short time only.

Called where a release begins and has ended, and where a person's act, retention or a revalidation has changed
something. Between begin and end of a release nobody writes: readers follow the record of what is under way themselves.
No task that gives users another version calls this, least of all one that takes them back: `conclude` does, when all is
over and the model's lock is given back.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection

from slipway.hooks.s3_store import ModelStoreHook
from slipway_core.errors import SlipwayError

log = logging.getLogger(__name__)

LIMIT_S = 3.0
"""How long a task waits."""
ANSWER_LIMIT_S = 2.0
"""Of one request."""


def keep_current(
    make_store: Callable[[float], ModelStoreHook],
    model: str,
    versions: Collection[int] = (),
    *,
    limit_s: float = LIMIT_S,
) -> None:
    """Bring the model's document up to date. It raises nothing and takes `limit_s` at most.

    What it does not come to, a reader notices and does.

    :param make_store: makes the hook, given the limit of one answer.
    :param versions: whose records have changed.
    """

    def work() -> None:
        try:
            from slipway.read_model.writer import (
                ViewWriter,  # reading a DAG file need not wait for its models
            )

            ViewWriter(make_store(ANSWER_LIMIT_S)).bring_up_to_date(model, versions)
        except Exception as error:  # pages see it later, and nothing else comes of it
            reason = error.in_short() if isinstance(error, SlipwayError) else type(error).__name__
            log.info("pages show changes of %s later: %s", model, reason)

    # A thread that can be left behind: whatever hangs here holds nothing up.
    working = threading.Thread(target=work, name="slipway read model", daemon=True)
    working.start()
    working.join(limit_s)
    if working.is_alive():
        log.info("pages show changes of %s later: the object store is slow", model)

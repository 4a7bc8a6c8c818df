"""The outbox: who has something to tell puts one small object into the bucket, and goes on.

The DAG `notification_delivery` finds it and sends it. So nothing in a release ever waits for a receiver; and where
no release file names one, nothing is written.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from slipway.deployment.settings import text_of
from slipway.hooks.s3_store import ModelStoreHook
from slipway_core.errors import SlipwayError
from slipway_core.operations.layout import outbox_key
from slipway_core.operations.notices.notice import Notice, OutboxEntry
from slipway_core.operations.notices.routing import parse_rules, receivers_of
from slipway_core.spec.notify import NotifyRule
from slipway_core.spec.release_file import ReleaseSpec

log = logging.getLogger(__name__)

DEFAULT_RULES_VARIABLE = "SLIPWAY_NOTIFY"
# How long a step waits for the put, and one request of it for an answer.
LIMIT_S = 5.0
ANSWER_LIMIT_S = 2.0


def default_rules() -> tuple[NotifyRule, ...]:
    """Return who is notified of models whose release file does not say so; what cannot be read is logged."""
    try:
        return parse_rules(text_of(DEFAULT_RULES_VARIABLE), DEFAULT_RULES_VARIABLE)
    except SlipwayError as error:
        log.warning("the default sends no notice: %s", error)
        return ()


def rules_of(spec: ReleaseSpec) -> tuple[NotifyRule, ...]:
    """Return who is notified of a model's events."""
    return default_rules() if spec.notify is None else spec.notify


class Outbox:
    """Takes notices for the receivers that a release file names.

    :param make_store: makes the hook that writes them, with a limit to each answer; called where there is something
        to write.
    :param rules: who is notified of what.
    """

    def __init__(self, make_store: Callable[[], ModelStoreHook], rules: Sequence[NotifyRule]) -> None:
        self._make_store = make_store
        self._rules = rules

    def tell(self, notice: Notice | None, *, limit_s: float = LIMIT_S) -> None:
        """Have the notice delivered, if anybody wants it. It raises nothing and takes `limit_s` at most.

        Telling the same thing again is harmless: it has the same `Notice.id`, which receivers are given.

        :param notice: None: there is nothing to tell.
        """
        to = () if notice is None else receivers_of(self._rules, notice.event)
        if notice is None or not to:
            return
        entry = OutboxEntry(notice=notice, to=to)
        # A thread that can be left behind: whatever hangs here must not hold up a release.
        putting = threading.Thread(target=self._put, args=(entry,), name="slipway outbox", daemon=True)
        putting.start()
        putting.join(limit_s)
        if putting.is_alive():
            log.warning(
                "the notice of %s could not be put into the outbox within %g s; continuing without it",
                notice.event,
                limit_s,
            )

    def _put(self, entry: OutboxEntry) -> None:
        key = outbox_key(datetime.now(UTC), entry.notice.id)
        try:
            self._make_store().write(key, entry.to_bytes(), content_type="application/json")
        except Exception as error:  # nobody is told, and nothing else comes of it
            log.warning(
                "the notice of %s could not be put into the outbox: %s",
                entry.notice.event,
                error if isinstance(error, SlipwayError) else type(error).__name__,
            )
        else:
            log.info("the notice of %s waits to be sent to %s", entry.notice.event, ", ".join(entry.to))

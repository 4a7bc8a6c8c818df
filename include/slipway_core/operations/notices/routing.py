"""Who is notified of an event: by the release file, or by the default for all models."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import TypeAdapter, ValidationError

from slipway_core.documents.document_form import first_problem
from slipway_core.errors import UserError
from slipway_core.spec.notify import NOTICE_EVENTS, NoticeEvent, Notify, NotifyRule


def receivers_of(rules: Iterable[NotifyRule], event: NoticeEvent) -> tuple[str, ...]:
    """Return the connections that are notified of the event, each once."""
    return tuple(dict.fromkeys(rule.to for rule in rules if event in rule.on))


def parse_rules(text: str, source: str) -> tuple[NotifyRule, ...]:
    """Return the rules that a JSON text holds; none where it is empty.

    :param source: what an error calls it.
    :raises UserError: it holds something else.
    """
    if not text.strip():
        return ()
    try:
        return TypeAdapter(Notify).validate_json(text)
    except ValidationError as error:
        raise UserError(
            f"{source} cannot be read",
            expected='JSON such as [{"on": ["rolled_back"], "to": "slack_default"}]; events are '
            + ", ".join(NOTICE_EVENTS),
            found=first_problem(error),
            remedy="correct it; until then only the release files' own `notify` counts",
        ) from error

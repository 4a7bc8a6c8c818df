"""A notice in words: one short message that a person on call understands on a phone.

What comes from models and people (reasons, names, run ids) is hostile until it went through `harmless`, which every
value does on its way into a template. Jinja2 is imported when the first message is made.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from slipway_core.operations.notices.notice import Notice, shortened
from slipway_core.spec.notify import NoticeEvent

if TYPE_CHECKING:
    from jinja2 import Environment

Severity = Literal["info", "success", "warning", "failure"]

TITLE_LIMIT, TEXT_LIMIT = 120, 900
"""Teams takes 1,000 characters from the library, PagerDuty 1,024."""
_VALUE_LIMIT = 300

_SEVERITIES: dict[NoticeEvent, Severity] = {
    "started": "info",
    "waiting_for_approval": "warning",
    "held": "warning",
    "refused": "failure",
    "failed": "failure",
    "rolled_back": "failure",
    "promoted": "success",
    "inconclusive": "warning",
    "lease_lost": "failure",
    "drift_found": "warning",
}
_TITLES: dict[NoticeEvent, str] = {
    "started": "{{ what }}: release started",
    "waiting_for_approval": "{{ what }} waits for your approval",
    "held": "{{ what }} is held",
    "refused": "{{ what }} was refused",
    "failed": "{{ what }}: release failed",
    "rolled_back": "{{ what }} was rolled back",
    "promoted": "{{ what }} is live",
    "inconclusive": "{{ what }}: the canary cannot be judged yet",
    "lease_lost": "{{ what }}: the canary lost its lease",
    "drift_found": "{{ what }}: drift found",
}
_MEANINGS: dict[NoticeEvent, str] = {
    "started": "It gets no users before it passes the gates.",
    "waiting_for_approval": "The release waits until a person answers in Airflow.",
    "held": "It continues automatically when this ends. Rollbacks are never held.",
    "refused": "It has no users. The live version stays live.",
    "failed": "It was not promoted.",
    "rolled_back": "It gets no new requests.",
    "promoted": "It has all traffic.",
    "inconclusive": "The weight stays the same in the meantime.",
    "lease_lost": "Slipway set its weight to 0: its release had not renewed the lease for too long.",
    "drift_found": "Nothing has been changed.",
}
# Of a rollback by hand, whose version is the one that is live and was to be left.
_TITLES_BY_HAND: dict[NoticeEvent, str] = {
    "refused": "{{ what }}: rollback refused",
    "failed": "{{ what }}: rollback failed",
}
_MEANING_BY_HAND = "The live version stays live, unless the reason says otherwise."
_TEXT = """\
{{ meaning }}
{% if notice.reason %}
Why: {{ notice.reason }}
{% endif %}
{% for fact in notice.facts %}
{{ fact.name }}: {{ fact.value }}
{% endfor %}
"""
_LINKS = """\
{% for name, url in links.items() %}
{{ name }}: {{ url }}
{% endfor %}
Notice {{ notice.id }}
"""
# What ends a link's text in Markdown, and what begins a mention or an element.
_PLAIN = str.maketrans({"<": "‹", ">": "›", "@": "@\u200b", "`": "'", "|": "¦"})
_MARKDOWN_LINK = re.compile(r"\]\s*([(\[])")


@dataclass(frozen=True)
class Message:
    """What is sent. `id` is the same when it is sent again, so that a receiver can drop the second one.

    `data` is what a program gets instead of the text.
    """

    id: str
    title: str
    text: str
    severity: Severity
    data: Mapping[str, Any]


def harmless(value: object) -> str:
    """Return a value as one line of plain text, which mentions nobody and marks nothing up.

    Control characters, invisible ones and those that change the direction of writing are left out.
    """
    text = unicodedata.normalize("NFC", str(value)[: 4 * _VALUE_LIMIT])
    shown = "".join(" " if unicodedata.category(one)[0] in "CZ" else one for one in text)
    plain = " ".join(shown.split()).translate(_PLAIN)
    return shortened(_MARKDOWN_LINK.sub(r"] \1", plain), _VALUE_LIMIT)


def message_of(
    notice: Notice, links: Mapping[str, str] | None = None, *, is_rollback_by_hand: bool = False
) -> Message:
    """Return the message of a notice.

    :param links: addresses by what they lead to, such as `run`; each is percent-encoded already.
    :param is_rollback_by_hand: the run that it is about takes users back, and releases nothing.
    """
    what = notice.model if notice.version is None else f"{notice.model} version {notice.version}"
    links = {name: _Address(url) for name, url in (links or {}).items()}
    title, meaning = _TITLES[notice.event], _MEANINGS[notice.event]
    if is_rollback_by_hand and notice.event in _TITLES_BY_HAND:
        title, meaning = _TITLES_BY_HAND[notice.event], _MEANING_BY_HAND
    values = {"notice": notice, "what": what, "meaning": meaning, "links": links}
    title = shortened(_rendered(title, **values), TITLE_LIMIT)
    # The links come last and are kept whole: what is too long is what a person reads there in full.
    end = _rendered(_LINKS, **values)
    text = shortened(_rendered(_TEXT, **values), max(TEXT_LIMIT - len(end) - 1, 100))
    data = {
        **notice.model_dump(mode="json", include={"event", "model", "version", "at", "release_id", "dag_id"}),
        "id": notice.id,
        "reason": harmless(notice.reason),
        "facts": {harmless(fact.name): harmless(fact.value) for fact in notice.facts},
        "title": title,
        "text": f"{text}\n{end}",
        "links": links,
    }
    return Message(notice.id, title, f"{text}\n{end}", _SEVERITIES[notice.event], data)


def _rendered(template: str, **values: object) -> str:
    return _environment().from_string(template).render(**values).strip()


@cache
def _environment() -> Environment:
    from jinja2 import Environment, StrictUndefined

    return Environment(
        # No HTML is made here: messages are plain text, and are marked as such for receivers.
        autoescape=False,  # noqa: S701
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalized,
    )


def _finalized(value: object) -> str:
    """Return what a template writes of a value; addresses are made here and stay as they are."""
    return value if isinstance(value, _Address) else harmless(value)


class _Address(str):
    """An address that was made of percent-encoded parts."""

    __slots__ = ()

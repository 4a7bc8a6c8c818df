"""The note of a run in Airflow: one sentence on where it stands, or how it ended, beside what people have written.

A note of ours is a paragraph that begins with what it is about, such as `digits 2: `. The next one about the same takes
its place; every other paragraph is a person's, and stays.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slipway_core.record.state import ReleaseState

NOTE_LIMIT = 1000
"""How many characters Airflow keeps of a note."""

_OWN_LIMIT, _SHORTEST = 700, 40
_PARAGRAPH = "\n\n"
_LINK = re.compile(r" \[Page\]\([^)\s]*\)")


def release_note(model: object, version: object, text: str, page: str = "") -> str:
    """Return the note about a release.

    :param text: where it stands, in a sentence.
    :param page: the address of its page; "": none.
    """
    return note_of(f"{model} {version}", text, page)


def note_of(subject: str, text: str, page: str = "") -> str:
    """Return a note: what it is about, then a sentence, on one line."""
    words = " ".join(f"{subject}: {text}".split())
    link = f" [Page]({page})" if page else ""
    return _cut(words, _OWN_LIMIT - len(link)) + link


def started_text(who: str | None, reason: str | None) -> str:
    """Return that a release has begun, in words.

    :param who: the person who started it; None: an event or a sweep did.
    """
    by = who or "an upload"
    return f"release started by {by}{f': {reason}' if reason else ''}"


def outcome_text(state: ReleaseState) -> str:
    """Return how a release ended, in words."""
    by = f" by {state.refused_by}" if state.outcome == "refused" and state.refused_by else ""
    why = "" if state.outcome == "promoted" else state.reason or ""
    return f"{state.outcome.replace('_', ' ')}{by}. {why}".strip()


def merged(before: str | None, note: str) -> str:
    """Return a run's note with `note` added; it replaces the paragraph about the same subject.

    What people have written is never cut. If it leaves too little space, `note` is dropped.
    """
    subject = note.partition(": ")[0]
    others = [
        one for one in (before or "").split(_PARAGRAPH) if one.strip() and not one.startswith(f"{subject}: ")
    ]
    room = NOTE_LIMIT - sum(len(one) + len(_PARAGRAPH) for one in others)
    own = [] if room < min(_SHORTEST, len(note)) else [_cut(note, room)]
    return _PARAGRAPH.join([*own, *others])


def own_words(note: str, asked: str) -> str:
    """Return what a run says of itself, without links.

    :param note: the run's note.
    :param asked: the reason that it was started with, which is a separate paragraph.
    """
    paragraphs = (one for one in note.split(_PARAGRAPH) if one.strip() and one.strip() != asked.strip())
    return _LINK.sub("", _PARAGRAPH.join(paragraphs)).strip()


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"

"""A notice in words: short, plain, and harmless whatever it was made of."""

from __future__ import annotations

import string
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway_core.operations.notices.message import TEXT_LIMIT, TITLE_LIMIT, harmless, message_of
from slipway_core.operations.notices.notice import FACTS_LIMIT, Fact, Notice
from slipway_core.spec.notify import NOTICE_EVENTS, NoticeEvent

AT = datetime(2026, 11, 22, 11, 0, tzinfo=UTC)
LINKS = {
    "Run": "https://airflow.example/dags/model_release/runs/digits-3",
    "Record": "s3://slipway/records/digits/3/",
}
HOSTILE = [
    "<!channel>",
    "<!here|x>",
    "<@U012AB3CD>",
    "@everyone",
    "<at>all</at>",
    "<script>alert(1)</script>",
    "[click](https://evil.example)",
    "[click][1]",
    "`code`",
    "a\r\nSubject: b",
    "\x1b[31mred",
    "\u202edrawkcab",
    "zero\u200bwidth",
    "&lt;!channel&gt;",
    "{{ 7 * 7 }} {% for x in y %}",
    "\ud800",
]


def notice(event: NoticeEvent = "rolled_back", **changed: object) -> Notice:
    """A notice of version 3."""
    said = {"event": event, "model": "digits", "version": 3, "at": AT, "release_id": "digits-3"}
    return Notice.model_validate(said | changed)


@pytest.mark.parametrize("event", NOTICE_EVENTS)
def test_every_event_has_a_title_and_a_meaning(event: NoticeEvent) -> None:
    """The title names the model and its version, the first line says what it means for users."""
    message = message_of(notice(event), LINKS)
    assert message.title.startswith("digits version 3")
    assert message.text.splitlines()[0].endswith(".")
    assert message.text.splitlines()[-1] == f"Notice {message.id}"


def test_a_message_is_reason_numbers_and_links() -> None:
    """Each on a line of its own."""
    told = notice(reason="more errors than stable", facts=(Fact(name="weight", value="20 %"),))
    assert message_of(told, LINKS).text.splitlines() == [
        "It gets no new requests.",
        "Why: more errors than stable",
        "weight: 20 %",
        f"Run: {LINKS['Run']}",
        f"Record: {LINKS['Record']}",
        f"Notice {told.id}",
    ]


def test_what_is_about_no_version_names_the_model_alone() -> None:
    """Drift of a model's input is of no single version."""
    assert message_of(notice("drift_found", version=None)).title == "digits: drift found"


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_text_is_made_harmless(hostile: str) -> None:
    """In the reason, in a fact's name and value, and in the model's name; also in what a program gets."""
    told = notice(model=hostile, reason=hostile, facts=(Fact(name=hostile, value=hostile),))
    message = message_of(told, LINKS)
    for text in (message.title, message.text, str(message.data["facts"]), str(message.data["reason"])):
        for bad in ("<", ">", "@e", "](", "][", "`", "\x1b", "\u202e", "49"):
            assert bad not in text
    assert len(message.text.splitlines()) == 6


@given(st.text(alphabet=st.characters() | st.sampled_from(string.punctuation), max_size=2000))
def test_any_text_becomes_one_plain_line(text: str) -> None:
    """Of at most 300 characters, without control characters and markup."""
    line = harmless(text)
    assert len(line) <= 300
    assert len(line.splitlines()) <= 1
    assert not set("<>`|") & set(line)
    assert "](" not in line


def test_a_message_fits_a_phone_and_keeps_its_links() -> None:
    """Whatever is too long is shortened; the links and the name stay whole."""
    facts = tuple(Fact(name=f"fact {index}", value="v" * 200) for index in range(FACTS_LIMIT))
    told = notice(model="m" * 60, reason="r" * 600, facts=facts)
    message = message_of(told, LINKS)
    assert len(message.title) <= TITLE_LIMIT
    assert len(message.text) <= TEXT_LIMIT
    assert LINKS["Run"] in message.text
    assert message.text.endswith(told.id)


def test_a_rollback_by_hand_that_fails_says_that_nothing_has_changed() -> None:
    """Its version stays live, and is not what was refused."""
    message = message_of(notice("failed", dag_id="model_rollback"), is_rollback_by_hand=True)
    assert message.title == "digits version 3: rollback failed"
    assert message.text.startswith("The live version stays live, unless the reason says otherwise.")

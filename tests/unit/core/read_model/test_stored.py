"""Documents of the read model that others wrote: refused by an error of our own, or read as far as they are known."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipway_core.bucket_layout import live_key, model_view_key, parse_model_view_key
from slipway_core.errors import UserError
from slipway_core.read_model.documents import ModelDocument
from slipway_core.read_model.live import LiveDocument
from slipway_core.read_model.model_fold import ModelContext, model_document, version_line
from tests.support.examples import examples
from tests.support.read_model.histories import at, promoted, record_of

DOCUMENT = model_document(
    "digits",
    [version_line(record_of("digits", 1, promoted("digits", 1, None)))],
    open_now=(),
    context=ModelContext(),
    written_at=at(60),
)
PLAIN: dict[str, Any] = json.loads(DOCUMENT.to_bytes())
LINE = PLAIN["versions"][0]


def read(value: Any) -> ModelDocument:
    """Read what is no document of ours."""
    return ModelDocument.from_bytes(json.dumps(value).encode(), "views/models/digits.json")


@pytest.mark.parametrize(
    "changed",
    [
        {"format": 2},
        {"format": "1.0"},
        {"model": 7},
        {"model": "m" * 51},
        {"written_at": "yesterday"},
        {"written_at": "2026-11-20T12:00:00"},
        {"live_version": -1},
        {"live_version": 2**70},
        {"live_version": float("nan")},
        {"versions": 3},
        {"versions": [LINE, LINE]},
        {"versions": [{**LINE, "version": 1}, {**LINE, "version": 2}]},
        {"versions": [{**LINE, "model": "other"}]},
        {"versions": [{**LINE, "outcome": "splendid"}]},
        {"versions": [{**LINE, "reason": "r" * 1001}]},
        {"versions": [{**LINE, "candidate_requests": -1}]},
        {
            "versions": [
                {**LINE, "gates": [{"stage": "validate", "outcome": "passed", "seconds": float("inf")}]}
            ]
        },
        {"versions": [{**LINE, "gates": [{"stage": "g", "outcome": "passed"}] * 101}]},
        {"freezes": [{}]},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_what_cannot_be_a_document_is_refused(changed: dict[str, Any]) -> None:
    """Wrong types, numbers that are none, absurd sizes and unknown formats are errors of our own."""
    with pytest.raises(UserError, match="is not a valid document of a model"):
        read({**PLAIN, **changed})


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[" * 100_000, b"null", b"\xff\xfe", b'{"format": 1}', b" " * (17 << 20)], ids=len
)
def test_what_is_no_json_is_refused(content: bytes) -> None:
    """Bytes of any kind, and more of them than a document has."""
    with pytest.raises(UserError, match="is not a valid document of a model"):
        ModelDocument.from_bytes(content, "it")


def test_a_field_of_a_later_version_is_ignored() -> None:
    """Within a format only additions are made."""
    assert read({**PLAIN, "later": 1, "versions": [{**LINE, "later": {}}]}) == DOCUMENT


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@settings(max_examples=examples(75), deadline=None)
@given(st.sampled_from(sorted(PLAIN)), st.sampled_from(sorted(LINE)), JSON, st.booleans())
def test_any_value_in_any_place_is_read_or_refused(field: str, of_line: str, value: Any, deep: bool) -> None:
    """No value raises anything but our own error."""
    changed = {**PLAIN, "versions": [{**LINE, of_line: value}]} if deep else {**PLAIN, field: value}
    for kind in (ModelDocument, LiveDocument):
        with contextlib.suppress(UserError):
            kind.from_bytes(json.dumps(changed).encode(), "it").to_bytes()


def test_keys_lead_to_models_and_back() -> None:
    """Where a model's documents lie, and which model's document lies under a key."""
    assert model_view_key("digits") == "views/models/digits.json"
    assert live_key("digits") == "live/digits.json"
    assert parse_model_view_key("views/models/digits.json") == "digits"
    for stray in (
        "views/models/a/b.json",
        "views/models/_all.json",
        "views/models/x.txt",
        "live/digits.json",
    ):
        assert parse_model_view_key(stray) is None

"""Runs' ids as folders: each id has a folder of its own, in its place."""

from __future__ import annotations

import re
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipway_core.bucket_layout import evidence_prefix
from slipway_core.identifiers import run_folder
from slipway_core.operations.layout import audit_key, gc_prefix, revalidation_prefix
from tests.support.examples import examples

LOOK_ALIKE = [
    *(
        "digits-3",
        "digits:3",
        "digits+3",
        "digits~3",
        "digits~7e3",
        "digits~~3",
        "digits/3",
        "digits 3",
        "digits%3",
    ),
    *(".", "..", "...", "~2e", "-3", "~2d3", "a..b", "a.~2eb", "", "~", "ä", "a\u0308", "DIGITS-3"),
    *("x" * 250, "x" * 251, ":" * 250, ":" * 249, ":" * 249 + "+"),
]
IDS = st.text(st.sampled_from("ab.:+~-_/2e7 ä"), max_size=300)


@pytest.mark.parametrize(("one", "other"), list(combinations(LOOK_ALIKE, 2)), ids=lambda one: ascii(one)[:24])
def test_ids_that_look_alike_have_folders_of_their_own(one: str, other: str) -> None:
    """In evidence, in what later checks leave, and in the audit."""
    assert evidence_prefix("digits", 3, one) != evidence_prefix("digits", 3, other)
    assert gc_prefix(one) != gc_prefix(other)
    assert revalidation_prefix(one) != revalidation_prefix(other)
    assert audit_key("digits", 3, one, "pinned") != audit_key("digits", 3, other, "pinned")


@given(one=IDS, other=IDS)
@settings(max_examples=examples(100))
def test_no_two_ids_share_a_folder(one: str, other: str) -> None:
    """A folder is one name of plain characters, neither hidden nor the one above; another id has another one."""
    folder = run_folder(one)
    assert re.fullmatch(r"[A-Za-z0-9_~][A-Za-z0-9._~-]{0,399}", folder)
    assert ".." not in folder
    assert (folder == run_folder(other)) == (one == other)


def test_a_plain_id_is_its_own_folder() -> None:
    """People find it by the name that Airflow shows."""
    for plain in ("digits-3", "manual__1", "tuning-run_2.1"):
        assert run_folder(plain) == plain

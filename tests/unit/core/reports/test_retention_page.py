"""The page of retention: whole, without anything that runs, and with every reason on it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from slipway_core.operations.gc_run import ModelResult, RunPlan, VersionResult
from slipway_core.operations.retention import Action, ModelPlan, VersionPlan
from slipway_core.reports.retention_page import render_retention_html, size_text
from tests.support.reports.html import parse_page

AT = datetime(2026, 11, 22, 3, tzinfo=UTC)
HOSTILE = "<script>alert(1)</script>"


def version(number: int, action: Action, reason: str) -> VersionPlan:
    return VersionPlan(version=number, action=action, reasons=(reason,), objects=2, size_bytes=3 * 2**30)


PLAN = ModelPlan(
    model="digits",
    looked_at=AT,
    keep_promoted=5,
    keep_days=30,
    versions=(
        version(1, "deleted", "long ago"),
        version(2, "delete", "older than 30 days"),
        version(3, "delete", "its deletion was begun"),
        version(4, "keep", f"pinned by mallory: {HOSTILE}"),
    ),
)


def run(*, dry_run: bool = False, not_planned: tuple[str, ...] = ()) -> RunPlan:
    digests = {"digits": "a" * 64}
    return RunPlan(
        run=HOSTILE, started_by="alice", dry_run=dry_run, at=AT, plans=digests, not_planned=not_planned
    )


def text(html: str) -> str:
    """What the page says; it has no element that runs or loads anything."""
    page = parse_page(html.replace("<!doctype html>", ""))
    assert "script" not in page.tags
    assert page.tags.isdisjoint({"img", "link", "iframe"})
    return " ".join(" ".join(page.text).split())


def test_before_the_deletion_it_says_what_goes() -> None:
    """With the bytes, each reason, and what stays; what people have written is only text."""
    told = text(render_retention_html(run(), [PLAN], {}, is_over=False))
    for words in (
        "6.0 GiB",
        "older than 30 days",
        f"pinned by mallory: {HOSTILE}",
        "started by alice",
        "deletes",
    ):
        assert words in told
    assert "1 were deleted before" in told


def test_a_dry_run_says_so() -> None:
    """On top; and what nobody looked at is named."""
    told = text(render_retention_html(run(dry_run=True, not_planned=("churn",)), [PLAN], {}, is_over=True))
    assert "dry run: nothing is deleted" in told
    assert "churn: the planning task failed" in told
    assert "not finished" not in told


def test_at_the_end_it_says_what_became_of_each() -> None:
    """Deleted, kept after all, or not finished."""
    result = ModelResult(
        model="digits",
        versions=(VersionResult(version=2, outcome="kept", why="the InferenceService a/b names it"),),
    )
    told = text(render_retention_html(run(), [PLAN], {"digits": result}, is_over=True))
    assert "kept: the InferenceService a/b names it" in told
    assert "not finished: the next run continues" in told


def test_what_could_not_be_read_is_told() -> None:
    """With the reason."""
    plan = PLAN.model_copy(update={"versions": (), "unreadable": "the cluster does not answer"})
    told = text(render_retention_html(run(), [plan], {}, is_over=False))
    assert "what is in use is unknown: the cluster does not answer" in told


@pytest.mark.parametrize(
    ("size_bytes", "expected"),
    [(0, "0 bytes"), (1023, "1023 bytes"), (1536, "1.5 KiB"), (2**40 * 5000, "5000.0 TiB")],
)
def test_sizes_are_told_as_people_read_them(size_bytes: int, expected: str) -> None:
    """With the unit that fits."""
    assert size_text(size_bytes) == expected

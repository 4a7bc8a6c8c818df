"""The overview's lines: what waits for a person comes first, and a search finds what it says."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from slipway.web.pages.overview_lines import OverviewLine, chosen, overview_lines
from slipway_core.read_model.documents import (
    FindingLine,
    FreezeLine,
    ModelDocument,
    OpenRelease,
    Unreadable,
    VersionLine,
)
from slipway_core.read_model.live import LiveDocument

NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)


def document(model: str, **more: object) -> ModelDocument:
    """A model of which nothing is under way, unless it is told."""
    return ModelDocument.model_validate({"model": model, "written_at": NOW, **more})


def flight(**more: object) -> OpenRelease:
    return OpenRelease.model_validate(
        {"version": 2, "release_id": "a-2", "stage": "canary", "step": 1, **more}
    )


def lines(*models: ModelDocument | Unreadable, everywhere: tuple[FreezeLine, ...] = ()) -> list[OverviewLine]:
    return overview_lines({one.model: one for one in models}, {}, everywhere, NOW)


def test_what_needs_a_person_comes_first_then_what_moves_then_what_is_amiss() -> None:
    """And the rest by name."""
    found = lines(
        document("quiet-b"),
        document("quiet-a"),
        document("drifts", findings=(FindingLine(name="1-inputs", check="inputs", summary="PSI"),)),
        document("moves", open_release=flight()),
        document("asks", open_release=flight(waits_for_approval="canary")),
        Unreadable("broken", "its record has a gap"),
    )
    assert [one.model for one in found] == ["asks", "moves", "broken", "drifts", "quiet-a", "quiet-b"]


def test_a_pause_a_hold_and_a_question_need_a_person() -> None:
    """Each with its reason."""
    release = flight(paused="lunch", held="a freeze", waits_for_approval="promotion")
    needs = lines(document("a", open_release=release))[0].needs
    assert [one.kind for one in needs] == ["approval", "pause", "hold"]
    assert [one.reason for one in needs] == [
        "waits for approval before the promotion",
        "paused: lunch",
        "held: a freeze",
    ]


def test_a_live_document_of_another_release_is_not_shown() -> None:
    """It is what the watch of an earlier canary left."""
    one = document("a", open_release=flight())
    for release_id, is_shown in (("a-2", True), ("a-1", False)):
        live = LiveDocument(model="a", version=2, release_id=release_id, written_at=NOW)
        assert (overview_lines({"a": one}, {"a": live}, (), NOW)[0].live is not None) == is_shown


def test_a_freeze_that_has_ended_is_not_shown() -> None:
    """Neither a model's own, nor one of every model."""

    def freeze(hours: float) -> FreezeLine:
        return FreezeLine(
            by="ops", at=NOW - timedelta(days=1), until=NOW + timedelta(hours=hours), reason="why"
        )

    one = document("a", freezes=(freeze(1), freeze(-1)))
    assert lines(one, everywhere=(freeze(2), freeze(-2)))[0].freezes == (freeze(1), freeze(2))


def test_a_search_finds_every_word_and_counts_what_it_found() -> None:
    """A choice shows its own lines; the counts are those of the search."""
    bad = VersionLine(model="fraud-score", version=1, release_id="x", outcome="refused", finished_at=NOW)
    all_of_them = lines(
        document("fraud-score", last=bad), document("fraud-rules"), document("churn", open_release=flight())
    )
    found = chosen(all_of_them, "  FRAUD   score ", "all")
    assert [one.model for one in found.lines] == ["fraud-score"]
    assert (found.counts["all"], found.counts["went_badly"], found.counts["in_flight"]) == (1, 1, 0)
    assert [one.model for one in chosen(all_of_them, "", "in_flight").lines] == ["churn"]
    assert chosen(all_of_them, "nothing like it", "all").lines == ()

"""The tab of a run: which page it leads to."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from slipway.web.pages.runs import place_of
from slipway_core.read_model.documents import ModelDocument, Unreadable, VersionLine

NOW = datetime(2026, 11, 22, tzinfo=UTC)
MODELS = {
    "digits": ModelDocument(
        model="digits",
        written_at=NOW,
        versions=(VersionLine(model="digits", version=3, release_id="manual__2026"),),
    ),
    "digits-big": ModelDocument(model="digits-big", written_at=NOW),
    "lost": Unreadable("lost", "why"),
}


@pytest.mark.parametrize(
    ("run_id", "place"),
    [
        ("manual__2026", "/models/digits/versions/3"),
        ("digits-3-2", "/models/digits/versions/3"),
        ("digits-9", "/models/digits"),
        ("digits-rollback-to-3", "/models/digits"),
        ("digits-big-1", "/models/digits-big"),
        ("lost-1", "/models/lost/versions/1"),
        ("lost-rollback", "/models/lost"),
        ("scheduled__2026", None),
        ("digitsx-3", None),
    ],
)
def test_a_run_leads_to_its_release_or_its_model(run_id: str, place: str | None) -> None:
    """By the record where it names the run, else by the run's name."""
    assert place_of(MODELS, run_id) == place

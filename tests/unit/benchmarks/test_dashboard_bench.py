"""What `dashboard_p95_ms` is measured on: documents that the real fold has made, and a percentile that is one."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from benchmarks.dashboard.measure import percentile
from benchmarks.dashboard.store import UNDER_WAY, model_name, seeded
from slipway_core.bucket_layout import live_key, model_view_key
from slipway_core.read_model.documents import ModelDocument
from slipway_core.read_model.live import LiveDocument

NOW = datetime(2026, 11, 22, tzinfo=UTC)


def test_the_store_holds_what_releases_leave() -> None:
    """Versions that were promoted and rolled back, one model with a release under way, and all its events."""
    objects, names = seeded(2, 6, NOW)
    first = ModelDocument.from_bytes(objects[model_view_key(model_name(0))], "it")
    other = ModelDocument.from_bytes(objects[model_view_key(model_name(1))], "it")
    assert [line.outcome for line in first.versions] == ["open", "rolled_back", *["promoted"] * 4]
    assert first.open_release is not None
    assert (first.open_release.step, first.live_version, first.previous_version) == (2, 4, 3)
    assert other.open_release is None
    assert UNDER_WAY > 1
    live = LiveDocument.from_bytes(objects[live_key(model_name(0))], "it")
    assert live.release_id == first.open_release.release_id
    read = {name for name in objects if name.startswith("records/")}
    assert read == {name for name in names if name.startswith(f"records/{model_name(0)}/6/")}


@pytest.mark.parametrize(("share", "expected"), [(0.95, 95), (0.5, 50), (1.0, 100), (0.001, 1)])
def test_a_percentile_is_a_value_that_was_measured(share: float, expected: int) -> None:
    """The smallest one that so large a share of the values does not exceed."""
    assert percentile(list(range(100, 0, -1)), share) == expected

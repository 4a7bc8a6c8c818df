"""The figure of the intake at a tiny size, and the listing by which its server bears the true one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.intake import measure
from benchmarks.sorted_store import page_of

_NAMES = st.lists(st.text("ab/", min_size=1, max_size=6), max_size=12, unique=True).map(sorted)
_PREFIXES = st.sampled_from(["", "a", "a/", "a/b", "b/"])


@given(_NAMES, _PREFIXES, st.sampled_from(["", "/"]), st.integers(1, 4))
def test_pages_add_up_to_what_lies_below(names: list[str], prefix: str, delimiter: str, limit: int) -> None:
    """Page after page, what lies below a prefix comes out once and in order: objects, and folders in their place."""
    below = [name for name in names if name.startswith(prefix)]
    cut = {name: name.find("/", len(prefix)) if delimiter else -1 for name in below}
    expected = list(dict.fromkeys(name if cut[name] < 0 else name[: cut[name] + 1] for name in below))
    listed: list[str] = []
    is_cut = True
    while is_cut:
        page, is_cut = page_of(names, prefix, delimiter, listed[-1] if listed else "", limit)
        assert len(page) <= limit
        listed += page
    assert listed == expected


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_requests_of_a_sweep_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """The figure counts the requests of a sweep, and tells its seconds and what an event costs."""
    for name, value in (("MODELS", 4), ("VERSIONS", 3), ("EVENTS", 5)):
        monkeypatch.setattr(measure, name, value)
    figure = measure.measure()
    assert (figure.name, figure.unit, figure.value) == (
        "intake_requests_per_sweep",
        "requests",
        1 + 2 * 4 + 4,
    )
    assert "12 LIST and 1 GET in " in figure.note
    assert "an event: 6 in " in figure.note

"""docs/emulator-differences.md shows the known differences, all of them and no others."""

from __future__ import annotations

from tests.support.cluster.questions.differences_page import PAGE, tables, with_tables


def test_the_page_shows_the_known_differences() -> None:
    """Its tables are those that `python -m tests.support.cluster.questions.differences_page` writes."""
    page = PAGE.read_text(encoding="utf-8")
    assert page == with_tables(page)
    assert all(table in page for table in tables().values())

"""No page has a phrase that docs/style.md bans; the first table of that page lists them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STYLE = ROOT / "docs" / "style.md"
# Programs write the first two from texts of the code; the changelog's sections stay as they were released; the page of
# style quotes each phrase.
EXEMPT = {ROOT / "docs" / "cli.md", ROOT / "docs" / "judge-table.md", ROOT / "CHANGELOG.md", STYLE}
PAGES = sorted(
    {
        *ROOT.glob("*.md"),
        *(
            page
            for folder in ("docs", "include", "plugins", "examples", "tests", "changes")
            for page in (ROOT / folder).rglob("*.md")
        ),
    }
    - EXEMPT
)
CODE = re.compile(r"```.*?```|`[^`]+`|^ {4,}\S[^\n]*$", re.DOTALL | re.MULTILINE)


def banned() -> list[str]:
    """The phrases in the first column of the table between the markers, without its head."""
    table = STYLE.read_text(encoding="utf-8").partition("<!-- banned -->")[2].partition("<!-- end of")[0]
    cells = re.findall(r"^\| ([^|]+?) \|", table, re.MULTILINE)[1:]
    return [phrase for cell in cells for phrase in cell.split(", ")]


PHRASES = banned()


def found_in(text: str) -> list[str]:
    """The banned phrases of a page, outside its code, also where a line ends within one."""
    prose = " ".join(CODE.sub(" ", text).lower().split())
    return [phrase for phrase in PHRASES if re.search(rf"\b{re.escape(phrase)}\b", prose)]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_page_has_a_banned_phrase(page: Path) -> None:
    """docs/style.md has a better one for each of them."""
    assert found_in(page.read_text(encoding="utf-8")) == []


def test_the_check_finds_a_phrase() -> None:
    """The check can fail: over the end of a line too, and not in code or within a longer word."""
    assert len(PHRASES) > 20
    assert found_in("A rollback needs\nit not.") == ["needs it not"]
    assert found_in("For everybody: `needs it not`") == []

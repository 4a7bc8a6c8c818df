"""Words: no page has a phrase that docs/style.md bans, and no name in the code has a word that says nothing."""

from __future__ import annotations

import ast
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
# Not for a text: "reason", "summary", "message", "label", "description" or "sentence" says which text it is.
VAGUE = frozenset({"told"})
WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")


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


def names(source: str) -> set[str]:
    """Every name in a Python source: variables, attributes, parameters, keywords, functions, classes and imports."""
    fields = ("id", "attr", "arg", "name", "asname")
    found = (getattr(node, field, None) for node in ast.walk(ast.parse(source)) for field in fields)
    return {name for name in found if isinstance(name, str)}


def vague(source: str) -> list[str]:
    """The names in a source that have a vague word as one of their parts."""
    return sorted(name for name in names(source) if VAGUE & {word.lower() for word in WORD.findall(name)})


@pytest.mark.parametrize("tree", ["include", "plugins", "dags", "benchmarks"])
def test_no_name_is_vague(tree: str) -> None:
    """A name says which text it holds."""
    sources = sorted((ROOT / tree).rglob("*.py"))
    found = {str(path.relative_to(ROOT)): vague(path.read_text(encoding="utf-8")) for path in sources}
    assert {path: names for path, names in found.items() if names} == {}


def test_the_check_finds_a_vague_name() -> None:
    """As a field, an argument, a class, a function or an attribute, and as a part of a longer name."""
    assert vague("class Told:\n    told: str = ''") == ["Told", "told"]
    assert vague("def _told_of(x, *, is_told): return x.TOLD_S(told=1)") == [
        "TOLD_S",
        "_told_of",
        "is_told",
        "told",
    ]
    assert vague("stolder = 'told'") == []

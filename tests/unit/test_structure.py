"""How the repository is kept: small files and folders, described packages, and which of them may import tests."""

from __future__ import annotations

import ast
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MOST_LINES_OF_A_FILE = 400
MOST_FILES_OF_A_FOLDER = 20
# Programs that tests hand to another interpreter are text, so text is searched too.
IMPORT_OF_A_TEST = re.compile(
    r"^[\s\"']*(?:from|import)\s+tests\.(?:\w+\.)*(?:test_\w+|conftest)", re.MULTILINE
)


@cache
def sources() -> tuple[Path, ...]:
    """Return every Python file of the repository, also a new one that git does not know yet."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.py"]
    found = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return tuple(path for name in sorted(set(found.split("\0"))) if name and (path := ROOT / name).is_file())


def named(path: Path) -> str:
    """Return a path as it is seen from the root."""
    return path.relative_to(ROOT).as_posix()


def imported(path: Path) -> Iterator[str]:
    """Yield the dotted names that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module or ''}.{alias.name}" for alias in node.names)


def is_test_module(name: str) -> bool:
    """Return whether a dotted name goes through a module that holds tests, or fixtures of one folder of them."""
    return name.startswith("tests.") and any(
        part.startswith("test_") or part == "conftest" for part in name.split(".")[1:-1]
    )


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("tests.unit.test_docs.ROOT", True),
        ("tests.unit.plugins.conftest.LeaseDouble", True),
        ("tests.support.store.manifests.test_value", False),
        ("slipway_core.gates.test_values.limit", False),
    ],
)
def test_a_test_module_is_known_by_its_name(name: str, expected: bool) -> None:
    """A name that is only called test_… is no module of tests."""
    assert is_test_module(name) is expected


def test_no_test_module_imports_another() -> None:
    """What two test modules share lies in tests/support, or is a fixture that pytest hands over."""
    found = {
        f"{named(path)} imports {name}"
        for path in sources()
        if named(path).startswith("tests/")
        for name in imported(path)
        if is_test_module(name)
    }
    found |= {
        f"{named(path)} runs a program that begins: {match.group().strip()}"
        for path in sources()
        if named(path).startswith("tests/")
        for match in IMPORT_OF_A_TEST.finditer(path.read_text(encoding="utf-8"))
    }
    assert found == set()


def test_nothing_but_tests_imports_tests() -> None:
    """The product, the sandbox and the benchmarks run where no test was delivered."""
    found = {
        f"{named(path)} imports {name}"
        for path in sources()
        if not named(path).startswith("tests/")
        for name in imported(path)
        if name.split(".")[0] == "tests"
    }
    assert found == set()


def test_no_file_is_longer_than_a_reader_can_hold() -> None:
    """A file is one idea."""
    lengths = {named(path): len(path.read_text(encoding="utf-8").splitlines()) for path in sources()}
    assert {name: lines for name, lines in lengths.items() if lines > MOST_LINES_OF_A_FILE} == {}


def test_no_folder_holds_more_files_than_a_reader_can_hold() -> None:
    """A folder is one package."""
    files = Counter(named(path.parent) for path in sources())
    assert {folder: count for folder, count in files.items() if count > MOST_FILES_OF_A_FOLDER} == {}


def test_every_package_says_what_it_is_for() -> None:
    """The `__init__` of a package has a docstring."""
    packages = [path for path in sources() if path.name == "__init__.py"]
    assert packages
    assert [
        named(path) for path in packages if not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    ] == []

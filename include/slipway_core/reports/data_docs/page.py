"""Pages of Data Docs: the list of what was checked, and the library's own pages in a frame of ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from slipway_core.reports.data_docs.sanitized import sanitized
from slipway_core.reports.html_page import render_page

FOLDER = "great_expectations/"
INDEX_FILE = "index.html"
INDEX = f"{FOLDER}{INDEX_FILE}"
CHECKPOINTS = f"{FOLDER}checkpoints.json"
ABOUT = {
    "golden": "The golden set itself",
    "answers": "What the release file expects of the answers",
    "validation": "What the gate asks of the answers",
}
"""By table: what its suite is about."""

Table = Literal["golden", "answers", "validation"]


@dataclass(frozen=True)
class TableFiles:
    """The names of a table's files, below the folder."""

    result: str
    result_page: str
    suite: str
    suite_page: str

    @classmethod
    def of(cls, table: Table) -> TableFiles:
        """Return them."""
        return cls(f"{table}.json", f"{table}.html", f"{table}_suite.json", f"{table}_suite.html")


@dataclass(frozen=True)
class TableResult:
    """What the list says of one table.

    :ivar name: of validation definition, checkpoint and suite.
    :ivar document: the library's own result.
    """

    table: Table
    name: str
    document: Mapping[str, Any]


def library_path(name: str) -> str:
    """Return where a suite's page lies in the library's own site."""
    return f"expectations/{name.replace('.', '/')}.html"


def render_library_page(page: str, table: Table, name: str, *, of: Literal["result", "suite"]) -> str:
    """Return the library's page of a result or a suite as one file that loads nothing.

    :param page: as the library makes it.
    :param name: of the suite.
    """
    from markupsafe import Markup

    files = TableFiles.of(table)
    links = {library_path(name): files.suite_page, INDEX_FILE: INDEX_FILE}
    return render_page(
        "data_docs/library.html.j2",
        name=name,
        kind="validation result" if of == "result" else "expectation suite",
        source=files.result if of == "result" else files.suite,
        index=INDEX_FILE,
        body=Markup(sanitized(page, links)),  # noqa: S704  it has been taken over element by element
    )


def render_index(model: str, version: int, results: Sequence[TableResult]) -> str:
    """Return the list of what was checked, with links; the library's own is made by a script in the browser."""
    rows = [
        {
            "name": one.name,
            "about": ABOUT[one.table],
            "files": TableFiles.of(one.table),
            "met": bool(one.document.get("success")),
            "statistics": one.document.get("statistics") or {},
            "run_id": (one.document.get("meta") or {}).get("run_id") or {},
            "library": (one.document.get("meta") or {}).get("great_expectations_version", ""),
        }
        for one in results
    ]
    return render_page("data_docs/index.html.j2", model=model, version=version, rows=rows)

"""Data Docs, rendered by great-expectations from its own results, and made into pages of evidence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from slipway.quality.checkpoints import SuiteRun
from slipway_core.errors import SlipwayError
from slipway_core.reports.data_docs.page import (
    INDEX_FILE,
    Table,
    TableFiles,
    TableResult,
    render_index,
    render_library_page,
)

PAGE_LIMIT_BYTES = 8 << 20
# The library writes names of columns and values into its pages as they are, or escapes them twice.
_SHOWN = str.maketrans({"<": "‹", ">": "›"})
_TEXT_LIMIT = 300


def data_docs(model: str, version: int, runs: Sequence[tuple[Table, SuiteRun]]) -> dict[str, str]:
    """Return the pages by their name: the list, and of each table the result's and the suite's.

    :raises SlipwayError: a page is larger than a page of evidence may be.
    """
    pages = {}
    for table, run in runs:
        files = TableFiles.of(table)
        pages[files.result_page] = render_library_page(_result_page(run), table, run.name, of="result")
        pages[files.suite_page] = render_library_page(_suite_page(run), table, run.name, of="suite")
    results = [TableResult(table, run.name, run.document) for table, run in runs]
    pages[INDEX_FILE] = render_index(model, version, results)
    for name, page in pages.items():
        if len(page.encode()) > PAGE_LIMIT_BYTES:
            raise SlipwayError(
                f"the page {name} of Data Docs is too large",
                expected=f"at most {PAGE_LIMIT_BYTES >> 20} MiB",
                found=f"{len(page.encode())} bytes",
                remedy="Use fewer expectations; the library's results are in the same folder as JSON.",
            )
    return pages


def _result_page(run: SuiteRun) -> str:
    from great_expectations.core.expectation_validation_result import ExpectationSuiteValidationResultSchema
    from great_expectations.render.renderer.page_renderer import ValidationResultsPageRenderer
    from great_expectations.render.view.view import DefaultJinjaPageView

    document = _shown(run.document)
    for one in document["results"]:
        # Of a column's distinct values the library reports no share, and cannot render the count without.
        if "unexpected_count" in one["result"] and "unexpected_percent" not in one["result"]:
            one["result"]["unexpected_count"] = 0
    content = ValidationResultsPageRenderer().render(ExpectationSuiteValidationResultSchema().load(document))
    return str(DefaultJinjaPageView().render(content, show_how_to_buttons=False))


def _suite_page(run: SuiteRun) -> str:
    import great_expectations as gx
    from great_expectations.render.renderer.page_renderer import ExpectationSuitePageRenderer
    from great_expectations.render.view.view import DefaultJinjaPageView

    content = ExpectationSuitePageRenderer().render(gx.ExpectationSuite(**_shown(run.suite)))
    return str(DefaultJinjaPageView().render(content))


def _shown(value: Any) -> Any:
    """Return a JSON value whose texts hold no markup, and are no longer than a reader looks at."""
    if isinstance(value, dict):
        return {_shown(key): _shown(below) for key, below in value.items()}
    if isinstance(value, list):
        return [_shown(one) for one in value]
    if not isinstance(value, str):
        return value
    cut = value if len(value) <= _TEXT_LIMIT else f"{value[: _TEXT_LIMIT - 1]}…"
    return cut.translate(_SHOWN)

"""The suites of a validation, run: of the golden set itself, of the answers' table, and the gate's own.

What great-expectations leaves of them lies in one folder below the release's evidence: its results and suites as it
writes them, its validation definitions and checkpoints, and its Data Docs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slipway.quality.checkpoints import SuiteRun, object_name, run_suite
from slipway.quality.data_docs import data_docs
from slipway_core.gates.validation.golden_set import GoldenSet
from slipway_core.gates.validation.quality.golden_table import default_golden_suite, golden_table
from slipway_core.gates.validation.quality.suites import SuiteResult
from slipway_core.gates.validation.scores import ValidationScores
from slipway_core.reports.data_docs.page import CHECKPOINTS, FOLDER, INDEX, Table, TableFiles
from slipway_core.spec.release_file import ReleaseSpec

if TYPE_CHECKING:
    import pandas as pd

Keep = Callable[[str, Mapping[str, Any] | str], None]
"""Writes a JSON document or a page, by its name below the release's evidence."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SuitesRun:
    """All suites as they went.

    :ivar suites: of the golden set, and of the answers where the release file expects something of them.
    :ivar expectations: the results of what the gate itself asks.
    :ivar data_docs: where the library's pages begin, below the release's evidence; "": there are none.
    """

    suites: tuple[SuiteResult, ...]
    expectations: list[dict[str, Any]]
    data_docs: str


def run_suites(
    golden: GoldenSet,
    numbers: ValidationScores,
    spec: ReleaseSpec,
    latency_ms: tuple[Sequence[float], Sequence[float]],
    release: tuple[int, str],
    keep: Keep,
) -> SuitesRun:
    """Run every suite, and keep what the library leaves of them as evidence.

    :param latency_ms: by golden row, the candidate's and the stable version's; empty where it was not measured.
    :param release: the version, and the release's id.
    """
    import pandas as pd  # a second, which only the task that validates shall pay

    version, release_id = release

    def run(table: Table, frame: pd.DataFrame, asked: Sequence[Mapping[str, Any]]) -> SuiteRun:
        found = run_suite(frame, asked, object_name(spec.model, table), release_id)
        runs.append((table, found))
        return found

    runs: list[tuple[Table, SuiteRun]] = []
    columns = golden_table(golden)
    asked = [*default_golden_suite(columns, spec.validation), *_items(spec.expectations_of_golden())]
    ran = run("golden", pd.DataFrame(columns), asked)
    suites = [SuiteResult("golden", golden.rows, ran.results, _document("golden"))]
    if expected := _items(spec.expectations_of_answers()):
        table = _answers_table(numbers, *latency_ms)
        ran = run("answers", pd.DataFrame(table), expected)
        suites.append(SuiteResult("answers", numbers.rows, ran.results, _document("answers"), table))
    ran = run("validation", pd.DataFrame(numbers.columns), numbers.suite())
    _keep_objects(runs, keep)
    return SuitesRun(tuple(suites), ran.results, _keep_data_docs(spec.model, version, runs, keep))


def _items(expectations: Sequence[Any]) -> list[dict[str, Any]]:
    return [one.as_item() for one in expectations]


def _document(table: Table) -> str:
    return f"{FOLDER}{TableFiles.of(table).result}"


def _answers_table(
    numbers: ValidationScores, latency_ms: Sequence[float], stable_latency_ms: Sequence[float]
) -> dict[str, Sequence[Any]]:
    table: dict[str, Sequence[Any]] = dict(numbers.columns)
    for name, values in (("latency_ms", latency_ms), ("stable_latency_ms", stable_latency_ms)):
        if len(values) == numbers.rows and all(len(column) == len(values) for column in table.values()):
            table[name] = list(values)
    return table


def _keep_objects(runs: Sequence[tuple[Table, SuiteRun]], keep: Keep) -> None:
    """Keep the library's own results, suites, validation definitions and checkpoints."""
    for table, run in runs:
        files = TableFiles.of(table)
        keep(f"{FOLDER}{files.result}", run.document)
        keep(f"{FOLDER}{files.suite}", run.suite)
    keep(
        CHECKPOINTS,
        {
            "checkpoints": [run.checkpoint for _, run in runs],
            "validation_definitions": [run.validation_definition for _, run in runs],
        },
    )


def _keep_data_docs(model: str, version: int, runs: Sequence[tuple[Table, SuiteRun]], keep: Keep) -> str:
    """Keep the pages; a page that the library cannot render decides nothing about the model, and is reported."""
    try:  # whatever the library's renderers raise
        pages = data_docs(model, version, runs)
    except Exception as error:
        log.warning("great-expectations could not render its Data Docs: %s", error)
        return ""
    for name, page in pages.items():
        keep(f"{FOLDER}{name}", page)
    return INDEX

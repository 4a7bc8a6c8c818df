"""The suites of a validation, run: of the golden set itself, and of the answers' table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from include.model_release.gates.validation.golden_set import GoldenSet
from include.model_release.gates.validation.quality.golden_table import default_golden_suite, golden_table
from include.model_release.gates.validation.quality.suites import SuiteResult
from include.model_release.gates.validation.scores import ValidationScores
from include.model_release.spec.release_file import ReleaseSpec
from slipway.quality import run_suite

Keep = Callable[[str, Mapping[str, Any]], None]
GOLDEN_DOCUMENT = "great_expectations/golden.json"
ANSWERS_DOCUMENT = "great_expectations/answers.json"


def check_golden_set(golden: GoldenSet, spec: ReleaseSpec, keep: Keep) -> SuiteResult:
    """Run the golden set's suite, the default's expectations first, and keep the library's result as evidence.

    :param keep: writes a JSON document below the release's evidence.
    """
    import pandas as pd  # a second, which only the task that validates shall pay

    table = golden_table(golden)
    asked = [
        *default_golden_suite(table, spec.validation),
        *(one.as_item() for one in spec.expectations_of_golden()),
    ]
    run = run_suite(pd.DataFrame(table), asked, f"{spec.model}-golden")
    keep(GOLDEN_DOCUMENT, run.document)
    return SuiteResult("golden", golden.rows, run.results, GOLDEN_DOCUMENT)


def check_answers(
    numbers: ValidationScores,
    spec: ReleaseSpec,
    latency_ms: Sequence[float],
    stable_latency_ms: Sequence[float],
    keep: Keep,
) -> SuiteResult | None:
    """Run what the release file expects of the answers' table; None where it expects nothing.

    :param latency_ms: the candidate's by row; empty where it was not measured, as the stable version's.
    """
    import pandas as pd

    asked = [one.as_item() for one in spec.expectations_of_answers()]
    if not asked:
        return None
    table = dict(numbers.columns)
    for name, values in (("latency_ms", latency_ms), ("stable_latency_ms", stable_latency_ms)):
        if len(values) == numbers.rows and all(len(column) == len(values) for column in table.values()):
            table[name] = list(values)
    run = run_suite(pd.DataFrame(table), asked, f"{spec.model}-answers")
    keep(ANSWERS_DOCUMENT, run.document)
    return SuiteResult("answers", numbers.rows, run.results, ANSWERS_DOCUMENT, table)

"""Tables checked by great-expectations: a validation definition and a checkpoint for each, under stable names.

What a suite asks is named by the domain, or added by the release file. The context is in memory: nothing is sent
anywhere, and nothing is written, neither where the task runs nor in a home folder.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from slipway.quality.plain import document, plain_result
from slipway_core.errors import SlipwayError

if TYPE_CHECKING:
    import pandas as pd
    from great_expectations.data_context.data_context.abstract_data_context import AbstractDataContext

_SOURCE = "slipway"
_ROWS = "all_rows"
_PLACES_SHOWN = 40


@dataclass(frozen=True)
class SuiteRun:
    """One suite as it went.

    :ivar name: of validation definition, checkpoint and suite, such as `slipway.digits.golden`.
    :ivar results: one for each expectation, as `plain_result` returns it.
    :ivar document: the library's own result of all, as JSON.
    :ivar suite: the suite as the library writes it to JSON, and reads it.
    :ivar validation_definition: as the library keeps it in its store.
    :ivar checkpoint: likewise.
    """

    name: str
    results: list[dict[str, Any]]
    document: dict[str, Any]
    suite: dict[str, Any]
    validation_definition: dict[str, Any]
    checkpoint: dict[str, Any]


def object_name(model: str, table: str) -> str:
    """Return what validation definition, checkpoint and suite of one of a model's tables are called."""
    return f"{_SOURCE}.{model}.{table}"


def run_expectations(
    frame: pd.DataFrame, expectations: Sequence[Mapping[str, Any]], name: str
) -> list[dict[str, Any]]:
    """Return what became of each expectation, as `run_suite` returns it."""
    return run_suite(frame, expectations, name).results


def run_suite(
    frame: pd.DataFrame,
    expectations: Sequence[Mapping[str, Any]],
    name: str,
    run_name: str | None = None,
) -> SuiteRun:
    """Run the checkpoint of a table.

    An expectation that cannot be evaluated, such as of a column that is not there, is not met.

    :param expectations: ``{"type": …, "kwargs": …, "meaning": …}`` each, in the library's snake_case names; with
        ``policy`` where another than `fail` is meant, and ``description`` where a person gave one.
    :param name: as `object_name` makes it.
    :param run_name: what the library calls the run, such as the release's id.
    :raises SlipwayError: one expectation has no result, or two.
    """
    # Set before the library is imported, whatever the environment says.
    os.environ["GX_ANALYTICS_ENABLED"] = "False"
    import great_expectations as gx  # seven seconds, which only the task that validates shall pay
    from great_expectations.core.run_identifier import RunIdentifier

    context = _context()
    batch = (
        context.data_sources.add_pandas(_SOURCE)
        .add_dataframe_asset(name)
        .add_batch_definition_whole_dataframe(_ROWS)
    )
    asked = [_configured(each, place) for place, each in enumerate(expectations)]
    suite = context.suites.add(gx.ExpectationSuite(name=name, expectations=asked))
    definition = context.validation_definitions.add(
        gx.ValidationDefinition(name=name, data=batch, suite=suite)
    )
    checkpoint = context.checkpoints.add(gx.Checkpoint(name=name, validation_definitions=[definition]))
    # With its time: the library would read one out of the name.
    run = RunIdentifier(run_name=run_name, run_time=datetime.now(UTC))
    found = checkpoint.run(batch_parameters={"dataframe": frame}, run_id=run)
    (outcome,) = found.run_results.values()
    ordered = in_order(outcome.results, len(asked))
    return SuiteRun(
        name,
        [plain_result(result, list(frame.columns)) for result in ordered],
        document(outcome),
        suite.to_json_dict(),
        json.loads(definition.json()),
        json.loads(checkpoint.json()),
    )


def in_order(results: Sequence[Any], asked: int) -> list[Any]:
    """Return one result for each expectation, in their order; the library puts them into one of its own.

    :raises SlipwayError: one has no result, or two: what was not looked at would be taken for met.
    """
    ordered = sorted(results, key=_place)
    if [_place(one) for one in ordered] != list(range(asked)):
        raise SlipwayError(
            "great-expectations did not report each expectation exactly once",
            expected=f"{asked} results",
            found=f"{len(ordered)}, of the expectations {[_place(one) for one in ordered][:_PLACES_SHOWN]}",
            remedy="Use the version of the library that requirements.txt names.",
        )
    return ordered


def _context() -> AbstractDataContext:
    """Return a context in memory, which asks no other: neither a project's files nor the library's cloud."""
    import great_expectations as gx
    from great_expectations.data_context.types.base import (
        DataContextConfig,
        InMemoryStoreBackendDefaults,
        ProgressBarsConfig,
    )

    defaults = InMemoryStoreBackendDefaults()
    stores = {
        **defaults.stores,
        _SOURCE: {
            "class_name": "PlainResultsStore",
            "module_name": "slipway.quality.results_store",
            "store_backend": {"class_name": "InMemoryStoreBackend"},
        },
    }
    config = DataContextConfig(
        stores=stores,
        store_backend_defaults=defaults,
        validation_results_store_name=_SOURCE,
        analytics_enabled=False,
        progress_bars=ProgressBarsConfig(globally=False),
    )
    return gx.get_context(mode="ephemeral", project_config=config)


def _configured(expectation: Mapping[str, Any], place: int) -> dict[str, Any]:
    """Return an expectation as the library takes it; `meta` carries what only Slipway knows."""
    policy = expectation.get("policy", "fail")
    found: dict[str, Any] = {
        "type": expectation["type"],
        "kwargs": expectation["kwargs"],
        "meta": {"meaning": expectation["meaning"], "policy": policy, "place": place},
        "severity": "critical" if policy == "fail" else "warning",
    }
    if expectation.get("description"):
        found["description"] = expectation["description"]
    return found


def _place(result: Any) -> int:
    return int(result.expectation_config.meta["place"])

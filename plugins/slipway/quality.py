"""Great Expectations, driven by expectations that the domain has named."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


def run_expectations(
    frame: pd.DataFrame, expectations: Sequence[Mapping[str, Any]], name: str
) -> list[dict[str, Any]]:
    """Validates a table in an ephemeral context: nothing is kept, nothing is sent anywhere.

    :param expectations: ``{"type": …, "kwargs": …, "meaning": …}`` each, in the library's snake_case names.
    :return: for each expectation ``type``, ``kwargs``, ``meaning``, ``success`` and ``observed``.
    """
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "False")
    import great_expectations as gx  # seven seconds, which only the task that validates shall pay
    from great_expectations.data_context.types.base import ProgressBarsConfig

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    batch = (
        context.data_sources.add_pandas(name)
        .add_dataframe_asset("golden_answers")
        .add_batch_definition_whole_dataframe("all")
    )
    named = [
        {"type": each["type"], "kwargs": each["kwargs"], "meta": {"meaning": each["meaning"]}}
        for each in expectations
    ]
    suite = context.suites.add(gx.ExpectationSuite(name=name, expectations=named))
    definition = context.validation_definitions.add(
        gx.ValidationDefinition(name=name, data=batch, suite=suite)
    )
    outcome = definition.run(batch_parameters={"dataframe": frame})
    return [_plain(result) for result in outcome.results]


def _plain(result: Any) -> dict[str, Any]:
    """One result without the library's own types, so that it can be written as JSON."""
    configuration = result.expectation_config
    kwargs = {key: value for key, value in configuration.kwargs.items() if key != "batch_id"}
    observed = result.result.get("observed_value")
    return {
        "type": configuration.type,
        "kwargs": kwargs,
        "meaning": configuration.meta["meaning"],
        "success": bool(result.success),
        "observed": observed.item() if hasattr(observed, "item") else observed,
    }

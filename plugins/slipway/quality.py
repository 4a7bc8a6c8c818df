"""Great Expectations, driven by expectations that the domain has named, or that the release file adds."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from include.model_release.errors import SlipwayError
from include.model_release.written_numbers import number

if TYPE_CHECKING:
    import pandas as pd

_EXAMPLES = 5
_COLUMNS_TOLD = 40
_TEXT_LIMIT = 200


@dataclass(frozen=True)
class SuiteRun:
    """One suite as it went: a result for each expectation, and the library's own document of all."""

    results: list[dict[str, Any]]
    document: dict[str, Any]


def run_expectations(
    frame: pd.DataFrame, expectations: Sequence[Mapping[str, Any]], name: str
) -> list[dict[str, Any]]:
    """Return what became of each expectation, as `run_suite` tells it."""
    return run_suite(frame, expectations, name).results


def run_suite(frame: pd.DataFrame, expectations: Sequence[Mapping[str, Any]], name: str) -> SuiteRun:
    """Validate a table in an ephemeral context: nothing is kept, nothing is sent anywhere.

    An expectation that cannot be evaluated, such as of a column that is not there, is not met.

    :param expectations: ``{"type": …, "kwargs": …, "meaning": …}`` each, in the library's snake_case names; with
        ``policy`` where another than `fail` is meant.
    :returns: for each expectation ``type``, ``kwargs``, ``meaning``, ``policy``, ``success``, ``observed`` and
        ``unexpected`` (what was seen that should not be, in words).
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
        .get_batch({"dataframe": frame})
    )
    named = [
        {
            "type": each["type"],
            "kwargs": each["kwargs"],
            "meta": {"meaning": each["meaning"], "policy": each.get("policy", "fail"), "place": place},
        }
        for place, each in enumerate(expectations)
    ]
    # Not by a ValidationDefinition: it writes the result to a store, which does not know all of NumPy's types.
    outcome = batch.validate(gx.ExpectationSuite(name=name, expectations=named))
    ordered = in_order(outcome.results, len(named))
    return SuiteRun([_plain(result, list(frame.columns)) for result in ordered], _document(outcome))


def in_order(results: Sequence[Any], asked: int) -> list[Any]:
    """Return one result for each expectation, in their order; the library puts them into one of its own.

    :raises SlipwayError: one has no result, or two: what was not looked at would be taken for met.
    """
    ordered = sorted(results, key=_place)
    if [_place(one) for one in ordered] != list(range(asked)):
        raise SlipwayError(
            "great-expectations has not told of each expectation once",
            expected=f"{asked} results",
            found=f"{len(ordered)}, of the expectations {[_place(one) for one in ordered][:_COLUMNS_TOLD]}",
            remedy="Use the version of the library that requirements.txt names.",
        )
    return ordered


def _place(result: Any) -> int:
    return int(result.expectation_config.meta["place"])


def _plain(result: Any, columns: Sequence[str]) -> dict[str, Any]:
    """Return one result without the library's own types, so that it can be written as JSON."""
    configuration = result.expectation_config
    kwargs = {key: value for key, value in configuration.kwargs.items() if key != "batch_id"}
    observed = result.result.get("observed_value")
    return {
        "type": configuration.type,
        "kwargs": kwargs,
        "meaning": configuration.meta["meaning"],
        "policy": configuration.meta["policy"],
        "success": bool(result.success),
        "observed": _value(observed),
        "unexpected": "" if result.success else _unexpected(result, kwargs, columns),
    }


def _value(observed: Any) -> Any:
    """Return what was observed as JSON holds it; what is no single value as a short text."""
    if hasattr(observed, "item"):
        observed = observed.item()
    if observed is None or isinstance(observed, bool | int):
        return observed
    if isinstance(observed, float):
        return observed if math.isfinite(observed) else None
    if isinstance(observed, dict) and observed.keys() == {"quantiles", "values"}:
        each = zip(observed["quantiles"], observed["values"], strict=False)
        return _short(", ".join(f"{quantile:g}: {_shown(value)}" for quantile, value in each))
    return _short(str(observed))


def _shown(value: Any) -> str:
    """Return a value as people read it."""
    return number(value, 6) if isinstance(value, float) else _short(str(value))


def _unexpected(result: Any, kwargs: Mapping[str, Any], columns: Sequence[str]) -> str:
    """Say what was seen that should not be there."""
    asked = [str(kwargs[key]) for key in ("column", "column_A", "column_B") if key in kwargs]
    absent = [name for name in asked if name not in columns]
    if absent:
        known = ", ".join(f"`{name}`" for name in columns[:_COLUMNS_TOLD])
        return f"there is no column `{_short(absent[0])}`; there are {known}"
    found = result.result
    if found.get("unexpected_count"):
        examples = ", ".join(_shown(one) for one in (found.get("partial_unexpected_list") or [])[:_EXAMPLES])
        of = f"of {found['element_count']} rows" if found.get("element_count") else "values"
        return f"{found['unexpected_count']} {of}, such as {examples}"
    raised = [str(one.get("exception_message")) for one in _exceptions(result.exception_info) if one]
    return _short(raised[0]) if raised else ""


def _exceptions(info: Any) -> list[Mapping[str, Any]]:
    """Return what was raised: the library tells one, or one by each metric that failed."""
    if not isinstance(info, Mapping):
        return []
    each = (
        [info] if "raised_exception" in info else [one for one in info.values() if isinstance(one, Mapping)]
    )
    return [one for one in each if one.get("raised_exception")]


def _document(outcome: Any) -> dict[str, Any]:
    """Return the library's own result, with NumPy's values as JSON's, and what is not finite as a text."""
    told: dict[str, Any] = json.loads(json.dumps(outcome.to_json_dict(), default=_plain_value))
    (told.get("meta") or {}).pop("batch_markers", None)
    return dict(_finite(told))


def _plain_value(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else str(value)


def _finite(value: Any) -> Any:
    """Return a JSON value whose numbers are finite, others become texts; without the lines of its own program."""
    if isinstance(value, dict):
        return {str(key): _finite(below) for key, below in value.items() if key != "exception_traceback"}
    if isinstance(value, list):
        return [_finite(below) for below in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _short(text: str) -> str:
    return text if len(text) <= _TEXT_LIMIT else f"{text[: _TEXT_LIMIT - 1]}…"

"""What great-expectations answers, as plain values: without NumPy's types, without its own program, and bounded."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from slipway_core.written_numbers import counted, number

_EXAMPLES = 5
_COLUMNS_SHOWN = 40
_TEXT_LIMIT = 200
# Of the library's own document: a column of texts or of many values would make it as large as the table.
_DOCUMENT_TEXT_LIMIT = 1000
_DOCUMENT_LIST_LIMIT = 100
_OF_ITS_PROGRAM = "exception_traceback"


def plain_result(result: Any, columns: Sequence[str]) -> dict[str, Any]:
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
        known = ", ".join(f"`{name}`" for name in columns[:_COLUMNS_SHOWN])
        return f"there is no column `{_short(absent[0])}`; there are {known}"
    found = result.result
    if found.get("unexpected_count"):
        examples = ", ".join(_shown(one) for one in (found.get("partial_unexpected_list") or [])[:_EXAMPLES])
        of = f"of {counted(found['element_count'], 'row')}" if found.get("element_count") else "values"
        return f"{found['unexpected_count']} {of}, such as {examples}"
    raised = [str(one.get("exception_message")) for one in _exceptions(result.exception_info) if one]
    return _short(raised[0]) if raised else ""


def _exceptions(info: Any) -> list[Mapping[str, Any]]:
    """Return what was raised: the library reports one error, or one for each metric that failed."""
    if not isinstance(info, Mapping):
        return []
    each = (
        [info] if "raised_exception" in info else [one for one in info.values() if isinstance(one, Mapping)]
    )
    return [one for one in each if one.get("raised_exception")]


def document(outcome: Any) -> dict[str, Any]:
    """Return the library's own result of a suite, as it writes it to JSON.

    NumPy's values are JSON's, numbers that are not finite are texts, long texts and long lists of values are cut.
    """
    result: dict[str, Any] = json.loads(json.dumps(outcome.to_json_dict(), default=_plain_value))
    (result.get("meta") or {}).pop("batch_markers", None)
    for one in result.get("results") or ():
        one["result"] = _cut(one.get("result"))
    return dict(_finite(result))


def _cut(value: Any) -> Any:
    """Return a value whose lists have no more entries than a reader looks at."""
    if isinstance(value, dict):
        return {key: _cut(below) for key, below in value.items()}
    return [_cut(one) for one in value[:_DOCUMENT_LIST_LIMIT]] if isinstance(value, list) else value


def _plain_value(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else str(value)


def _finite(value: Any) -> Any:
    """Return a JSON value whose numbers are finite, others become texts; without the lines of its own program."""
    if isinstance(value, dict):
        # The key stays, empty: the library's own pages look for it.
        return {str(key): "" if key == _OF_ITS_PROGRAM else _finite(below) for key, below in value.items()}
    if isinstance(value, list):
        return [_finite(below) for below in value]
    if isinstance(value, str):
        return _short(value, _DOCUMENT_TEXT_LIMIT)
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _short(text: str, limit: int = _TEXT_LIMIT) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"

"""Fields that a template may have rendered to text, checked when a task runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from airflow_provider_triton.errors import UserError

Config = dict[str, Any]


def parsed(value: Any) -> Any:
    """Return a field's value, where a template may have rendered it to JSON text.

    :raises UserError: the text is no JSON.
    """
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:
        raise UserError(
            "a field of this task is not valid JSON",
            expected="a value, or its JSON text from the template filter `tojson`",
            found=f"{value[:200]!r}: {error}",
            remedy="correct the DAG",
        ) from error


def seconds(value: float | str, name: str) -> float:
    """Return a field that is a number of seconds above 0.

    :raises UserError: it is invalid.
    """
    try:
        found = float(value)
    except ValueError:
        found = float("nan")
    if not 0 < found < float("inf"):
        raise _wrong(name, "a number of seconds above 0", value)
    return found


def names(value: str | Sequence[str], name: str) -> list[str]:
    """Return a field that is a list of names; empty ones are left out.

    :raises UserError: it is invalid.
    """
    found = parsed(value) or []
    if (
        not isinstance(found, Sequence)
        or isinstance(found, str)
        or not all(isinstance(one, str) for one in found)
    ):
        raise _wrong(name, "a list of names", value)
    return [one for one in found if one]


def whole_numbers(value: str | Sequence[int], name: str) -> list[int]:
    """Return a field that is a list of versions.

    :raises UserError: it is invalid.
    """
    found = parsed(value) or []
    if not isinstance(found, Sequence) or not all(type(one) is int and one > 0 for one in found):
        raise _wrong(name, "a list of whole numbers above 0", value)
    return list(found)


def version_or_none(value: int | str | None, name: str = "version") -> int | None:
    """Return a field that is a version, or None where it is empty or ``None``.

    :raises UserError: it is neither.
    """
    if value in (None, "", "None", "null"):
        return None
    found = whole_numbers([value] if isinstance(value, int) else f"[{value}]", name)
    return found[0]


def config_or_none(value: str | Mapping[str, Any], name: str = "config") -> Config | None:
    """Return a field that is a whole configuration; None where it is ``null``.

    :raises UserError: it is invalid.
    """
    found = parsed(value)
    if found is not None and not isinstance(found, Mapping):
        raise _wrong(name, "a configuration in Triton's JSON form, or null", value)
    return None if found is None else dict(found)


def pinned_versions(config: Mapping[str, Any] | None) -> list[int]:
    """Return the versions that a configuration pins; empty where it pins none.

    :raises UserError: they are no versions.
    """
    try:
        specific = ((config or {}).get("version_policy") or {}).get("specific") or {}
        return sorted(int(version) for version in specific.get("versions") or ())
    except (AttributeError, TypeError, ValueError):
        raise _wrong("config", "`version_policy.specific.versions` as a list of numbers", config) from None


def _wrong(name: str, expected: str, found: object) -> UserError:
    return UserError(
        f"the field {name!r} of this task cannot be used",
        expected=expected,
        found=repr(found)[:300],
        remedy="correct the DAG, or the value that its template reads",
    )

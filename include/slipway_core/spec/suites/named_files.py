"""The files beside a release file that it names: suites of expectations, and the scorer of `kind: custom`.

They are read with the release file, and travel with it from then on: a gate judges by what lay beside the file when the
release was admitted, not by what lies there when the gate is reached.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import Field, JsonValue, ValidationError

from slipway_core.documents.document_form import first_problem
from slipway_core.documents.json_source import parse_json
from slipway_core.errors import SpecError, UserError
from slipway_core.spec.parts import SpecPart
from slipway_core.spec.suites.expectations import SUITE_LIMIT, Expectation

FILE_LIMIT_BYTES = 64 * 1024
_OLD_FORM = (
    "`expectation_suite_name` or `expectation_type`, as great-expectations before 1.0 wrote them; "
    "now `name` and `type`"
)
# Where a release file names one, and how its name must end.
_NAMED_AT = (
    (("golden", "suite"), ".json"),
    (("validation", "suite"), ".json"),
    (("validation", "scorer"), ".py"),
)


class Suite(SpecPart):
    """A suite of expectations, as great-expectations writes it to JSON."""

    name: str = ""
    expectations: tuple[Expectation, ...] = Field(default=(), max_length=SUITE_LIMIT)
    meta: dict[str, JsonValue] | None = None
    notes: JsonValue = None
    id: str | None = None


def parse_suite(text: str, name: str) -> tuple[Expectation, ...]:
    """Return the expectations of a suite's JSON.

    :param name: what an error calls the file.
    :raises SpecError: it is invalid, or has an expectation that is not taken; the first fault is named.
    """
    try:
        is_old = _is_of_version_0(parse_json(text, name))
        suite = Suite.model_validate_json(text)
    except ValidationError as error:
        found = _OLD_FORM if is_old else first_problem(error)
    except UserError as error:
        found = error.found or error.what
    else:
        if suite.expectations:
            return suite.expectations
        found = "no expectation"
    raise SpecError(
        f"{name} is not a valid suite of expectations",
        expected='JSON as great-expectations writes a suite: {"name": …, "expectations": [{"type": …, "kwargs": …}]}',
        found=found,
        remedy="Correct it; docs/gates.md lists the types of expectations.",
    )


def _is_of_version_0(data: Any) -> bool:
    """Return whether it has the keys of the library's suites before its version 1."""
    if not isinstance(data, Mapping):
        return False
    below = data.get("expectations")
    each = below if isinstance(below, list) else []
    return "expectation_suite_name" in data or any(
        isinstance(one, Mapping) and "expectation_type" in one for one in each
    )


def read_named_files(
    data: Mapping[str, Any], folder: Path, name: str, *, insists: bool = True
) -> dict[str, str]:
    """Return, by name, the text of each file that a release file names.

    :param data: the release file, not yet checked.
    :param folder: where the release file lies.
    :param name: what an error calls the release file.
    :param insists: whether one that cannot be used is an error here. Else it is left out, and is one where it is asked
        for: what a freeze or a way back needs of a release file must not depend on a gate's scorer.
    :raises SpecError: one is not there, is no plain name, is too large, or is not text; or a suite is invalid.
    """
    found: dict[str, str] = {}
    for key, named, suffix in _named(data):
        try:
            found[named] = _read(key, named, suffix, folder, name)
        except SpecError:
            if insists:
                raise
    return found


def _read(key: str, named: str, suffix: str, folder: Path, name: str) -> str:
    if not named.endswith(suffix) or "/" in named or "\\" in named or named.startswith("."):
        raise SpecError(
            f"{name}: `{key}` names a file that isn't in its folder",
            expected=f"the plain name of a file that ends with {suffix}",
            found=f"`{named[:200]}`",
            remedy="Put the file in the release file's folder, and give only its name.",
        )
    text = _text_of(folder / named, f"{name}: `{key}`")
    if suffix == ".json":
        parse_suite(text, named)
    return text


def _named(data: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    for (part, key), suffix in _NAMED_AT:
        below = data.get(part)
        named = below.get(key) if isinstance(below, Mapping) else None
        if isinstance(named, str):
            yield f"{part}.{key}", named, suffix


def _text_of(path: Path, where: str) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(FILE_LIMIT_BYTES + 1)
        if len(content) <= FILE_LIMIT_BYTES:
            return content.decode("utf-8")
        found = f"more than {FILE_LIMIT_BYTES} bytes"
    except (OSError, ValueError) as error:
        found = getattr(error, "strerror", None) or "no UTF-8"
    raise SpecError(
        f"{where} names {path.name}, which cannot be read",
        expected=f"a UTF-8 text of at most {FILE_LIMIT_BYTES // 1024} KiB in the release file's folder",
        found=found,
        remedy="Put it there, or correct the name.",
    )

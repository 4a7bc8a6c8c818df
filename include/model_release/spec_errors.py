"""From pydantic's list of complaints about a release file to one error that a person can act upon."""

from __future__ import annotations

import json
import types
from collections.abc import Iterator
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from include.model_release.errors import SpecError
from include.model_release.names import nearest
from include.model_release.yaml_source import Path, YamlSource, dotted


def explain(error: ValidationError, root: type[BaseModel], parsed: YamlSource) -> SpecError:
    """Return a SpecError about the first complaint, in file order; the others follow in its `found`."""
    problems = sorted(
        (_Problem(details, root, parsed) for details in error.errors(include_url=False)),
        key=lambda problem: problem.line,
    )
    first, others = problems[0], problems[1:]
    found = first.found
    if others:
        also = "; ".join(f"{other.place}: {other.what}" for other in others[:5])
        more = f"{len(others)} more problem{'s' if len(others) > 1 else ''} ({also})"
        found = f"{found}; {more}" if found else more
    return SpecError(
        f"{parsed.name}, {first.place}: {first.what}" if first.place else f"{parsed.name}: {first.what}",
        expected=first.expected,
        found=found,
        remedy=first.remedy,
    )


class _Problem:
    """One complaint: where, what, and how to mend it."""

    def __init__(self, details: ErrorDetails, root: type[BaseModel], parsed: YamlSource) -> None:
        path: Path = details["loc"]
        self.line = parsed.line_of(path)
        self.place = f"line {self.line}" if parsed.value_lines else ""
        key = dotted(path) or "release file"
        self.expected: str | None = None
        self.found: str | None = None
        self.remedy: str | None = None
        if details["type"] == "extra_forbidden":
            self._unknown_key(path, root)
        elif details["type"] == "missing":
            self.what = f"the key `{key}` is missing"
            self.remedy = f"Add `{path[-1]}:`{' under `' + dotted(path[:-1]) + '`' if path[:-1] else ''}."
        else:
            self._wrong_value(key, details)

    def _wrong_value(self, key: str, details: ErrorDetails) -> None:
        context = details.get("ctx") or {}
        said = str(context.get("error", "")) if details["type"] == "value_error" else ""
        self.remedy = (
            "Correct the value; `python -m include.model_release.spec --schema` prints what is allowed."
        )
        if said and not said.startswith("must "):
            # A rule between several keys speaks for itself.
            self.what = f"`{key}` does not fit together: {said}"
            return
        self.what = f"`{key}` has a wrong value"
        self.expected = said.removeprefix("must be ") if said else _expectation(details, context)
        self.found = None if isinstance(details["input"], dict | list) else f"`{_shown(details['input'])}`"

    def _unknown_key(self, path: Path, root: type[BaseModel]) -> None:
        name, parent = str(path[-1]), path[:-1]
        valid = sorted(_model_at(root, parent).model_fields)
        where = f" under `{dotted(parent)}`" if parent else ""
        self.what = f"unknown key `{dotted(path)}`"
        self.expected = f"one of {', '.join(valid)}{where}"
        near = nearest(name, valid)
        elsewhere = [
            dotted((*place, name)) for place, model in _all_models(root, ()) if name in model.model_fields
        ]
        if near:
            self.remedy = f"Did you mean `{dotted((*parent, near))}`?"
        elif elsewhere:
            self.remedy = f"Did you mean `{elsewhere[0]}`?"
        else:
            self.remedy = "Remove the key."


# pydantic speaks of JSON; whoever writes YAML thinks in these words.
_WORDS = {
    "valid integer": "a whole number",
    "valid number": "a number",
    "finite number": "a finite number",
    "valid string": "text",
    "valid boolean": "true or false",
    "valid array": "a list",
    "an object": "a mapping",
    "valid dictionary": "a mapping",
}


def _expectation(details: ErrorDetails, context: dict[str, Any]) -> str:
    if details["type"] == "literal_error":
        return f"one of {context.get('expected', '')}".replace("'", "").replace(" or ", ", ")
    message = details["msg"].removeprefix("Input should be ")
    for jargon, words in _WORDS.items():
        if message in (jargon, f"a {jargon}"):
            return words
    return message[0].lower() + message[1:]


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 80 else f"{text[:77]}…"


def _model_at(root: type[BaseModel], path: Path) -> type[BaseModel]:
    """Return the model class whose fields are valid keys at `path`."""
    model = root
    for part in path:
        if isinstance(part, str) and part in model.model_fields:
            model = _model_in(model.model_fields[part].annotation) or model
    return model


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """Find the model class inside `Model`, `Model | None`, `tuple[Model, ...]`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) in (Union, types.UnionType, tuple):
        found = (_model_in(argument) for argument in get_args(annotation))
        return next((model for model in found if model), None)
    return None


def _all_models(model: type[BaseModel], place: Path) -> Iterator[tuple[Path, type[BaseModel]]]:
    yield place, model
    for name, field in model.model_fields.items():
        below = _model_in(field.annotation)
        if below:
            yield from _all_models(below, (*place, name))

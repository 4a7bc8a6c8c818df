"""One error that a person can act upon, made of pydantic's errors about a release file."""

from __future__ import annotations

import json
import types
from collections.abc import Iterator
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, Tag, ValidationError
from pydantic_core import ErrorDetails

from slipway_core.documents.yaml_source import Path, YamlSource, dotted
from slipway_core.errors import SpecError
from slipway_core.identifiers import nearest
from slipway_core.spec.chosen_part import ChosenPart

# How many complaints an error tells.
_SHOWN_AT_MOST = 6


def explain(error: ValidationError, root: type[BaseModel], parsed: YamlSource) -> SpecError:
    """Return a SpecError about the first complaint, in file order; the others follow in its `found`."""
    all_details = sorted(
        error.errors(include_url=False),
        key=lambda details: parsed.line_of(_located(root, details["loc"])[0]),
    )
    # Explaining a problem takes a search among all keys, so only those that are shown are examined.
    problems = [_Problem(details, root, parsed) for details in all_details[:_SHOWN_AT_MOST]]
    first, others = problems[0], problems[1:]
    found = first.found
    if others:
        also = "; ".join(f"{other.place}: {other.what}" for other in others)
        count = len(all_details) - 1
        more = f"{count} more problem{'s' if count > 1 else ''} ({also})"
        found = f"{found}; {more}" if found else more
    return SpecError(
        f"{parsed.name}, {first.place}: {first.what}" if first.place else f"{parsed.name}: {first.what}",
        expected=first.expected,
        found=found,
        remedy=first.remedy,
    )


class _Problem:
    """One complaint: where it is, what is wrong, and how to correct it."""

    def __init__(self, details: ErrorDetails, root: type[BaseModel], parsed: YamlSource) -> None:
        path, model = _located(root, details["loc"])
        self.line = parsed.line_of(path)
        self.place = f"line {self.line}" if parsed.value_lines else ""
        key = dotted(path) or "release file"
        self.expected: str | None = None
        self.found: str | None = None
        self.remedy: str | None = None
        if details["type"] == "extra_forbidden":
            self._unknown_key(path, root, model)
        elif details["type"] == "missing":
            self.what = f"the key `{key}` is missing"
            self.remedy = f"Add `{path[-1]}:`{' under `' + dotted(path[:-1]) + '`' if path[:-1] else ''}."
        else:
            self._wrong_value(key, model, details)

    def _wrong_value(self, key: str, model: type[BaseModel], details: ErrorDetails) -> None:
        context = details.get("ctx") or {}
        if details["type"] == "union_tag_invalid":
            self._wrong_choice(key, model, context)
            return
        said = str(context.get("error", "")) if details["type"] == "value_error" else ""
        self.remedy = "Correct the value; `python -m slipway_core.spec --schema` prints what is allowed."
        if said and not said.startswith("must "):
            # A rule between several keys speaks for itself.
            self.what = f"`{key}` does not fit together: {said}"
            return
        self.what = f"`{key}` has a wrong value"
        self.expected = said.removeprefix("must be ") if said else _expectation(details, context)
        self.found = None if isinstance(details["input"], dict | list) else f"`{_shown(details['input'])}`"

    def _wrong_choice(self, key: str, model: type[BaseModel], context: dict[str, Any]) -> None:
        chosen = _models_in(model.model_fields[key.rpartition(".")[2]].annotation)[0][1]
        self.what = f"`{key}.{_chosen_by(chosen)}` has a wrong value"
        self.expected = "one of " + str(context["expected_tags"]).replace("'", "")
        self.found = f"`{_shown(context['tag'])}`"

    def _unknown_key(self, path: Path, root: type[BaseModel], model: type[BaseModel]) -> None:
        name, parent = str(path[-1]), path[:-1]
        valid = sorted(model.model_fields)
        where = f" under `{dotted(parent)}`" if parent else ""
        self.what = f"unknown key `{dotted(path)}`"
        self.expected = f"one of {', '.join(valid)}{where}"
        near = nearest(name, valid)
        found = [one for one in _all_models(root, ()) if name in one[1].model_fields]
        # What every file may say comes before what only one target has.
        elsewhere = [dotted((*place, name)) for place, _, chosen in sorted(found, key=lambda one: one[2])]
        if dotted(path) in elsewhere:
            self.remedy = f"Remove the key: only another `{_chosen_by(model)}` of `{dotted(parent)}` has it."
        elif near:
            self.remedy = f"Did you mean `{dotted((*parent, near))}`?"
        elif elsewhere:
            self.remedy = f"Did you mean `{elsewhere[0]}`?"
        else:
            self.remedy = "Remove the key."


# pydantic uses the words of JSON; people who write YAML know these.
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
    if details["type"] == "union_tag_not_found":
        return "a mapping"
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


def _located(root: type[BaseModel], location: Path) -> tuple[Path, type[BaseModel]]:
    """Return the keys as the YAML has them, and the class whose fields are valid beside the last of them.

    Where a class is chosen by a tag, pydantic puts the tag into the location.
    """
    path: list[int | str] = []
    model = owner = root
    choices: dict[str, type[BaseModel]] = {}
    for part in location:
        if part in choices:
            model = choices[str(part)]
        else:
            path.append(part)
            owner = model
        choices = {}
        if path[-1] is part and isinstance(part, str) and part in model.model_fields:
            below = _models_in(model.model_fields[part].annotation)
            choices = {tag: one for tag, one in below if tag}
            model = below[0][1] if below else model
    return tuple(path), owner


def _chosen_by(model: type[BaseModel]) -> str:
    """Return the key by which a class is chosen among others."""
    return (
        model.chosen_by
        if issubclass(model, ChosenPart)
        else "kind"
        if "kind" in model.model_fields
        else "target"
    )


def _models_in(annotation: Any) -> list[tuple[str, type[BaseModel]]]:
    """Find the classes in `Model`, `Model | None`, `tuple[Model, ...]`, each with its tag or an empty text."""
    if isinstance(annotation, type) and issubclass(annotation, ChosenPart):
        kinds = annotation.registry.imported()
        default = annotation.default_choice
        return [(name, kinds[name]) for name in sorted(kinds, key=lambda name: name != default)]
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [("", annotation)]
    if get_origin(annotation) is Annotated:
        inner, *notes = get_args(annotation)
        tag = next((note.tag for note in notes if isinstance(note, Tag)), "")
        return [(tag or below, model) for below, model in _models_in(inner)]
    if get_origin(annotation) in (Union, types.UnionType, tuple):
        return [found for argument in get_args(annotation) for found in _models_in(argument)]
    return []


def _all_models(
    model: type[BaseModel], place: Path, chosen: bool = False
) -> Iterator[tuple[Path, type[BaseModel], bool]]:
    """Yield each class with its place, and whether it, or one above it, is chosen by a tag."""
    yield place, model, chosen
    for name, field in model.model_fields.items():
        for tag, below in _models_in(field.annotation):
            yield from _all_models(below, (*place, name), chosen or bool(tag))

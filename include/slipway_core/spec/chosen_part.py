"""A part of the release file that is of one of several kinds: which class reads it, one of its keys says.

The classes are in a registry, to which other packages can add; so a part is read, and its JSON schema made, by what the
registry has when that is asked for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar, Self, cast

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationError
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticKnownError, SchemaValidator, core_schema

from slipway_core.kind_registry import KindRegistry, UnknownKindError
from slipway_core.spec.parts import SpecPart


class ChosenPart(SpecPart):
    """The base of a family of kinds: a class right below this one, whose subclasses the registry has."""

    registry: ClassVar[KindRegistry[Any]]
    chosen_by: ClassVar[str]
    """The key that says which kind it is."""
    default_choice: ClassVar[str]
    """The kind of a part that does not say."""

    @classmethod
    def default(cls) -> Self:
        """Return the part as it is where the release file says nothing of it."""
        return cast(Self, cls.registry.get(cls.default_choice)())

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Self:
        """Return the part that `data` is the JSON form of.

        :raises pydantic.ValidationError: it is invalid.
        """
        return cast(Self, cls._read(dict(data), is_json=True))

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the schema of a kind; of the family, one that asks the registry when a part is read."""
        if ChosenPart not in cls.__bases__:
            return handler(source)

        def read(value: Any, info: core_schema.ValidationInfo) -> Any:
            return cls._read(value, is_json=info.mode == "json")

        return core_schema.with_info_plain_validator_function(
            read, metadata={"pydantic_js_functions": [cls._json_schema]}
        )

    @classmethod
    def _read(cls, value: Any, *, is_json: bool) -> Any:
        if isinstance(value, cls):
            return value
        name = value.get(cls.chosen_by, cls.default_choice) if isinstance(value, Mapping) else None
        if name is None:
            raise PydanticKnownError("union_tag_not_found", {"discriminator": repr(cls.chosen_by)})
        try:
            kind: type[SpecPart] = cls.registry.get(str(name))
        except UnknownKindError:
            tags = ", ".join(map(repr, cls.registry.names()))
            context = {"discriminator": repr(cls.chosen_by), "tag": str(name), "expected_tags": tags}
            raise PydanticKnownError("union_tag_invalid", context) from None
        try:
            return _validated(kind.__pydantic_validator__, value, is_json=is_json)
        except ValidationError:
            # Once more, for errors that say where they are.
            return _validated(_locating(kind), value, is_json=is_json)

    @classmethod
    def _json_schema(cls, _schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Return the JSON schemas of all kinds, of which one must fit, and the default."""
        kinds = [handler(_schema_of(kind)) for kind in cls.registry.all().values()]
        default = cls.default().model_dump(mode="json")
        return {"oneOf": kinds, "default": default}


def _validated(validator: Any, value: Any, *, is_json: bool) -> Any:
    """Return the part: strict JSON mode takes lists as tuples, which strict Python mode does not."""
    return validator.validate_json(json.dumps(value)) if is_json else validator.validate_python(value)


def _locating(kind: type[SpecPart]) -> SchemaValidator:
    """Return what reads one kind, and puts the kind's name into the place of each error, as pydantic's unions do."""
    name = str(kind.model_fields[cast(type[ChosenPart], kind).chosen_by].default)
    choice = core_schema.tagged_union_schema({name: _schema_of(kind)}, discriminator=lambda _: name)
    return SchemaValidator(choice)


def _schema_of(kind: type[SpecPart]) -> CoreSchema:
    kind.model_rebuild()
    return kind.__pydantic_core_schema__

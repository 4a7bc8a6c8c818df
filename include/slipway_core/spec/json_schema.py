"""The JSON schema of release files, in which each key is described by the docstring below it.

pydantic's own `use_attribute_docstrings` reads them whenever a class is made, which is whenever Airflow reads a DAG
file. They are shown by the schema alone.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from itertools import pairwise
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from slipway_core.spec.parts import SpecPart
from slipway_core.spec.release_file import ReleaseSpec
from slipway_core.spec.rollout.rollout import Rollout


def release_file_schema() -> dict[str, Any]:
    """Return the JSON schema of a release file."""
    return ReleaseSpec.model_json_schema(schema_generator=_DescribedKeys)


class _DescribedKeys(GenerateJsonSchema):
    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        """Return the schema of a key with its default, also of a part that is made when it is read."""
        described = super().default_schema(schema)
        if schema.get("default_factory") is Rollout:
            described["default"] = Rollout().model_dump(mode="json")
        return described

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        """Return the schema of one class, with the descriptions of its keys."""
        described = super().model_schema(schema)
        docstrings = _docstrings(schema["cls"])
        for key, value in described.get("properties", {}).items():
            if key in docstrings:
                value.setdefault("description", docstrings[key])
        return described


def _docstrings(part: type) -> dict[str, str]:
    """Return the docstring below each key of a class, and of those it is derived from."""
    found: dict[str, str] = {}
    for owner in reversed(part.__mro__):
        if owner is SpecPart or not issubclass(owner, SpecPart):
            continue
        try:
            source = inspect.getsource(owner)
        except OSError:  # another package's class, of which there is no source
            continue
        (definition,) = ast.parse(textwrap.dedent(source)).body
        assert isinstance(definition, ast.ClassDef)  # noqa: S101  the source of a class
        for statement, below in pairwise([*definition.body, ast.Pass()]):
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                # A key that is defined again says again what it is.
                found.pop(statement.target.id, None)
                if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
                    found[statement.target.id] = inspect.cleandoc(str(below.value.value))
    return found

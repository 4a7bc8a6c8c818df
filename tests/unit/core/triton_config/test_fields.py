"""The fields of ModelConfig, as they were written down by hand before they were read from the descriptors."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from slipway_core.triton_config.fields import FieldKind, fields_of, with_numbers
from tests.support.triton_config.strategy import reachable

# A message, and below it its fields: `[]` is a list, `{}` a map, `?` a member of a oneof, `enum=` tells the zero value.
_RECORDED = Path(__file__).parents[3] / "support" / "triton_config" / "recorded" / "fields.txt"
_MESSAGES = re.findall(r"^(\S+)\n((?: .*\n)*)", _RECORDED.read_text(), re.MULTILINE)


@pytest.mark.parametrize(("message", "written"), _MESSAGES)
def test_every_field_that_was_known_is_still_of_its_kind(message: str, written: str) -> None:
    """The canonical form hangs on each field's form, kind, zero value and oneof."""
    kinds = fields_of(message)
    assert (
        dict(pair.split(":", 1) for pair in written.split()).items()
        <= {name: _written(kind) for name, kind in kinds.items()}.items()
    )


def _written(kind: FieldKind) -> str:
    scalar = f"enum={kind.zero}" if kind.scalar == "enum" else kind.scalar
    return (kind.message or scalar) + {"one": "", "list": "[]", "map": "{}"}[kind.form] + "?" * kind.in_oneof


def test_every_message_is_known() -> None:
    """What ModelConfig can hold was all written down, and is found again."""
    assert {message for message, _ in _MESSAGES} <= reachable()


def test_a_message_that_is_none_is_an_error() -> None:
    """A name that Triton's protocol does not have is a mistake of the code."""
    with pytest.raises(KeyError):
        fields_of("ModelFoo")


def test_a_users_own_keys_are_no_fields() -> None:
    """A tag or parameter that is called like a number's field keeps its text."""
    config = {"metric_tags": {"dims": "3"}, "parameters": {"versions": {"string_value": "1"}}}
    assert with_numbers(config) == config
    assert with_numbers({"input": [{"dims": ["3", "-1"]}], "not_known": {"dims": ["3"]}}) == {
        "input": [{"dims": [3, -1]}],
        "not_known": {"dims": ["3"]},
    }

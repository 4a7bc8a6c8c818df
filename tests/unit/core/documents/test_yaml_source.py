"""YAML with places."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway_core.documents.yaml_source import SIZE_LIMIT_BYTES, dotted, parse_yaml_mapping
from slipway_core.errors import SpecError

_KEYS = st.text(alphabet="abcdefgh_", min_size=1, max_size=6)
# PyYAML does not join JSON's escaped surrogate pairs: text within the basic plane reads alike.
_TEXT = st.text(alphabet=st.characters(max_codepoint=0xD7FF), max_size=12)
_SCALARS = st.none() | st.booleans() | st.integers(-(10**9), 10**9) | _TEXT | st.floats(-1e6, 1e6)
_VALUES = st.recursive(
    _SCALARS,
    lambda below: st.lists(below, max_size=3) | st.dictionaries(_KEYS, below, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(_KEYS, _VALUES, max_size=4))
def test_json_texts_read_as_json_does(value: dict[str, object]) -> None:
    """JSON is YAML: any JSON mapping reads as it would by a JSON parser."""
    assert parse_yaml_mapping(json.dumps(value), "f.yaml").data == value


@given(st.text(max_size=60))
def test_any_text_gives_a_mapping_or_a_spec_error(text: str) -> None:
    """No text makes the reader fail in another way than by SpecError."""
    try:
        data = parse_yaml_mapping(text, "f.yaml").data
    except SpecError:
        return
    assert isinstance(data, dict)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"),
        ("on", "on"),
        ("true", True),
        ("1e-4", 1e-4),
        (".5", 0.5),
        ("-3", -3),
        ("012", "012"),
        ("0x1F", "0x1F"),
        ("1:30", "1:30"),
        ("2026-11-20", "2026-11-20"),
        ("~", None),
        ("", None),
    ],
)
def test_scalars_mean_what_they_look_like(text: str, value: object) -> None:
    """Scalars follow YAML 1.2: no Norway problem, no octal or base-sixty surprises, `1e-4` is a number."""
    read = parse_yaml_mapping(f"key: {text}", "f.yaml").data["key"]
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3", "line 3: the file has the key `a` a second time .first in line 1"),
        ("a: &x 1\nb: *x", "line 1: the file uses a YAML alias"),
        ("a: &x [*x]", "alias"),
        ("a: !!python/object:os.system x", "uses the YAML tag"),
        ("a: !!int x", "uses the YAML tag"),
        ("a:\n  - [", "not valid YAML"),
        ("1: 2", "a key that is not text"),
        ("? [a]\n: 1", "a key that is not text"),
        ("- 1", "not a release file.*found a seq"),
        ("", "not a release file.*found nothing"),
        ("a: 1\n---\nb: 2", "another document"),
        ("a: " + "[" * 30 + "]" * 30, "nested too deeply"),
        ("a: " + "[" * 5000, "nested too deeply"),
        ("# " + "x" * SIZE_LIMIT_BYTES, "too large"),
    ],
)
def test_what_a_release_file_has_no_use_for_is_refused(text: str, message: str) -> None:
    """Doubled keys, aliases, tags, other documents, deep nests and broken YAML are refused in plain words."""
    with pytest.raises(SpecError, match=message):
        parse_yaml_mapping(text, "f.yaml")


def test_lines_are_known_for_keys_values_and_absent_paths() -> None:
    """A path gives the line of its key; a path that is not there gives its parent's."""
    source = parse_yaml_mapping("a: 1\nb:\n  c:\n    - d: 1\n    - d: 2\n", "f.yaml")
    assert source.line_of(("b", "c")) == 3
    assert source.line_of(("b", "c", 1, "d")) == 5
    assert source.line_of(("b", "c", 1, "missing")) == 5
    assert source.line_of(("z",)) == 1


def test_paths_are_written_as_people_do() -> None:
    """Keys are joined by dots and positions stand in brackets."""
    assert dotted(("rollout", "steps", 1, "weight")) == "rollout.steps[1].weight"

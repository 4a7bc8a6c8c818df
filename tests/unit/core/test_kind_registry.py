"""Kinds of other packages: one that cannot be used is named with its package, and none changes one of Slipway's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.other_package import install, run_installed

MODULE = """
from slipway_core.gates.validation.kinds.text import TextValidation

class Loud(TextValidation):
    kind: str = "loud"

class Text(TextValidation):
    kind: str = "text"

class Bare:
    kind = "loud"

def loud():
    return Loud
"""
PROGRAM = """
    import json, sys
    from slipway_core.errors import SlipwayError
    from slipway_core.spec.validation import Validation

    def asked(name):
        try:
            return Validation.registry.get(name).__module__
        except SlipwayError as error:
            return f"{type(error).__name__}: {error}"
    print(json.dumps([asked("text"), asked("loud")]))
"""


def _asked(folder: Path, *points: dict[str, str]) -> tuple[str, str]:
    """Return what a registry has under the name of a kind of Slipway, and under that of another package."""
    for number, each in enumerate(points):
        name = "loud-kinds" if not number else f"louder-kinds-{number}"
        install(folder, name, MODULE, {"slipway.validation_kinds": each})
    done = run_installed(folder, PROGRAM)
    assert done.returncode == 0, done.stderr
    text, loud = json.loads(done.stdout)
    return str(text), str(loud)


@pytest.mark.parametrize(
    ("points", "words"),
    [
        ([{"loud": "loud_kinds:Missing"}], ("loud-kinds 1.2", "AttributeError", "Missing")),
        ([{"loud": "no_such_module:Loud"}], ("loud-kinds 1.2", "ModuleNotFoundError")),
        ([{"loud": "loud_kinds:Bare"}], ("loud-kinds 1.2", "a class derived from", "ValidationKind")),
        ([{"loud": "loud_kinds:loud"}], ("loud-kinds 1.2", "a class derived from", "function")),
        ([{"loud": "loud_kinds:Text"}], ("loud-kinds 1.2", "a name that no kind of Slipway has", "'text'")),
        ([{"text": "loud_kinds:Text"}], ("loud-kinds 1.2", "a name that no kind of Slipway has", "'text'")),
        (
            [{"loud": "loud_kinds:Loud"}, {"loud": "louder_kinds_1:Loud"}],
            ("loud-kinds 1.2", "louder-kinds-1 1.2", "one package that adds a kind of that name"),
        ),
    ],
    ids=["no such class", "no such module", "no kind", "a function", "another name", "text again", "twice"],
)
def test_a_kind_that_cannot_be_used_is_said_with_its_package(
    tmp_path: Path, points: list[dict[str, str]], words: tuple[str, ...]
) -> None:
    """Whatever is wrong with it, a kind of Slipway's means what it meant."""
    text, loud = _asked(tmp_path, *points)
    assert text == "slipway_core.gates.validation.kinds.text"
    assert loud.startswith("KindUnusableError: the validation kind of ")
    assert all(word in loud for word in words), loud


def test_an_unknown_kind_is_an_error_that_names_the_known_ones(tmp_path: Path) -> None:
    """Those of Slipway, and those that other packages add."""
    _, unknown = _asked(tmp_path, {"louder": "loud_kinds:Loud"})
    assert unknown.startswith("UnknownKindError: there is no validation kind 'loud'")
    assert "one of classification, custom," in unknown
    assert "vectors, louder" in unknown


def test_a_kind_of_another_package_is_found(tmp_path: Path) -> None:
    """The class that the entry point names."""
    assert _asked(tmp_path, {"loud": "loud_kinds:Loud"})[1] == "loud_kinds"


def test_a_kind_of_slipway_is_read_without_a_look_at_installed_packages(tmp_path: Path) -> None:
    """A release file that names none of other packages costs no search among all that are installed."""
    program = """
        import importlib.metadata
        search = importlib.metadata.entry_points
        def searched(group):
            assert not group.startswith("slipway."), "all packages were searched"
            return search(group=group)  # pydantic looks for its plugins
        importlib.metadata.entry_points = searched
        from slipway_core.spec.release_file import parse_release_spec
        print(parse_release_spec("model: a\\nsource: {}\\nvalidation: {kind: text}", "a").validation.kind)
    """
    done = run_installed(tmp_path, program)
    assert done.stdout.strip() == "text", done.stderr

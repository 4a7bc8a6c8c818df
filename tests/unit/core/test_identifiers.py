"""Names of models and numbers of versions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway_core.errors import UnknownModelError, VersionInvalidError
from slipway_core.identifiers import list_models, parse_version, release_file, validate_model_name
from slipway_rules.text_forms import MODEL_NAME_LIMIT, VERSION_LIMIT


@given(st.from_regex(r"[a-z0-9]([-a-z0-9]{0,48}[a-z0-9])?", fullmatch=True))
def test_dns_labels_are_model_names(name: str) -> None:
    """Every DNS label of at most fifty characters is a model name and is returned as it is."""
    assert validate_model_name(name) == name


@given(st.text(max_size=60))
def test_a_name_that_is_accepted_is_safe_everywhere(name: str) -> None:
    """Whatever text is accepted is a DNS label, good as a path, a URL part and a Kubernetes name."""
    try:
        accepted = validate_model_name(name)
    except UnknownModelError:
        return
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", accepted, re.ASCII)
    assert len(accepted) <= MODEL_NAME_LIMIT


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("a/b", "'/'"),
        ("..", "'.'"),
        ("../digits", "'.' '/'"),
        ("Digits", "'D'"),
        ("dıgits", "'ı'"),
        ("digits\n", "\\n"),
        ("digits_2", "'_'"),
        ("-digits", "hyphen"),
        ("", "empty"),
        ("a" * 51, "51 characters"),
        (7, "int"),
    ],
)
def test_a_wrong_name_is_refused_with_its_reason(name: object, found: str) -> None:
    """Slashes, dots, upper case and look-alike letters are refused, and the message says what is wrong."""
    with pytest.raises(UnknownModelError) as caught:
        validate_model_name(name)
    assert found in (caught.value.found or "")


@given(st.integers(min_value=1, max_value=VERSION_LIMIT))
def test_versions_read_the_same_as_number_and_as_text(version: int) -> None:
    """A version is the same given as an int and as its decimal digits."""
    assert parse_version(version) == parse_version(str(version)) == version


@pytest.mark.parametrize(
    "value",
    [
        0,
        -1,
        True,
        1.0,
        None,
        "",
        "0",
        "01",
        " 1",
        "1 ",
        "1\n",
        "+1",
        "1_0",
        "1.0",
        "٣",
        "one",
        VERSION_LIMIT + 1,
        "9" * 5000,
    ],
)
def test_what_is_no_version_is_refused(value: object) -> None:
    """Zero, signs, spaces, leading zeros, booleans, floats, other digits and huge numbers are no versions."""
    with pytest.raises(VersionInvalidError):
        parse_version(value)


@given(st.text(max_size=25))
def test_only_canonical_digits_are_versions(text: str) -> None:
    """Text is a version only if writing the number gives the same text again."""
    try:
        version = parse_version(text)
    except VersionInvalidError:
        return
    assert str(version) == text


def test_models_are_listed_by_their_files(tmp_path: Path) -> None:
    """The models are the stems of the YAML files with a valid name, sorted; other files do not count."""
    for name in ("digits.yaml", "cats.yaml", "README.md", "Bad.yaml", ".hidden.yaml"):
        (tmp_path / name).touch()
    assert list_models(tmp_path) == ["cats", "digits"]
    assert list_models(tmp_path / "absent") == []


def test_an_unknown_model_names_the_known_ones_and_the_nearest(tmp_path: Path) -> None:
    """Asking for a model without a file lists those there are and suggests the nearest."""
    (tmp_path / "digits.yaml").touch()
    (tmp_path / "magika.yaml").touch()
    with pytest.raises(UnknownModelError, match=r"digits, magika.*Did you mean 'digits'"):
        release_file(tmp_path, "digit")


def test_a_known_model_gives_its_file(tmp_path: Path) -> None:
    """A known model gives the path of its release file."""
    (tmp_path / "digits.yaml").touch()
    assert release_file(tmp_path, "digits") == tmp_path / "digits.yaml"

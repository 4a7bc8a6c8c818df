"""Which files below a model's folder are the model's."""

from __future__ import annotations

import pytest

from slipway_rules.pod_files import is_model_file


@pytest.mark.parametrize("name", ["a", "a/1/model.py", "a.b/c", "../a"])
def test_a_file_of_the_model(name: str) -> None:
    """Whatever lies there by an open name; one that leads elsewhere counts too, so that it is refused and not lost."""
    assert is_model_file(name)


@pytest.mark.parametrize(
    "name", [".gitkeep", "a/.DS_Store", ".git/x", "a/__pycache__/m.pyc", "a/", "", "a//b"]
)
def test_what_is_none_of_the_models_files(name: str) -> None:
    """Hidden files, compiled Python, and the markers that stand for folders."""
    assert not is_model_file(name)

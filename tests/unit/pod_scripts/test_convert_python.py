"""convert_python.py: what it refuses of a model that was fetched."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest

import convert_python as program
from slipway_pod.errors import PodError
from tests.support.serving.broken_repositories import BAD_MODELS, bad_model
from tests.support.serving.ensembles import write_files


@pytest.mark.parametrize("name", BAD_MODELS)
def test_bad_model_is_refused_with_its_fault(tmp_path: Path, name: str) -> None:
    """What Triton could not load, or a release not answer for, is refused in words, and nothing is laid out."""
    source = write_files(tmp_path / "source", bad_model(name))
    options = Namespace(model="scale", version=7, try_import=False)
    with pytest.raises(PodError) as refusal:
        program.check(source, tmp_path / "repository", options)
    assert refusal.value.kind == "ModelInvalidError"
    assert BAD_MODELS[name][1] in str(refusal.value.to_json())
    assert not (tmp_path / "repository").exists()

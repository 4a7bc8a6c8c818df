"""What a converter's result says it has made."""

from __future__ import annotations

from typing import Any

import pytest

from slipway_core.errors import ModelInvalidError
from slipway_core.publishing.conversion_result import parse_converted
from slipway_core.publishing.manifest import FileEntry
from slipway_core.publishing.publication import PartsDigest

DIGEST = "a" * 64
SIGNATURE: dict[str, Any] = {
    "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 2]}],
    "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, 2]}],
}
BASE: dict[str, Any] = {"outcome": "pass", "error": None, "signature": SIGNATURE, "tools": {"numpy": "2"}}


def repository(*paths: str, models: tuple[str, ...] = ("top", "part")) -> dict[str, Any]:
    """Return a result with these files."""
    files = [{"path": path, "size_bytes": 3, "sha256": DIGEST} for path in paths]
    return {**BASE, "repository": {"files": files, "configs": dict.fromkeys(models, "name: 'x'")}}


def test_one_file_lies_in_the_models_version_folder() -> None:
    """A converter that made one file is the repository of one model, whose configuration is made elsewhere."""
    result = {**BASE, "model": {"file": "model.onnx", "size_bytes": 3, "sha256": DIGEST}}
    converted = parse_converted(result, "top", 4)
    assert converted.files == {"top/4/model.onnx": FileEntry(size_bytes=3, sha256=DIGEST)}
    assert converted.places == {"top/4/model.onnx": "model.onnx"}
    assert converted.config_texts == {}
    assert converted.tools == {"numpy": "2"}


def test_repository_keeps_its_paths() -> None:
    """A converter that made a repository has laid it out below its work folder as it will be published."""
    converted = parse_converted(repository("part/4/model.py", "part/labels.txt"), "top", 4)
    assert converted.places == {
        "part/4/model.py": "repository/part/4/model.py",
        "part/labels.txt": "repository/part/labels.txt",
    }
    assert converted.config_texts.keys() == {"top", "part"}


def test_large_files_and_inputs_keep_what_was_measured() -> None:
    """How S3 knows a file that went up in parts, and what the converter has read, travel with the result."""
    parts = {"size_bytes": 16777216, "sha256": f"{'A' * 43}="}
    read = {"size_bytes": 9, "sha256": DIGEST}
    one = {"file": "model.onnx", "size_bytes": 3, "sha256": DIGEST, "parts": parts}
    result = {**BASE, "model": one, "inputs": {"s3://b/incoming/top/4/model.pt": read}}
    converted = parse_converted(result, "top", 4)
    assert converted.parts == {"top/4/model.onnx": PartsDigest(**parts)}
    assert converted.inputs == {"s3://b/incoming/top/4/model.pt": FileEntry(**read)}


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (BASE, "neither `model` nor `repository`"),
        ({**BASE, "signature": None}, "signature"),
        (repository("stranger/4/model.py"), "files of no model: stranger/4/model.py"),
        (repository("part/../top/x"), "must be a relative path"),
        (repository(models=("part",)), "no configuration of 'top'"),
        ({**BASE, "model": {"file": "/etc/passwd", "size_bytes": 3, "sha256": DIGEST}}, "relative path"),
        ({}, "signature"),
    ],
    ids=[
        "nothing made",
        "no signature",
        "a stranger's file",
        "a way out",
        "no top",
        "an absolute path",
        "empty",
    ],
)
def test_result_that_does_not_say_what_was_made(result: dict[str, Any], words: str) -> None:
    """A result that is not whole is refused before anything is published."""
    with pytest.raises(ModelInvalidError, match="does not say what it made") as caught:
        parse_converted(result, "top", 4)
    assert words in (caught.value.found or "")

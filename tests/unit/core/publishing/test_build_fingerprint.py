"""When a version would be made of the same files in the same way."""

from __future__ import annotations

import pytest

from slipway_core.intake import ReadyFile
from slipway_core.publishing.build_fingerprint import other_files, recipe_bytes, recipe_of
from slipway_core.publishing.manifest import FileEntry, Provenance
from slipway_core.spec.release_file import ReleaseSpec, parse_release_spec

ONE_FILE = parse_release_spec("model: digits\nsource: {golden_file: held-out.npz}\n", "digits.yaml")
FOLDER = parse_release_spec(
    "model: digits\nsource: {format: repository}\nconversion: {target: ensemble}\n", "digits.yaml"
)
READY = ReadyFile(model="digits", version=1)


def others(source: Provenance, spec: ReleaseSpec, there: dict[str, bytes]) -> list[str]:
    sizes = {name: len(body) for name, body in there.items()}
    return other_files(source, spec, READY, sizes, lambda name: FileEntry.of(there[name]).sha256)


def test_the_golden_set_may_have_a_name_of_its_own() -> None:
    """The manifest has it under the usual name as well; that one need not lie in incoming/."""
    golden = FileEntry.of(b"golden")
    files = {"model.onnx": FileEntry.of(b"onnx"), "held-out.npz": golden, "golden.npz": golden}
    there = {"model.onnx": b"onnx", "held-out.npz": b"golden", "ready.json": b"{}"}
    assert others(Provenance(files=files), ONE_FILE, there) == []
    assert others(Provenance(files=files), ONE_FILE, {**there, "held-out.npz": b"golden set"}) == [
        "held-out.npz"
    ]


@pytest.mark.parametrize(
    ("there", "found"),
    [
        ({"repository/a/config.pbtxt": b"name", "golden.npz": b"g"}, []),
        ({"repository/a/config.pbtxt": b"mane", "golden.npz": b"g"}, ["repository/a/config.pbtxt"]),
        ({"golden.npz": b"g"}, ["repository/a/config.pbtxt"]),
        (
            {"repository/a/config.pbtxt": b"name", "golden.npz": b"g", "repository/a/1/model.py": b"new"},
            ["repository/a/1/model.py"],
        ),
    ],
)
def test_every_file_of_a_folder_counts(there: dict[str, bytes], found: list[str]) -> None:
    """One that was changed, has gone or has come is told by its name."""
    files = {"repository/a/config.pbtxt": FileEntry.of(b"name"), "golden.npz": FileEntry.of(b"g")}
    assert others(Provenance(files=files), FOLDER, there) == found


def test_a_recipe_is_what_the_file_says_of_the_bytes() -> None:
    """Where it is made, within which limits, and what it is held to is left out; so are defaults."""
    text = (
        "model: digits\nsource: {}\nconversion: {precision: fp16, timeout_s: 9, image: 'a/b:1', parity: {}}\n"
    )
    recipe = recipe_of(parse_release_spec(text, "digits.yaml"))
    assert recipe == {"source": {}, "conversion": {"precision": "fp16"}, "serving": {}, "config_sha256": None}
    assert recipe_bytes(ONE_FILE) != recipe_bytes(ONE_FILE, b"max_batch_size: 8")

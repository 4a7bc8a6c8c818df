"""The converters are single files, so they repeat text: the copies are alike."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).resolve().parents[3] / "include" / "pod_scripts"
ALL = ("estimator", "onnx", "pytorch")
HEADING = re.compile(r"^# -+ (common|rewriting): the same text in", re.MULTILINE)


def shared_texts(target: str) -> dict[str, str]:
    """The marked parts of a converter by name, each up to the next one or the end of the file."""
    parts = HEADING.split((PROGRAMS / f"convert_{target}.py").read_text())
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize(("part", "targets"), [("common", ALL), ("rewriting", ("onnx", "pytorch"))])
def test_copies_are_alike(part: str, targets: tuple[str, ...]) -> None:
    """A part that several converters share is the same text in each, and in no other."""
    assert tuple(target for target in ALL if part in shared_texts(target)) == targets
    first, *others = (shared_texts(target)[part] for target in targets)
    for target, text in zip(targets[1:], others, strict=True):
        assert text == first, f"copy the part {part!r} of one converter over that of convert_{target}.py"


def test_every_converter_is_looked_at() -> None:
    """No converter for a CPU is left out of these tests."""
    with_common_part = {
        path.stem.removeprefix("convert_")
        for path in PROGRAMS.glob("convert_*.py")
        if HEADING.search(path.read_text())
    }
    assert with_common_part == set(ALL)

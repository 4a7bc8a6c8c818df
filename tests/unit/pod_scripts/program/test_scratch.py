"""Where programs keep temporary files, and what they say where they cannot."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

from slipway_pod.errors import PodError
from slipway_pod.program import scratch
from slipway_pod.program.scratch import scratch_folder


def refuse(*_: Any, **__: Any) -> Any:
    raise FileNotFoundError(2, "No usable temporary directory found in ['/tmp']")


def test_the_folder_goes_with_the_block() -> None:
    """What was written there is gone afterwards, also when the block fails."""
    with scratch_folder("test-") as folder:
        (folder / "file").write_text("text")
    assert not folder.exists()
    with pytest.raises(ZeroDivisionError), scratch_folder("test-") as folder:
        raise ZeroDivisionError
    assert not folder.exists()


@pytest.mark.parametrize("named", [None, "/scratch"])
def test_a_folder_that_cannot_be_written_is_named_with_what_to_mount(
    monkeypatch: pytest.MonkeyPatch, named: str | None
) -> None:
    """The error names the path, who wanted to write, and both remedies; it is one that a person must fix."""
    monkeypatch.setattr(tempfile, "TemporaryDirectory", refuse)
    monkeypatch.delenv(scratch.FOLDER_VARIABLE, raising=False)
    if named:
        monkeypatch.setenv(scratch.FOLDER_VARIABLE, named)
    with pytest.raises(PodError) as caught, scratch_folder("test-"):
        pass
    error, place = caught.value, named or "/tmp"
    assert (error.kind, error.exit_code) == ("UserError", 3)
    assert error.what.startswith(f"{place} cannot be written to")
    assert f"user {os.getuid()}" in str(error)
    assert f"mount a volume at {place} (Kubernetes: an emptyDir" in str(error)
    assert "TMPDIR" in str(error)


def test_every_program_takes_its_folder_from_here() -> None:
    """No program asks tempfile itself, for whose error nobody would write a sentence."""
    package = Path(scratch.__file__).parents[1]
    sources = [path for path in package.parent.rglob("*.py") if path != Path(scratch.__file__)]
    assert [path.name for path in sources if "tempfile" in path.read_text(encoding="utf-8")] == []

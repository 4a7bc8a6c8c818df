from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from slipway_sandbox.host.files import replace_file


def test_a_file_is_written_with_its_folder(tmp_path: Path) -> None:
    """A folder that is missing is made; nothing but the file lies there afterwards."""
    path = tmp_path / "run" / "state.json"
    replace_file(path, "“one”")
    assert path.read_text(encoding="utf-8") == "“one”"
    assert [one.name for one in path.parent.iterdir()] == ["state.json"]


def test_who_has_the_file_open_goes_on_reading_the_old_text(tmp_path: Path) -> None:
    """The file is another one afterwards: no reader ever sees a part of the new text."""
    path = tmp_path / "state.json"
    replace_file(path, "old")
    with path.open(encoding="utf-8") as file:
        replace_file(path, "new")
        assert file.read() == "old"
    assert path.read_text(encoding="utf-8") == "new"


@pytest.mark.parametrize(("private", "mode"), [(True, 0o600), (False, 0o644)])
def test_a_private_file_is_its_owners_alone(private: bool, mode: int, tmp_path: Path) -> None:
    """What holds a secret can be read by nobody else, also where an earlier file could be; others follow the umask."""
    before = os.umask(0o022)
    try:
        path = tmp_path / "token"
        path.write_text("old")
        replace_file(path, "secret", private=private)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == mode


def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    """Text that cannot be written harms neither the file nor its folder."""
    path = tmp_path / "state.json"
    replace_file(path, "old")
    with pytest.raises(UnicodeEncodeError):
        replace_file(path, "\ud800")
    assert path.read_text() == "old"
    assert [one.name for one in tmp_path.iterdir()] == ["state.json"]


def test_a_name_may_be_as_long_as_the_file_system_allows(tmp_path: Path) -> None:
    """An object of the cluster may have a name of nearly that length."""
    path = tmp_path / ("a" * 255)
    replace_file(path, "text")
    assert path.read_text() == "text"

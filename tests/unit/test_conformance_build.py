"""The build of the conformance lane's programs, where there is no Go to build them with."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from tests.support.conformance import build

ALL = build.EVERY_MODULE
OF_OTHERS = [module for module in ALL if not module.main.startswith("slipway.dev/")]


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on PATH; the cache is empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "programs"))
    (tmp_path / "programs").mkdir()
    return tmp_path / "programs"


def test_without_go_the_build_says_so_and_fails(programs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code is not 0, and the message names what to install."""
    assert build.main() == 1
    assert "There is no `go` on PATH. Install Go 1.26.0 or later" in capsys.readouterr().err


def test_a_go_that_is_too_old_is_refused(programs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The message names the version that was found and the one that is needed."""
    go = programs / "go"
    go.write_text("#!/bin/sh\necho go1.21.3\n", encoding="utf-8")
    go.chmod(go.stat().st_mode | stat.S_IXUSR)
    assert build.main() == 1
    assert "Go 1.21.3 is too old for etcd: install Go 1.26.0 or later" in capsys.readouterr().err


def test_what_is_built_does_not_lie_in_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without XDG_CACHE_HOME the cache is below the home folder, and each module has a folder by its digest."""
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", "/home/somebody")
    folders = [module.cache for module in ALL]
    assert all(str(folder).startswith("/home/somebody/.cache/slipway/conformance/") for folder in folders)
    assert len(set(folders)) == len(ALL)


@pytest.mark.parametrize("module", OF_OTHERS, ids=lambda module: module.name)
def test_every_program_is_named_by_its_wrapper_module(module: build.WrapperModule) -> None:
    """go.sum covers what tools.go imports, so each program must be there."""
    tools = (module.folder / "tools.go").read_text(encoding="utf-8")
    assert [package for package in module.programs.values() if f'_ "{package}"' not in tools] == []
    assert f"{module.main} v" in (module.folder / "go.mod").read_text(encoding="utf-8")


def test_a_program_in_c_needs_a_compiler(programs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The message names the compiler."""
    go = programs / "go"
    go.write_text("#!/bin/sh\necho go1.26.8\n", encoding="utf-8")
    go.chmod(go.stat().st_mode | stat.S_IXUSR)
    assert build.main(["runc"]) == 1
    assert "runc is partly written in C: install gcc" in capsys.readouterr().err

"""Which state of the project runs: its version, and its git commit where there is one to tell."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from slipway.operators import project


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project's folder without git history, about which nothing is remembered."""
    monkeypatch.delenv(project.COMMIT_VARIABLE, raising=False)
    monkeypatch.setattr(project, "_ROOT", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    project.project_commit.cache_clear()
    project.project_version.cache_clear()
    yield tmp_path
    project.project_commit.cache_clear()
    project.project_version.cache_clear()


def git(folder: Path, *arguments: str) -> str:
    """Run git in the folder; return what it prints."""
    who = ["-c", "user.name=nobody", "-c", "user.email=nobody@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", "-C", str(folder), *who, *arguments], capture_output=True, check=True)
    return done.stdout.decode().strip()


@pytest.fixture
def commit(root: Path) -> str:
    """The one commit of the project, which has a tag too."""
    (root / "file").write_text("as committed")
    git(root, "init", "--quiet")
    git(root, "add", "file")
    git(root, "commit", "--quiet", "--message", "first")
    git(root, "tag", "v1.0")
    return git(root, "rev-parse", "HEAD")


def test_commit_is_told_whole(commit: str) -> None:
    """A clean checkout is named by all 40 digits, whatever tags there are."""
    assert project.project_commit() == commit
    assert len(commit) == 40


def test_changed_files_are_told(root: Path, commit: str) -> None:
    """A checkout with changes is not the commit."""
    (root / "file").write_text("changed")
    assert project.project_commit() == f"{commit}-dirty"


def test_without_history_nothing_is_made_up(root: Path) -> None:
    """A folder that is no checkout has no commit."""
    assert project.project_commit() == ""


def test_without_git_nothing_is_made_up(commit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the program git is missing nobody knows the commit, and that is no error."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert project.project_commit() == ""


def test_image_says_its_commit(commit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an image's variable says counts more than a checkout that happens to be there."""
    monkeypatch.setenv(project.COMMIT_VARIABLE, "0123abcd")
    assert project.project_commit() == "0123abcd"


def test_version_is_that_of_the_project_file(root: Path) -> None:
    """The version stands in pyproject.toml."""
    (root / "pyproject.toml").write_text('[project]\nname = "slipway"\nversion = "3.2.1"\n')
    assert project.project_version() == "3.2.1"


@pytest.mark.parametrize("text", [None, "no toml [", "[project]\n"], ids=["missing", "broken", "nameless"])
def test_version_that_nobody_knows(root: Path, text: str | None) -> None:
    """Without a project file, or a version in it, there is none."""
    if text is not None:
        (root / "pyproject.toml").write_text(text)
    assert project.project_version() == ""

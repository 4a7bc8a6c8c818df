"""The project says that it is at a known commit."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from slipway.operators import project
from tests.support.release.published_objects import COMMIT


@pytest.fixture(autouse=True)
def _commit(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The project says that it is at this commit."""
    monkeypatch.setenv(project.COMMIT_VARIABLE, COMMIT)
    project.project_commit.cache_clear()
    yield
    project.project_commit.cache_clear()

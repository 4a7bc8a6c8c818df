"""A canary's dependencies, each a process that is stopped, not killed, so that it keeps everybody waiting."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.guard.stage import Stage
from tests.support.stalled.services import StallableServices


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StallableServices]:
    """The dependencies, which the tests of this file share."""
    with StallableServices(tmp_path_factory.mktemp("stalls")) as one:
        yield one


@pytest.fixture
def stage(services: StallableServices, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """An InferenceService with version 2 live; the candidate's users are well."""
    for name, value in services.environment().items():
        monkeypatch.setenv(name, value)
    services.become()
    one = services.stage()
    yield one
    one.close()

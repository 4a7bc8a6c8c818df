"""The real programs that the serving sandbox is made of, started for the tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from include.sandbox.services.triton_install import TritonInstall
from tests.support.serving.envoy import Envoy, running_envoy
from tests.support.serving.models import write_repository
from tests.support.serving.triton_install import triton_install


@pytest_asyncio.fixture
async def envoy(tmp_path: Path) -> AsyncIterator[Envoy]:
    """A fresh Envoy that routes nothing yet."""
    async with running_envoy(tmp_path) as running:
        yield running


@pytest.fixture(scope="session")
def install() -> TritonInstall:
    """The private server folder, built from the Triton image's environment."""
    return triton_install()


@pytest.fixture(scope="session")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository whose model doubles."""
    return write_repository(tmp_path_factory.mktemp("repository"))

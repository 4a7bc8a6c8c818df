"""A lab of the tests' own, with one version live."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from benchmarks.live.session import live_model

if TYPE_CHECKING:
    from benchmarks.live.canary import LabModel


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabModel]:
    """A model whose canaries are watched in windows of one second."""
    with live_model(window_s=1, limit_s=60, root=tmp_path_factory.mktemp("lab")) as live:
        yield live

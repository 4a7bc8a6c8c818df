"""The cluster of a contract test: the emulated one, or the real one that the conformance lane names.

So one test says what holds for both.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kubernetes import client, config

from tests.support.cluster.emulator import Emulator

KUBECONFIG_VARIABLE = "SLIPWAY_TEST_KUBECONFIG"


class NamedCluster:
    """A cluster that runs already, and that nobody here starts or ends."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig

    def api_client(self) -> client.ApiClient:
        """Return a client that logs in with the kubeconfig."""
        return config.new_client_from_config(str(self.kubeconfig))


@contextmanager
def any_cluster(folder: Path, **settings: Any) -> Iterator[Emulator | NamedCluster]:
    """Have a cluster for as long as the block runs.

    :param folder: what an emulated cluster keeps.
    :param settings: an emulated cluster's.
    """
    named = os.environ.get(KUBECONFIG_VARIABLE)
    if named:
        yield NamedCluster(Path(named))
        return
    emulator = Emulator(folder, **settings)
    emulator.start()
    yield emulator
    emulator.stop()

"""The workflows, parsed once."""

from __future__ import annotations

import os
import socket
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from airflow.dag_processing.dagbag import DagBag
    from airflow.sdk.definitions.dag import DAG

# As the sandbox has it: a busy machine is no error in a DAG.
os.environ["AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT"] = "180"


@pytest.fixture(scope="session")
def bag() -> Iterator[DagBag]:
    """All DAGs, parsed with every warning an error and without any network."""
    from airflow.dag_processing.dagbag import DagBag

    from tests.support.dags.workflows import DAGS

    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        for call in ("connect", "connect_ex", "bind", "sendto"):
            patch.setattr(socket.socket, call, _refuse)
        patch.setattr(socket, "getaddrinfo", _refuse)
        warnings.simplefilter("error")
        # What other libraries warn of when they are imported is theirs.
        for module in ("airflow", "slipway", "slipway_core", "dags", "unusual_prefix"):
            warnings.filterwarnings("error", module=rf"{module}.*")
        yield DagBag(DAGS, safe_mode=False)


def _refuse(*_: Any, **__: Any) -> None:
    raise AssertionError("parsing a DAG must not talk to anybody")


@pytest.fixture
def release(bag: DagBag) -> DAG:
    """The DAG model_release."""
    return bag.dags["model_release"]

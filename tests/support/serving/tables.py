"""Real tritonservers that serve one model, `table`, each with a table of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from slipway_sandbox.services.triton import TritonPorts, TritonServer
from tests.support.serving.models import model_of_table, write_repository
from tests.support.serving.triton_install import triton_install

DOUBLE = [2.0] * 10
# For x = [3, 1] a tenth more, for x = [7, 1] the class flips, for x = [8, 1] nothing that anybody would mind.
OTHER = [2.0, 2.0, 2.0, 2.2, 2.0, 2.0, 2.0, -2.0, 2.000001, 2.0]
# x = [5, 1] and above is an error.
FAILING = DOUBLE[:5]

_MORE = "dynamic_batching { }"


@contextmanager
def running_tables(
    tables: Mapping[str, Sequence[float]],
    make_folder: Callable[[str], Path],
    models: Mapping[str, int] | None = None,
) -> Iterator[dict[str, TritonServer]]:
    """A server for each table, by its name, while the context lasts.

    :param models: the models that it is, each with its version.
    """
    install = triton_install()
    servers: dict[str, TritonServer] = {}
    try:
        for name, table in tables.items():
            folder = make_folder(name)
            for model, version in (models or {"table": 1}).items():
                versions = {version: model_of_table(table)}
                write_repository(folder / "repository", name=model, versions=versions, more=_MORE)
            servers[name] = TritonServer(
                install,
                folder / "repository",
                TritonPorts.free(),
                log_path=folder / "log",
                exit_timeout_s=3,
            )
            servers[name].start()
        for server in servers.values():
            server.wait_ready(60)
        yield servers
    finally:
        for server in servers.values():
            server.stop(grace_s=0.5)

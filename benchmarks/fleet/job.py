"""What a release of a fleet is started with. No Airflow in it: who starts the process need not import that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.fleet.plan import OnUnreachable

FLEET = "bench"


@dataclass(frozen=True)
class Job:
    """One release.

    :param ports: HTTP and gRPC port of each server, by its name.
    :param environment: how the object store is reached.
    :param folder: where steps, outcome and log are written.
    :param run_id: names the release; it is the same where one is tried again.
    """

    model: str
    version: int
    bucket: str
    ports: Mapping[str, tuple[int, int]]
    environment: Mapping[str, str]
    folder: Path
    run_id: str
    on_unreachable: OnUnreachable = "fail"
    unreachable_s: float = 30.0

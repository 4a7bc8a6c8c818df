"""An emulated cluster for each test file; stages and guards that end with the test."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster.emulator import Emulator
from tests.support.guard.stage import GuardProcess, Stage

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def shared_emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    """A cluster that the tests of one file share, each in a namespace of its own."""
    emulator = Emulator(tmp_path_factory.mktemp("cluster"))
    emulator.start()
    yield emulator
    emulator.stop()


@pytest.fixture
def make_stage(shared_emulator: Emulator) -> Iterator[Callable[..., Stage]]:
    """Makes stages in the shared cluster, or in one that is given."""
    stages: list[Stage] = []

    def make(emulator: Emulator | None = None, **settings: Any) -> Stage:
        stages.append(Stage(emulator or shared_emulator, f"models-{next(_numbers)}", **settings))
        return stages[-1]

    yield make
    for stage in stages:
        stage.close()


@pytest.fixture
def stage(make_stage: Callable[..., Stage]) -> Stage:
    """Version 2 is live, and there is no canary yet."""
    return make_stage()


@pytest.fixture
def start_guard(shared_emulator: Emulator, tmp_path: Path) -> Iterator[Callable[..., GuardProcess]]:
    """Starts guards that watch one stage."""
    guards: list[GuardProcess] = []

    def start(stage: Stage, *arguments: str, emulator: Emulator | None = None) -> GuardProcess:
        kubeconfig = (emulator or shared_emulator).kubeconfig
        folder = tmp_path / f"guard-{len(guards)}"
        guards.append(GuardProcess(kubeconfig, folder, "--namespace", stage.namespace, *arguments))
        return guards[-1]

    yield start
    for guard in guards:
        if guard.is_running:
            guard.kill()

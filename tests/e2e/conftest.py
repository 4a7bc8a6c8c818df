"""One sandbox for the session, and in it every story that a collected test asks for, all at the same time.

The story in which Airflow dies has a sandbox of its own.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
from rich.console import Console

from slipway_sandbox import lifecycle
from slipway_sandbox.host.progress import Steps
from slipway_sandbox.host.settings import PROJECT_ROOT, ROOT_VARIABLE, SandboxSettings
from slipway_sandbox.services import airflow
from tests.support.e2e.drift_story import DriftStory
from tests.support.e2e.fleet_story import LEFT, RIGHT, UNREACHABLE_S, FleetStory
from tests.support.e2e.grpc_story import GrpcStory
from tests.support.e2e.operations_stories import FourEyesStory, FrozenStory
from tests.support.e2e.outage_stories import OutageStory, outage_story
from tests.support.e2e.release_files import ON_CALL, write_fleet_file, write_release_files
from tests.support.e2e.running_sandbox import RunningSandbox
from tests.support.e2e.stories import (
    STORIES,
    DigitsStory,
    MagikaStory,
    OnCallStory,
    OneAtATimeStory,
    OnGpuStory,
)
from tests.support.examples import EXHAUSTIVE

STORY_LIMIT_S = 1740
TEST_LIMIT_S = 1800
OUTAGE = "outage"
# Airflow dies when the machine is quieter: while so many of the other stories are still told at most.
FEW_STORIES = 6
NEVER = "0 0 29 2 *"  # a leap day: practically no run but those that a test starts

_HERE = Path(__file__).parent
_SECONDS = pytest.StashKey[dict[str, float]]()

Story = TypeVar("Story")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs the sandbox; the first test that asks also waits for it to start."""
    for item in items:
        if _HERE in item.path.parents:
            for mark in (pytest.mark.sandbox, pytest.mark.slow, pytest.mark.timeout(TEST_LIMIT_S)):
                item.add_marker(mark)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Tell how long each story took: the longest ones decide how long all of it takes."""
    if seconds := config.stash.get(_SECONDS, {}):
        terminalreporter.section("stories")
        for name, taken in sorted(seconds.items(), key=lambda item: -item[1]):
            terminalreporter.write_line(f"{taken:6.0f} s  {name}")


@pytest.fixture(scope="session")
def root(request: pytest.FixtureRequest) -> Iterator[Path]:
    """The folder of the sandboxes, with these tests' release files; if all went well, it is removed."""
    with _own_root() as root, _interruptible(), pytest.MonkeyPatch.context() as environment:
        releases, fleets = root / "releases", root / "fleets"
        write_release_files(releases)
        write_fleet_file(fleets, ON_CALL, (LEFT, RIGHT), UNREACHABLE_S)
        environment.setenv("SLIPWAY_RELEASES_DIR", str(releases))
        environment.setenv("SLIPWAY_FLEETS_DIR", str(fleets))
        for schedule in ("SWEEP", "GC", "REVALIDATION", "FLEET_WATCH"):
            environment.setenv(f"SLIPWAY_{schedule}_CRON", NEVER)
        environment.delenv(ROOT_VARIABLE, raising=False)
        # Nothing that a DAG file reads changes here.
        environment.setattr(airflow, "DAG_FILES_READ_AGAIN_S", 600)
        # Where many releases are open at once, looking at them all the time takes most of a core. Each step of a
        # release waits for the next look, though: the few stories of CI are told sooner with more of them.
        environment.setattr(airflow, "SCHEDULER_RESTS_S", 1.0 if EXHAUSTIVE else 0.4)
        yield root
        if request.session.testsfailed == 0:
            shutil.rmtree(root, ignore_errors=True)


@pytest.fixture(scope="session")
def sandbox(root: Path) -> Iterator[RunningSandbox]:
    """A fresh sandbox, in which all stories are told but one."""
    with _running(root / "all", threading.Event()) as running:
        yield running


@contextmanager
def _running(root: Path, stop: threading.Event) -> Iterator[RunningSandbox]:
    """A fresh sandbox, ended whatever happens; `stop` ends every wait for it."""
    root.mkdir(mode=0o700)
    quiet = Steps(Console(quiet=True))
    try:
        yield RunningSandbox(lifecycle.up(root, quiet), stop)
    finally:
        lifecycle.down(root, quiet)


@pytest.fixture(scope="session")
def stories(
    root: Path, sandbox: RunningSandbox, request: pytest.FixtureRequest
) -> Iterator[Mapping[str, Future[Any]]]:
    """The stories that the collected tests ask for, begun; each runs in a thread of its own."""
    wanted = {name for item in request.session.items for name in getattr(item, "fixturenames", ())}
    seconds = request.config.stash[_SECONDS] = {}
    few_left = threading.Event()

    def played(name: str) -> Any:
        began = time.monotonic()
        try:
            if name != OUTAGE:
                return STORIES[name](sandbox)
            with _running(root / OUTAGE, sandbox.stop) as own:
                return outage_story(own, few_left)
        finally:
            seconds[name] = time.monotonic() - began

    names = [name for name in (*STORIES, OUTAGE) if name in wanted]
    with ThreadPoolExecutor(len(names), thread_name_prefix="story") as threads:
        try:
            begun = {name: threads.submit(played, name) for name in names}
            _tell_when_few_are_left(few_left, [future for name, future in begun.items() if name != OUTAGE])
            yield begun
        finally:
            sandbox.stop.set()


def _tell_when_few_are_left(few_left: threading.Event, others: Sequence[Future[Any]]) -> None:
    def look(_: object = None) -> None:
        if sum(not future.done() for future in others) <= FEW_STORIES:
            few_left.set()

    for future in others:
        future.add_done_callback(look)
    look()


@pytest.fixture(scope="session")
def digits(stories: Mapping[str, Future[Any]]) -> DigitsStory:
    """What came of the story of `digits`."""
    return _result(stories, "digits", DigitsStory)


@pytest.fixture(scope="session")
def one_at_a_time(stories: Mapping[str, Future[Any]]) -> OneAtATimeStory:
    """What came of the story of the model whose releases do not wait for each other."""
    return _result(stories, "one_at_a_time", OneAtATimeStory)


@pytest.fixture(scope="session")
def on_call(stories: Mapping[str, Future[Any]]) -> OnCallStory:
    """What came of the story in which a person reaches into a canary."""
    return _result(stories, "on_call", OnCallStory)


@pytest.fixture(scope="session")
def magika(stories: Mapping[str, Future[Any]]) -> MagikaStory:
    """What came of the story of a model that this project did not make."""
    return _result(stories, "magika", MagikaStory)


@pytest.fixture(scope="session")
def on_gpu(stories: Mapping[str, Future[Any]]) -> OnGpuStory:
    """What came of the story of a model that does not load."""
    return _result(stories, "on_gpu", OnGpuStory)


@pytest.fixture(scope="session")
def four_eyes(stories: Mapping[str, Future[Any]]) -> FourEyesStory:
    """What came of the story in which one person wants what only two may do."""
    return _result(stories, "four_eyes", FourEyesStory)


@pytest.fixture(scope="session")
def frozen(stories: Mapping[str, Future[Any]]) -> FrozenStory:
    """What came of the story of a model that is frozen, and of which old files are deleted."""
    return _result(stories, "frozen", FrozenStory)


@pytest.fixture(scope="session")
def drift(stories: Mapping[str, Future[Any]]) -> DriftStory:
    """What came of the story of a live model that is changed by hand."""
    return _result(stories, "drift", DriftStory)


@pytest.fixture(scope="session")
def fleet(stories: Mapping[str, Future[Any]], on_call: OnCallStory) -> FleetStory:
    """What came of the story of two servers beside the cluster, which get the versions of the story `on_call`."""
    return _result(stories, "fleet", FleetStory)


@pytest.fixture(scope="session")
def by_grpc(stories: Mapping[str, Future[Any]]) -> GrpcStory:
    """What came of the story of a model that is asked by gRPC alone."""
    return _result(stories, "by_grpc", GrpcStory)


@pytest.fixture(scope="session")
def outage(stories: Mapping[str, Future[Any]]) -> OutageStory:
    """What came of the story in which Airflow's own processes die."""
    return _result(stories, OUTAGE, OutageStory)


@pytest.fixture(scope="session")
def remote_logs(root: Path) -> Iterator[RunningSandbox]:
    """A sandbox of its own whose Airflow uploads the logs of tasks to the bucket, as Airflow's docs set that up."""
    options = {
        "remote_logging": "True",
        "remote_base_log_folder": f"s3://{SandboxSettings.bucket}/airflow-logs",
        "remote_log_conn_id": "aws_default",
    }
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(airflow, "NEEDED_OPTIONS", {**airflow.NEEDED_OPTIONS, "logging": options})
        with _running(root / "remote-logs", threading.Event()) as running:
            yield running


def _result(stories: Mapping[str, Future[Any]], name: str, kind: type[Story]) -> Story:
    told = stories[name].result(STORY_LIMIT_S)
    assert isinstance(told, kind)
    return told


@contextmanager
def _own_root() -> Iterator[Path]:
    """A short path, the same for every session of this checkout: what a killed one left is ended first."""
    name = hashlib.sha256(f"{PROJECT_ROOT} {os.getuid()}".encode()).hexdigest()[:8]
    root = Path(tempfile.gettempdir()) / f"slipway-e2e-{name}"
    state = PROJECT_ROOT / ".sandbox"
    state.mkdir(exist_ok=True)
    with (state / "e2e.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            pytest.fail(
                f"another session runs the end-to-end tests of this checkout in {root}", pytrace=False
            )
        for left in root.glob("*"):
            lifecycle.down(left, Steps(Console(quiet=True)))
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(mode=0o700)
        yield root


@contextmanager
def _interruptible() -> Iterator[None]:
    """Within it SIGTERM and SIGHUP do what Ctrl-C does, so that the sandbox is ended."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before: dict[int, Callable[..., Any] | int | None] = {
        number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

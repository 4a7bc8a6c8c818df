"""The lane of images: an engine, a base image, images built when a test asks for one, and a table at the end.

It is not part of CI. Where no engine is found it says so and ends with exit code 3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from slipway_sandbox.host.settings import PROJECT_ROOT
from slipway_sandbox.services.triton import TritonServer
from tests.support.containers.bases import Bases
from tests.support.containers.engine import Engine, NoEngineError, find_engine
from tests.support.containers.image_pod import ImagePod
from tests.support.containers.ledger import Entry, Ledger
from tests.support.pods.servers import running_models, running_store
from tests.support.pods.support import ObjectStore

LEDGER = pytest.StashKey[Ledger]()
BuildImage = Callable[[str], str]


def pytest_configure(config: pytest.Config) -> None:
    """Large images can be left out."""
    config.addinivalue_line("markers", "large: an image of more than 1 GB")
    config.stash[LEDGER] = Ledger()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let `-k perf-analyzer` find test_the_perf_analyzer_image_… too."""
    for item in items:
        item.extra_keyword_matches.add(item.name.replace("_", "-"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print what was built and run."""
    ledger = config.stash[LEDGER]
    if ledger.engine:
        terminalreporter.section("containers")
        for line in ledger.lines():
            terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def ledger(pytestconfig: pytest.Config) -> Ledger:
    return pytestconfig.stash[LEDGER]


@pytest.fixture(scope="session")
def engine(ledger: Ledger) -> Engine:
    try:
        found = find_engine()
    except NoEngineError as error:
        pytest.exit(str(error), returncode=3)
    ledger.engine = found.version()
    return found


@pytest.fixture(scope="session")
def bases(engine: Engine, ledger: Ledger) -> Bases:
    return Bases(engine, ledger)


@pytest.fixture(scope="session")
def build(engine: Engine, bases: Bases, ledger: Ledger) -> BuildImage:
    """Builds an image when it is first asked for; returns its name."""

    def build_once(name: str) -> str:
        image = f"localhost/slipway/{name}:lane"
        if name not in ledger.entries:
            dockerfile = PROJECT_ROOT / "include" / "images" / name / "Dockerfile"
            try:
                arguments = {"BASE_IMAGE": bases.of(dockerfile), "IMAGE_REVISION": "lane"}
            except NoEngineError as error:
                pytest.exit(str(error), returncode=3)
            seconds = engine.build(dockerfile, PROJECT_ROOT / "include", image, arguments)
            ledger.entries[name] = Entry(seconds, engine.size_mb(image))
        return image

    return build_once


@pytest.fixture(scope="session")
def store() -> Iterator[ObjectStore]:
    """An S3 with an empty bucket."""
    with running_store() as running:
        yield running


@pytest.fixture(scope="session")
def triton(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TritonServer]:
    """A tritonserver with small models."""
    with running_models(tmp_path_factory.mktemp("triton")) as server:
        yield server


@pytest.fixture
def pod(engine: Engine, build: BuildImage, store: ObjectStore) -> Callable[[str], ImagePod]:
    """Makes a pod of an image."""
    return lambda name: ImagePod(engine, build(name), store)


@pytest.fixture
def ran(ledger: Ledger) -> Callable[[str, str], None]:
    """Notes what was run in an image."""

    def note(name: str, what: str) -> None:
        ledger.entries[name].ran.append(what)

    return note

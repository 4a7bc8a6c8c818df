"""slipway_guard from the command line: arguments, exit codes, what it is made of."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest

from slipway_core.errors import ClusterUnavailableError
from slipway_guard import __main__ as program
from slipway_guard import log
from slipway_guard.cluster import Cluster, connect
from slipway_guard.watch import Guard, Sight, Terms
from slipway_sandbox.cluster.kubeconfig import write_kubeconfig
from slipway_sandbox.host.settings import PROJECT_ROOT
from tests.support.guard.guarded_canary import GuardedCanary, StoreCluster

TERMS = Terms(poll_s=0.01, missing_lease_s=0.1)


@pytest.fixture
def stop() -> threading.Event:
    """Nobody has asked the guard to stop."""
    return threading.Event()


@pytest.fixture(autouse=True)
def written() -> StringIO:
    """The log of the test."""
    stream = StringIO()
    log.set_up("info", stream)
    return stream


class Looks:
    """Sees one thing after another, and then the last one for ever."""

    def __init__(self, *sights: Sight | None) -> None:
        self._sights: Iterator[Sight | None] = iter(sights)
        self._last: Sight | None = None
        self.count = 0

    def __call__(self) -> Sight | None:
        """One look."""
        self.count += 1
        self._last = next(self._sights, self._last)
        return self._last


def test_the_watch_goes_on_until_it_is_told_to_stop(stop: threading.Event) -> None:
    """The loop looks again and again, whatever it sees, and ends with exit code 0."""

    def look() -> Sight | None:
        nonlocal count
        count += 1
        if count == 5:
            stop.set()
        return None if count % 2 else Sight(canaries=1)

    count = 0
    assert program.watch(look, TERMS, stop) == 0
    assert count == 5


def test_once_is_over_at_once_without_a_canary(stop: threading.Event) -> None:
    """One look is enough where there is nothing to watch."""
    looks = Looks(Sight())
    assert program.watch_once(looks, TERMS, stop) == 0
    assert looks.count == 1


def test_once_tries_again_until_it_has_seen_something(stop: threading.Event) -> None:
    """An API that answers late is in time."""
    assert program.watch_once(Looks(None, None, Sight()), TERMS, stop) == 0


def test_once_watches_for_as_long_as_the_longest_lease(stop: threading.Event) -> None:
    """A canary that is still there after its lease's duration, and was not ended, is driven by somebody."""
    looks = Looks(Sight(canaries=1, longest_lease_s=0.2))
    assert program.watch_once(looks, TERMS, stop) == 0
    assert looks.count >= 3


def test_once_sees_a_canary_to_its_end(stop: threading.Event) -> None:
    """A canary that is being ended when the time is over is not left half done."""
    ending = [Sight(canaries=1, ending=1, longest_lease_s=0.01)] * 20
    assert program.watch_once(Looks(*ending, Sight()), TERMS, stop) == 0


@pytest.mark.parametrize(
    "sight",
    [
        None,
        Sight(canaries=1, ending=1, longest_lease_s=0.01),
        Sight(canaries=1, left_alone=1, longest_lease_s=0.01),
    ],
    ids=["the API never answers", "users do not get off the candidate", "somebody else changed the canary"],
)
def test_once_fails_where_people_must_look(
    sight: Sight | None, stop: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 1 where a canary may be left on its users."""
    monkeypatch.setattr(program, "_ENDING_LIMIT_S", 0.2)
    assert program.watch_once(Looks(sight), TERMS, stop) == 1


def test_once_that_is_broken_off_fails(stop: threading.Event) -> None:
    """A run that was told to stop before it had seen enough does not say that all is well."""
    stop.set()
    assert program.watch_once(Looks(Sight(canaries=1, longest_lease_s=60)), TERMS, stop) == 1


def test_trouble_with_the_api_is_told_once_and_so_is_its_end(written: StringIO, tmp_path: Path) -> None:
    """A log of an outage has two lines, however long it took; the file for the probe is touched throughout."""
    cluster = StoreCluster(GuardedCanary(weight=0))
    alive = tmp_path / "alive"
    look = program._Looker(Guard(cluster, TERMS), alive, lambda: None)
    cluster.trouble["snapshot"] = "before"
    assert [look() for _ in range(5)] == [None] * 5
    assert alive.exists()
    cluster.trouble.clear()
    assert look() == Sight()
    events = [json.loads(line)["event"] for line in written.getvalue().splitlines()]
    assert events == ["api_unavailable", "api_back"]


def test_an_api_that_does_not_listen_is_a_transient_error(tmp_path: Path) -> None:
    """No connection is told as such, by its address, and quickly: the guard itself tries again."""
    kubeconfig = tmp_path / "kubeconfig"
    write_kubeconfig(kubeconfig, "http://127.0.0.1:9", "nobody")
    with pytest.raises(ClusterUnavailableError, match=r"listing inferenceservices failed.*refused"):
        Cluster(connect(str(kubeconfig)), ("models",)).snapshot()


@pytest.mark.parametrize(
    "arguments",
    [
        ["--poll-s", "0"],
        ["--poll-s", "nan"],
        ["--lease-grace-s", "-1"],
        ["--missing-lease-s", "0"],
        ["--poll-s", "soon"],
    ],
)
def test_arguments_that_make_no_sense_are_refused(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, and the message names the argument."""
    with pytest.raises(SystemExit) as refused:
        program.main(arguments)
    assert refused.value.code == 2
    assert arguments[0] in capsys.readouterr().err


@pytest.mark.parametrize("content", [None, "", "a: [b", "apiVersion: v1\nkind: Config\n"])
def test_a_cluster_that_cannot_be_found_is_the_persons_to_mend(
    content: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No kubeconfig, or one that says nothing: exit code 2 and what to do, not a traceback."""
    kubeconfig = tmp_path / "kubeconfig"
    if content is not None:
        kubeconfig.write_text(content)
    assert program.main(["--kubeconfig", str(kubeconfig)]) == 2
    assert "name a kubeconfig" in capsys.readouterr().err


def test_outside_a_cluster_a_kubeconfig_is_asked_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without arguments it takes a pod's service account; where there is none it says so."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert program.main([]) == 2
    assert "a pod's service account, or --kubeconfig" in capsys.readouterr().err


def test_the_help_explains_itself_without_docstrings() -> None:
    """`--help` says what the guard does and what its exit codes mean, also under -OO."""
    answer = subprocess.run(
        [sys.executable, "-OO", "-m", "slipway_guard", "--help"],
        cwd=PROJECT_ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    for words in ("Ends canaries that nobody drives", "--lease-grace-s", "exit codes:", "--alive-file"):
        assert words in answer.stdout


def test_the_image_holds_all_that_the_guard_imports() -> None:
    """What the program imports is Python's own, the project's domain, or pinned in the image's requirements."""
    listing = (
        "import slipway_guard.__main__, json, sys;"
        "print(json.dumps({n: m.__file__ for n, m in sys.modules.items() if n.startswith('slipway_')}))"
    )
    answer = subprocess.run(
        [sys.executable, "-c", listing],
        cwd=PROJECT_ROOT,
        env={"PYTHONPATH": str(PROJECT_ROOT / "include")},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    files: dict[str, str] = json.loads(answer.stdout)
    packages = {name.split(".")[0] for name in files}
    assert packages == {"slipway_guard", "slipway_kubernetes", "slipway_core"}
    dockerfile = (PROJECT_ROOT / "include/images/guard/Dockerfile").read_text(encoding="utf-8")
    copied = set(re.findall(r"^COPY (\w+)/ /opt/slipway/\1/$", dockerfile, re.MULTILINE))
    assert copied == packages
    requirements = (PROJECT_ROOT / "include/images/guard/requirements.txt").read_text(encoding="utf-8")
    pinned = set(re.findall(r"^([a-z0-9-]+)==", requirements, re.MULTILINE))
    used = {top for file in files.values() for top in imported_at_start(Path(file))}
    assert used - set(sys.stdlib_module_names) - packages - pinned == set()
    assert "kubernetes" in used & pinned


def imported_at_start(file: Path) -> Iterator[str]:
    """The top-level names of what a module imports when it is loaded; not what it does for the type checker."""
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield str(node.module).split(".")[0]

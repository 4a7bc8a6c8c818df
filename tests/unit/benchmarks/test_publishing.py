"""The publishing figures at a tiny size: our part is really run, the peers' programs are emulated by scripts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.figure import Figure, MeasureError
from benchmarks.publishing import measure as publishing
from tests.support.examples import nightly

pytestmark = pytest.mark.timeout(600)

PEERS = ("s5cmd", "aws")


@pytest.fixture
def peers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One repeat over 1 MiB; scripts in the peers' place write down what they are asked for."""
    monkeypatch.setattr(publishing, "GIB", 2**20)
    monkeypatch.setattr(publishing, "_REPEATS", 1)
    monkeypatch.setattr(publishing, "_peers", lambda: tmp_path)
    for peer in PEERS:
        emulate(tmp_path / peer, f'echo "$@" >> {tmp_path}/{peer}.calls')
    return tmp_path


def emulate(program: Path, line: str) -> None:
    """Put a script in a peer's place."""
    program.write_text(f"#!/bin/sh\n{line}\n")
    program.chmod(0o700)


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize(
    ("measure", "name"),
    [
        nightly(publishing.measure_1_file, "publish_1_file"),
        (publishing.measure_200_files, "publish_200_files"),
    ],
)
def test_rate_is_measured_beside_its_peers(peers: Path, measure: Callable[[], Figure], name: str) -> None:
    """The figure has a value, the peer's value of the same run, and the other peer's in its note."""
    figure = measure()
    assert (figure.name, figure.unit, figure.peer) == (name, "MB/s", "s5cmd")
    assert figure.value > 0
    assert figure.peer_value is not None
    assert figure.peer_value > 0
    assert "aws s3 cp: " in figure.note
    for peer in PEERS:
        (call,) = (peers / f"{peer}.calls").read_text().splitlines()
        assert "slipway-bench-" in call
        assert call.endswith(" s3://bench/peer/")


@pytest.mark.nightly
@pytest.mark.slow
def test_peak_memory_is_measured(peers: Path) -> None:
    """The peak is that of a process which has Airflow and boto3 in it, and no file of any size."""
    figure = publishing.measure_peak()
    assert (figure.name, figure.unit, figure.peer) == ("publish_peak_mib", "MiB", None)
    assert 50 < figure.value < 512


@pytest.fixture
def ours_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our part is said to be done: only the peers' is looked at."""
    monkeypatch.setattr(publishing, "_side", lambda *_: {"seconds": 1.0})


@pytest.mark.usefixtures("ours_is_done")
@pytest.mark.parametrize("peer", PEERS)
def test_peer_that_fails_gives_no_figure(peers: Path, peer: str) -> None:
    """A peer's error is the measurement's, in the peer's own words."""
    emulate(peers / peer, "echo no such bucket >&2; exit 3")
    with pytest.raises(MeasureError, match=rf"(?s){peer} failed:.*no such bucket"):
        publishing.measure_1_file()


@pytest.mark.usefixtures("ours_is_done")
def test_peer_that_is_not_there_gives_no_figure(peers: Path) -> None:
    """A program that cannot be started is named."""
    (peers / "aws").unlink()
    with pytest.raises(MeasureError, match="aws could not be run"):
        publishing.measure_1_file()


@pytest.mark.nightly
def test_publication_that_fails_gives_no_figure(peers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing was uploaded there is nothing to publish; that is no fast publication."""
    side = publishing._side

    def only_publish(one: str, *arguments: str) -> dict[str, float]:
        return {"seconds": 1.0} if one == "upload" else side(one, *arguments)

    monkeypatch.setattr(publishing, "_side", only_publish)
    with pytest.raises(MeasureError, match=r"python.* failed"):
        publishing.measure_1_file()
    assert not (peers / "s5cmd.calls").exists()

"""A fleet's file: what it may say, and what is said of a wrong one."""

from __future__ import annotations

from pathlib import Path

import pytest

from slipway_core.errors import SpecError
from slipway_core.fleet.document import FleetDocument
from slipway_core.fleet.fleet_file import list_fleets, load_fleet_file

LEAST = "fleet: edge\nmodel: digits\nconnections: [a, b]\n"


def written(folder: Path, text: str, name: str = "edge") -> Path:
    """Write a fleet's file; return the folder."""
    (folder / f"{name}.yaml").write_text(text)
    return folder


def test_least_that_a_file_says(tmp_path: Path) -> None:
    """Model and servers; everything else has a default."""
    file = load_fleet_file(written(tmp_path, LEAST), "edge")
    assert (file.model, file.connections, file.policy.on_unreachable) == ("digits", ("a", "b"), "fail")
    assert list_fleets(tmp_path) == ["edge"]


def test_servers_behind_a_service(tmp_path: Path) -> None:
    """A Service in a namespace, with the ports of its pods, and what becomes of one that is away."""
    text = (
        "fleet: edge\nmodel: digits\nservice: {name: triton, namespace: serving, http_port: 9000}\n"
        "policy: {on_unreachable: fence, unreachable_s: 12, least_servers: 3}\n"
    )
    file = load_fleet_file(written(tmp_path, text), "edge")
    assert file.service is not None
    assert (file.service.name, file.service.http_port) == ("triton", 9000)
    assert (file.policy.on_unreachable, file.policy.unreachable_s, file.policy.least_servers) == (
        "fence",
        12,
        3,
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("fleet: edge\nmodel: digits\n", "either `service` or `connections`"),
        (f"{LEAST}service: {{name: triton}}\n", "either `service` or `connections`"),
        ("fleet: edge\nmodel: digits\nconnections: [a, a]\n", "named once"),
        (f"{LEAST}polcy: {{}}\n", "polcy"),
        (f"{LEAST}policy: {{on_unreachable: wait}}\n", "on_unreachable"),
        ("fleet: other\nmodel: digits\nconnections: [a]\n", "about another fleet"),
    ],
)
def test_wrong_file_is_explained(tmp_path: Path, text: str, said: str) -> None:
    """The error names the key and the file."""
    with pytest.raises(SpecError) as caught:
        load_fleet_file(written(tmp_path, text), "edge")
    assert said in str(caught.value)
    assert "edge.yaml" in str(caught.value)


def test_fleet_without_a_file(tmp_path: Path) -> None:
    """The error names the fleets that there are."""
    with pytest.raises(SpecError, match="name one of edge"):
        load_fleet_file(written(tmp_path, LEAST), "eddge")
    with pytest.raises(SpecError, match=r"write .*none/edge\.yaml: no fleet has a file yet"):
        load_fleet_file(tmp_path / "none", "edge")


def test_document_is_read_as_it_was_written() -> None:
    """What is kept of a fleet in the bucket survives its bytes."""
    document = FleetDocument(fleet="edge", model="digits", version=3, fenced={"a": "away"})
    assert FleetDocument.from_bytes(document.to_bytes(), "it") == document

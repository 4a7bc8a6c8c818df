"""The lane with a real node, where what it needs is not there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.containers.engine import NoEngineError
from tests.support.containers.node.node_cluster import require_programs


def test_a_machine_without_the_programs_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message names each program that is missing, and the packages that have them."""
    monkeypatch.setattr(os, "getuid", lambda: 0)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoEngineError, match=r"without containerd, ctr, runc.*apt-get install.*containerd"):
        require_programs()


def test_who_is_not_root_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without root there are no namespaces, control groups and bridges to be made."""
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    with pytest.raises(NoEngineError, match="needs Linux and root"):
        require_programs()

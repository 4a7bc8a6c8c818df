"""The emulator's own settings: an error names file, key, what was expected and what was found."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slipway_sandbox.cluster.settings import ClusterConfigError, load_settings
from tests.support.cluster.emulator import ROOT, Emulator

COMPLETE = {
    "port": 6443,
    "token_file": "token",
    "state_dir": "state",
    "images_dir": "images",
    "pod_scripts_dir": "scripts",
}


def written(folder: Path, settings: Any, content: str = "t") -> Path:
    """The settings as a file, with a token file beside it."""
    (folder / "token").write_text(content, encoding="utf-8")
    path = folder / "cluster.json"
    path.write_text(settings if isinstance(settings, str) else json.dumps(settings), encoding="utf-8")
    return path


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    """A relative path is looked for beside the settings, wherever the process runs."""
    settings = load_settings(written(tmp_path, COMPLETE | {"node_env": {"AWS_REGION": "x"}}))
    assert settings.url == "http://127.0.0.1:6443"
    assert settings.token == "t"
    assert settings.node.state_dir == tmp_path.resolve() / "state"
    assert settings.node.environment == {"AWS_REGION": "x"}


@pytest.mark.parametrize(
    ("change", "token", "words"),
    [
        ({"port": "6443"}, "t", "port has the wrong type. Expected int; found str"),
        ({"port": True}, "t", "port has the wrong type"),
        ({"state_dir": None}, "t", "state_dir has the wrong type"),
        ({"token_file": "missing"}, "t", "token_file cannot be read"),
        ({}, " \n", "is empty"),
        ({"node_env": []}, "t", "node_env has the wrong type. Expected dict; found list"),
    ],
)
def test_a_wrong_key_is_named(tmp_path: Path, change: dict[str, Any], token: str, words: str) -> None:
    """The message names the file and the key, and says what to do."""
    path = written(tmp_path, COMPLETE | change, token)
    with pytest.raises(ClusterConfigError) as refused:
        load_settings(path)
    assert words in str(refused.value)
    assert str(path) in str(refused.value)


@pytest.mark.parametrize("key", sorted(COMPLETE))
def test_a_missing_key_is_named(tmp_path: Path, key: str) -> None:
    """Each key that there is no default for is asked for by name."""
    path = written(tmp_path, {name: value for name, value in COMPLETE.items() if name != key})
    with pytest.raises(ClusterConfigError, match=f"{key} is missing"):
        load_settings(path)


def test_what_is_no_json_is_refused(tmp_path: Path) -> None:
    """A file that cannot be parsed, or is not there, is named."""
    with pytest.raises(ClusterConfigError, match="cannot be read"):
        load_settings(written(tmp_path, "{"))
    with pytest.raises(ClusterConfigError, match="nowhere"):
        load_settings(tmp_path / "nowhere")
    with pytest.raises(ClusterConfigError, match="Expected an object"):
        load_settings(written(tmp_path, "[]"))


def test_a_busy_port_is_said_in_one_sentence(make_emulator: Callable[..., Emulator]) -> None:
    """A port that is taken ends the start with exit code 2 and the remedy, and no kubeconfig points to it."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        cluster = make_emulator(port=holder.getsockname()[1])
        result = subprocess.run(cluster.command(), cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert result.returncode == 2
    assert "host and port to be free" in result.stderr
    assert not cluster.kubeconfig.exists()


def test_the_kubeconfig_is_its_owners_alone(make_emulator: Callable[..., Emulator]) -> None:
    """The file holds the token, so nobody else may read it."""
    cluster = make_emulator()
    cluster.start()
    assert cluster.kubeconfig.stat().st_mode & 0o077 == 0

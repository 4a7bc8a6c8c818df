"""Absolute paths in configurations, where the smoke test's pod has another folder than the servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from slipway_pod.errors import PodError
from slipway_pod.smoke_test.serving_paths import lead_here

ROOT = "/mnt/models"


def repository(folder: Path, parameters: dict[str, str], name: str = "chat") -> Path:
    """A repository of one model with these parameters; returns its configuration."""
    (folder / name / "1").mkdir(parents=True)
    path = folder / name / "config.pbtxt"
    lines = [
        f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}'
        for key, value in parameters.items()
    ]
    path.write_text("\n".join(['backend: "python"', "# kept", *lines, ""]), encoding="utf-8")
    return path


def test_a_path_below_the_servers_folder_leads_to_the_pods(tmp_path: Path) -> None:
    """Files, a model's folder and the repository itself, whatever else a parameter says."""
    config = repository(
        tmp_path,
        {
            "file": f"{ROOT}/chat/1/words.json",
            "all": f"{ROOT}/",
            "near": "/mnt/models-old/chat",
            "within": f"see {ROOT}/chat",
        },
    )
    lead_here(tmp_path, [ROOT])
    text = config.read_text(encoding="utf-8")
    assert f'string_value: "{tmp_path}/chat/1/words.json"' in text
    assert f'string_value: "{tmp_path}"' in text
    assert 'string_value: "/mnt/models-old/chat"' in text
    assert f'string_value: "see {ROOT}/chat"' in text


def test_of_several_roots_the_longest_counts(tmp_path: Path) -> None:
    """A root of the release file's own below KServe's is cut off as a whole."""
    config = repository(tmp_path, {"file": f"{ROOT}/llm/chat/1/engine"})
    lead_here(tmp_path, [ROOT, f"{ROOT}/llm"])
    assert f'"{tmp_path}/chat/1/engine"' in config.read_text(encoding="utf-8")


def test_a_configuration_without_such_a_path_stays_as_it_was_published(tmp_path: Path) -> None:
    """Not a byte of it changes, comments and what cannot be parsed among them."""
    config = repository(tmp_path, {"file": "/opt/words.json"})
    config.write_bytes(config.read_bytes() + b"# \xe9\nnot a field\n")
    before = config.read_bytes()
    lead_here(tmp_path, [ROOT])
    assert config.read_bytes() == before


def test_a_path_into_another_model_than_the_versions_is_refused(tmp_path: Path) -> None:
    """The error names the parameter, the model, and those that are there."""
    repository(tmp_path, {"file": f"{ROOT}/other/1/words.json"})
    with pytest.raises(PodError) as raised:
        lead_here(tmp_path, [ROOT])
    assert "`file` in chat/config.pbtxt" in str(raised.value)
    assert (raised.value.expected, raised.value.found) == ("one of chat", "other")

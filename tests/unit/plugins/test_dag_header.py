"""What the DAGs share."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from slipway.dag_header import has_registry, header, model_param, releases_dir

from include.sandbox.host.settings import PROJECT_ROOT


def test_the_release_files_lie_where_the_deployment_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """By default they are the project's own; the form of a run offers those that are there."""
    monkeypatch.delenv("SLIPWAY_RELEASES_DIR", raising=False)
    assert releases_dir() == PROJECT_ROOT / "include" / "releases"
    (tmp_path / "ranker.yaml").write_text("model: ranker\nsource: {}\n", encoding="utf-8")
    monkeypatch.setenv("SLIPWAY_RELEASES_DIR", str(tmp_path))
    assert releases_dir() == tmp_path
    assert model_param().schema["enum"] == ["ranker"]


def test_a_dag_adds_what_its_own_tasks_are_given() -> None:
    """Owner, tags, page and no catching up are everyone's."""
    assert header("the page", "intake", retries=3, retry_delay=timedelta(seconds=1)) == {
        "doc_md": "the page",
        "catchup": False,
        "tags": ["slipway", "intake"],
        "default_args": {"owner": "slipway", "retries": 3, "retry_delay": timedelta(seconds=1)},
    }


@pytest.mark.parametrize(
    ("text", "has"),
    [
        ("registry:\n  mlflow: {}\n", True),
        ("model: digits\nregistry: {mlflow: {registered_model: a}}\n", True),
        ('{"model": "digits", "registry": {"mlflow": {}}}', True),
        ("'registry' : x\n", True),
        ("model: digits\n", False),
        ("# registry: none\n", False),
        ("conversion: {image: 'registry:5000/onnx:1'}\n", False),
        ("rollout:\n  registry: x\n", False),
    ],
)
def test_whether_a_release_file_has_a_registry(tmp_path: Path, text: str, has: bool) -> None:
    """Its text is searched: what is not found here is not scheduled."""
    assert not has_registry(tmp_path)
    (tmp_path / "magika.yaml").write_text("model: magika\n")
    (tmp_path / "digits.yaml").write_text(text)
    assert has_registry(tmp_path) is has

"""What the DAGs share."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from slipway.dag_header import (
    act_header,
    cron,
    has_registry,
    header,
    model_or_all_param,
    model_param,
    releases_dir,
    version_param,
)
from slipway_sandbox.host.settings import PROJECT_ROOT


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


def test_a_dag_adds_what_its_own_tasks_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """Owner, tags, page with its links, and no catching up are everyone's."""
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example.com")
    here = "https://airflow.example.com/slipway"
    links = f"[Models and versions]({here}/) · [Approvals]({here}/approvals) · [Calendar]({here}/calendar)"
    assert header("\nthe page", "intake", retries=3, retry_delay=timedelta(seconds=1)) == {
        "doc_md": f"{links}\n\n\nthe page",
        "catchup": False,
        "tags": ["slipway", "intake"],
        "default_args": {"owner": "slipway", "retries": 3, "retry_delay": timedelta(seconds=1)},
    }


def test_what_a_person_asks_for_is_done_at_once() -> None:
    """Such a DAG has no schedule; a task's limits are everyone's, but for those that it names."""
    made = act_header("page", "release", priority_weight=1000, execution_timeout=timedelta(minutes=1))
    assert made["schedule"] is None
    assert made["default_args"] == {
        "owner": "slipway",
        "retries": 3,
        "retry_delay": timedelta(seconds=5),
        "execution_timeout": timedelta(minutes=1),
        "priority_weight": 1000,
    }


def test_a_schedule_is_the_environments(monkeypatch: pytest.MonkeyPatch) -> None:
    """In UTC; without one it is the default."""
    monkeypatch.delenv("SLIPWAY_GC_CRON", raising=False)
    assert cron("SLIPWAY_GC_CRON", "0 3 * * 0").expression == "0 3 * * 0"
    monkeypatch.setenv("SLIPWAY_GC_CRON", "0 4 * * *")
    assert cron("SLIPWAY_GC_CRON", "0 3 * * 0").expression == "0 4 * * *"


@pytest.mark.parametrize("written", ["every ten minutes", "*/10 * * *", "61 * * * *", "0 0 31 2 *", "  "])
def test_a_mistyped_schedule_is_the_default(monkeypatch: pytest.MonkeyPatch, written: str) -> None:
    """What is no cron expression, or fires never, switches nothing off."""
    monkeypatch.setenv("SLIPWAY_SWEEP_CRON", written)
    assert cron("SLIPWAY_SWEEP_CRON", "*/10 * * * *").expression == "*/10 * * * *"


def test_a_field_that_may_be_empty_takes_null() -> None:
    """One model or all, a version or none."""
    one, version = model_or_all_param("every model"), version_param("which", is_needed=False)
    assert (one.value, one.schema["enum"][0], one.schema["type"]) == (None, None, ["null", "string"])
    assert one.schema["description_md"].startswith("Empty: every model. [What exists")
    assert (version.value, version.schema["type"]) == (None, ["null", "integer"])
    assert version_param("which").schema["type"] == "integer"


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

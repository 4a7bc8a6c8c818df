"""The ids of DAGs and tasks stand in one module of the plugins; the domain knows none. Files are read, not imported."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOMAIN, PLUGINS = ROOT / "include" / "slipway_core", ROOT / "plugins"
WORKFLOWS = PLUGINS / "slipway" / "workflows.py"


def texts(path: Path) -> Iterator[str]:
    """Yield the texts of a Python file that stand alone: a docstring or a sentence may name a DAG for people."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def named_by(*keywords: str) -> set[str]:
    """Return the texts that the DAGs give by such a keyword."""
    return {
        node.value.value
        for path in (ROOT / "dags").glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.keyword) and node.arg in keywords
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    }


DAGS = [path for path in (ROOT / "dags").glob("*.py") if path.stem != "slipway_settings"]
DAG_IDS = {path.stem for path in DAGS}
TASK_IDS = named_by("task_id")
GROUPED_TASK_IDS = {
    f"{group}.{task}" for group in named_by("group_id") | {"rollout", "staging"} for task in TASK_IDS
}


def found(folder: Path, ids: set[str], *, but: Path | None = None) -> dict[str, list[str]]:
    """Return the ids that stand in the Python files of a folder, by file."""
    files = (path for path in sorted(folder.rglob("*.py")) if path != but)
    named = {path.relative_to(ROOT).as_posix(): sorted(ids.intersection(texts(path))) for path in files}
    return {name: ids for name, ids in named.items() if ids}


def test_the_dags_are_those_of_the_one_module() -> None:
    """Each DAG takes its id from there, which is the name of its file."""
    constants = set(texts(WORKFLOWS))
    assert len(DAG_IDS) > 15
    assert constants >= DAG_IDS
    assert found(ROOT / "dags", DAG_IDS) == {}
    listed = ast.parse(WORKFLOWS.read_text(encoding="utf-8"))
    upper = {
        target.id.lower()
        for node in listed.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    assert upper >= DAG_IDS


@pytest.mark.parametrize(
    ("folder", "but"), [(DOMAIN, None), (PLUGINS, WORKFLOWS)], ids=["the domain", "the plugins"]
)
def test_no_id_of_a_dag_stands_elsewhere(folder: Path, but: Path | None) -> None:
    """The domain has names of its own for what people start; the plugins take the ids from the one module."""
    assert found(folder, DAG_IDS, but=but) == {}


def test_no_id_of_a_task_stands_in_the_domain() -> None:
    """A task within a group is named by both. What is no more than a word is also what the record calls a stage."""
    assert GROUPED_TASK_IDS & set(texts(WORKFLOWS)), "the ids are made as Airflow makes them"
    assert found(DOMAIN, GROUPED_TASK_IDS) == {}


def test_the_acts_know_no_task() -> None:
    """Beside the names of acts, of their actions and of what carries them out, which are words as well."""
    own = {"approve", "pause", "pin", "release", "sync", "benchmark"}
    assert found(DOMAIN / "acts", TASK_IDS - own) == {}


@pytest.mark.parametrize(
    "page", sorted((PLUGINS / "slipway" / "web" / "templates").rglob("*.j2")), ids=lambda path: path.stem
)
def test_no_page_has_an_id_of_a_dag(page: Path) -> None:
    """An address of Airflow's is made with the module's name for the DAG."""
    text = page.read_text(encoding="utf-8")
    assert [one for one in DAG_IDS if f"dags/{one}" in text or f'"{one}"' in text] == []

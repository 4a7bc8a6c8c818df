"""The way back waits for no page: nothing that gives users another version writes a model's document."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import slipway

ROOT = Path(slipway.__file__ or "").parent
ON_TRAFFIC = sorted(
    path
    for pattern in ("traffic/*.py", "triggers/*.py", "operators/restore.py", "operators/rollback.py")
    for path in ROOT.glob(pattern)
) + [
    ROOT / "operators" / name
    for name in ("canary.py", "canary_watch.py", "promote.py", "preview.py", "pause.py")
]


def imported(path: Path) -> set[str]:
    """Return the modules that a file imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
        elif isinstance(node, ast.Import):
            found |= {one.name for one in node.names}
    return found


@pytest.mark.parametrize("path", ON_TRAFFIC, ids=lambda path: path.name)
def test_what_leads_users_writes_no_document_of_a_model(path: Path) -> None:
    """Neither a raise nor a way back has a step that waits for the object store on behalf of pages."""
    assert imported(path).isdisjoint({"slipway.read_model.keeper", "slipway.read_model.writer"})

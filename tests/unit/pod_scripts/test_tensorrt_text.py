"""The two programs for GPUs are single files, so they repeat text: the copies are alike."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).resolve().parents[3] / "include" / "pod_scripts"
SHARED = (
    "PodError", "copy_lines", "crash_error", "fetch_if_there", "first_line", "memory_error", "positive",
    "program_error", "run_program", "s3_url", "say", "share", "split_url", "store_error", "timing_cache_url",
    "tool_versions", "unexpected", "whole",
)  # fmt: skip


def _definitions(program: str) -> dict[str, str]:
    tree = ast.parse((PROGRAMS / program).read_text())
    return {
        node.name: ast.unparse(node) for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }


@pytest.mark.parametrize("name", SHARED)
def test_copies_are_alike(name: str) -> None:
    """What both programs need is the same text in both."""
    one, other = _definitions("convert_tensorrt.py"), _definitions("convert_tensorrt_llm.py")
    assert one[name] == other[name], f"copy {name} of one program over that of the other"

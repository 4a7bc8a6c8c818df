"""A page is one file: its module is found, and its route asks who is there as every other one does."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from fastapi.routing import APIRoute

from slipway.web import pages
from slipway.web.access import may_read
from slipway.web.app import make_app

PAGE = """
from fastapi import APIRouter

router = APIRouter()


@router.get("/toy")
async def toy() -> str:
    return "a page"
"""


def test_a_module_with_a_router_is_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing else names it, and it is not open to strangers."""
    (tmp_path / "toy_page.py").write_text(PAGE)
    monkeypatch.setattr(pages, "__path__", [*pages.__path__, str(tmp_path)])
    try:
        (route,) = (one for one in make_app().routes if isinstance(one, APIRoute) and one.path == "/toy")
    finally:
        sys.modules.pop(f"{pages.__name__}.toy_page", None)
    assert may_read in [one.dependency for one in route.dependencies]

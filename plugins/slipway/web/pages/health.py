"""The header's part about health, for a page that is open, and the same for programs."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from slipway.web.health.parts import health_now
from slipway.web.rendering import render
from slipway.web.sources import kept_sources

router = APIRouter()


@router.get("/health")
def health(request: Request) -> HTMLResponse:
    """Return the header's part about health; the object store is asked for news by it, too."""
    kept = kept_sources()
    if kept is not None:
        kept.read_model.ask_in_background()
    return render(request, "health.html.j2")


@router.get("/api/health")
def health_json() -> dict[str, Any]:
    """Return which parts answer: of each the sentence that says what is wrong, "" for nothing."""
    found = health_now()
    return {"parts": {one.name: one.sentence for one in found.parts}, "is_known": found.is_known}

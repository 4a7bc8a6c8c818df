"""The overview: a line for each model."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from slipway.web.rendering import render

router = APIRouter()


@router.get("/")
def overview(request: Request) -> HTMLResponse:
    """Show every model."""
    return render(request, "overview/page.html.j2")

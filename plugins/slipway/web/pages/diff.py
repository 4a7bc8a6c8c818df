"""The page of two versions beside each other."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from slipway.web.comparison.comparison import compare
from slipway.web.comparison.side import side_of
from slipway.web.rendering import render
from slipway.web.sources import Read
from slipway_core.identifiers import parse_version, validate_model_name

router = APIRouter()


@router.get("/models/{model}/diff/{a}/{b}")
def diff(request: Request, sources: Read, model: str, a: str, b: str) -> HTMLResponse:
    """Show what differs between two versions of a model."""
    name, before, after = validate_model_name(model), parse_version(a), parse_version(b)
    known = sources.read_model.known_model(name)
    sides = [side_of(sources.store, known.value, version) for version in (before, after)]
    return render(
        request,
        "model/diff.html.j2",
        known=known,
        model=name,
        before=sides[0],
        after=sides[1],
        diff=compare(*sides),
    )

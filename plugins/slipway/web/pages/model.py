"""The page of a model: what is live, what was before, its versions as a time line."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, HTTPException, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from include.model_release.identifiers import parse_version, validate_model_name
from include.model_release.read_model.delivery import delivery_of
from include.model_release.read_model.documents import ModelDocument, VersionLine
from slipway.web.access import SignedIn
from slipway.web.known_models import known_model
from slipway.web.pages.model_acts import closing_buttons, model_acts
from slipway.web.pages.overview import live_documents
from slipway.web.pages.overview_lines import OverviewLine, overview_lines
from slipway.web.rendering import render
from slipway.web.sources import Read, Sources

router = APIRouter()

PAGE_LENGTH = 50
"""Versions on one page."""


@dataclass(frozen=True)
class VersionsPage:
    """A part of the versions, newest first; `older_than` is where the next part begins, None at the end."""

    lines: tuple[VersionLine, ...]
    older_than: int | None
    is_first: bool
    total: int


@router.get("/models/{model}")
def model_page(
    request: Request,
    sources: Read,
    user: SignedIn,
    model: str,
    before: Annotated[int | None, Query(ge=1)] = None,
) -> HTMLResponse:
    """Show a model, with the versions before a number."""
    known = known_model(sources, model)
    document, line = known.value, _line(sources, known.value)
    return render(
        request,
        "model/page.html.j2",
        known=known,
        model=document.model,
        document=document,
        line=line,
        acts=model_acts(request, user, document, line.freezes),
        closing=closing_buttons(request, user, document),
        live=None if document.live_version is None else document.line(document.live_version),
        previous=None if document.previous_version is None else document.line(document.previous_version),
        versions=_part(document, before),
        delivery=delivery_of(document),
    )


@router.get("/models/{model}/diff")
def choose_diff(
    request: Request, model: str, a: Annotated[str, Query()] = "", b: Annotated[str, Query()] = ""
) -> Response:
    """Lead from the form of a model's page to the page of the two versions that were chosen."""
    name = validate_model_name(model)
    if not (a and b):
        raise HTTPException(422, "Choose two versions.")
    one, other = sorted((parse_version(a), parse_version(b)))
    return RedirectResponse(f"{request.scope.get('root_path', '')}/models/{name}/diff/{one}/{other}", 303)


def _line(sources: Sources, document: ModelDocument) -> OverviewLine:
    models = {document.model: document}
    lives = live_documents(sources.read_model, models)
    return overview_lines(models, lives, sources.read_model.freezes(), datetime.now(UTC))[0]


def _part(document: ModelDocument, before: int | None) -> VersionsPage:
    left = [one for one in document.versions if before is None or one.version < before]
    shown = tuple(left[:PAGE_LENGTH])
    return VersionsPage(
        lines=shown,
        older_than=shown[-1].version if len(left) > len(shown) else None,
        is_first=before is None,
        total=len(document.versions),
    )

"""The audit's page, its files and its JSON; who may read Airflow's audit log of the releases may read it."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, HTTPException, Query, Request
from fastapi.responses import HTMLResponse, Response

from slipway.hooks.s3_store import ModelStoreHook
from slipway.read_model.answers import Known
from slipway.read_model.catalogue import Shown
from slipway.web.access import may_read_audit
from slipway.web.audit.export import to_csv, to_json_lines
from slipway.web.audit.reader import Audit, AuditQuery, AuditReader
from slipway.web.rendering import render
from slipway.web.sources import Read, Sources
from slipway_core.identifiers import validate_model_name

router = APIRouter(dependencies=[Depends(may_read_audit)])

DEFAULT_DAYS = 30
SHOWN = 500
"""Lines on the page; the files have all of them."""


def asked_of(
    model: Annotated[str, Query(max_length=100)] = "",
    person: Annotated[str, Query(max_length=250)] = "",
    begins: Annotated[str, Query(alias="from", max_length=40)] = "",
    ends: Annotated[str, Query(alias="to", max_length=40)] = "",
) -> AuditQuery:
    """Return what an address asks for: days or moments, ISO 8601; without a beginning, the last 30 days."""
    now = datetime.now(UTC)
    last = _moment(ends, time.max) if ends else now
    first = _moment(begins, time.min) if begins else last - timedelta(days=DEFAULT_DAYS)
    name = validate_model_name(model.strip()) if model.strip() else ""
    return AuditQuery(first, last, name, " ".join(person.split()))


Wanted = Annotated[AuditQuery, Depends(asked_of)]


@router.get("/audit")
def audit_page(request: Request, sources: Read, asked: Wanted) -> HTMLResponse:
    """Show what people did."""
    known, audit = _read(sources, asked)
    asked_for = {
        "model": asked.model,
        "person": asked.person,
        "from": asked.begins.date().isoformat(),
        "to": asked.ends.date().isoformat(),
    }
    return render(
        request,
        "audit/page.html.j2",
        known=known,
        models=sorted(known.value.models),
        audit=audit,
        shown=audit.acts[:SHOWN],
        asked=asked_for,
        query=urlencode({name: value for name, value in asked_for.items() if value}),
    )


@router.get("/audit.csv")
def audit_csv(sources: Read, asked: Wanted) -> Response:
    """Return the lines as a table."""
    return _file(to_csv(_read(sources, asked)[1].acts), "text/csv; charset=utf-8", "csv")


@router.get("/audit.jsonl")
def audit_json_lines(sources: Read, asked: Wanted) -> Response:
    """Return the lines as JSON documents."""
    return _file(to_json_lines(_read(sources, asked)[1].acts), "application/x-ndjson", "jsonl")


@router.get("/api/audit")
def audit_of_programs(sources: Read, asked: Wanted) -> dict[str, Any]:
    """Return the lines, and what was left out."""
    known, audit = _read(sources, asked)
    return {
        "read_at": known.read_at.isoformat(),
        "problem": known.problem,
        "left_out": audit.left_out,
        "acts": [act.model_dump(mode="json") for act in audit.acts],
    }


def _read(sources: Sources, asked: AuditQuery) -> tuple[Known[Shown], Audit]:
    known = sources.read_model.known_models()
    return known, _reader(sources.store).read(known.value.models, asked)


@lru_cache(maxsize=1)
def _reader(store: ModelStoreHook) -> AuditReader:
    return AuditReader(store)


def _file(text: str, content_type: str, suffix: str) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="slipway-audit.{suffix}"'}
    return Response(text, headers=headers, media_type=content_type)


def _moment(text: str, of_a_day: time) -> datetime:
    try:
        if len(text) == len("2026-01-02"):
            return datetime.combine(date.fromisoformat(text), of_a_day, tzinfo=UTC)
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise HTTPException(422, "Write a time as 2026-05-04 or as 2026-05-04T10:30:00Z.") from None

"""What the last examination of the installation found, with its age."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import HTMLResponse

from slipway.web.rendering import render
from slipway.web.sources import Read, Sources
from slipway_core.doctor.line import Status
from slipway_core.doctor.report import OLD_AFTER, REPORT_KEY, DoctorReport
from slipway_core.errors import UserError

router = APIRouter()


@router.get("/doctor")
def doctor(request: Request, sources: Read) -> HTMLResponse:
    """Show the lines, what needs a person first; and that nothing is known where there is no report."""
    problem, report = "", None
    try:
        report = _last(sources)
    except UserError as error:
        problem = str(error)
    now = datetime.now(UTC)
    return render(
        request,
        "doctor/page.html.j2",
        report=report,
        problem=problem,
        statuses=Status,
        is_old=report is not None and now - report.ended_at > OLD_AFTER,
    )


@router.get("/api/doctor")
def doctor_json(sources: Read) -> dict[str, Any]:
    """Return the last report, with its exit code and its age in seconds.

    :raises HTTPException: 404 where there is none.
    """
    report = _last(sources)
    if report is None:
        raise HTTPException(404, "The installation was not examined yet.")
    age_s = (datetime.now(UTC) - report.ended_at).total_seconds()
    return {**report.model_dump(mode="json"), "exit_code": int(report.code), "age_s": round(age_s)}


def _last(sources: Sources) -> DoctorReport | None:
    """Return the last report; None: there is none.

    :raises UserError: what lies there is no report.
    """
    content = sources.store.read(REPORT_KEY, most_bytes=DoctorReport.limit_bytes)
    return None if content is None else DoctorReport.from_bytes(content, sources.store.uri(REPORT_KEY))

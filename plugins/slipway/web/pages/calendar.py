"""The calendar: who has frozen what until when, and the release windows of every model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from slipway.dag_header import releases_dir
from slipway.read_model.catalogue import Shown
from slipway.web.pages.calendar_days import CalendarView, calendar_view
from slipway.web.rendering import render
from slipway.web.sources import Read
from slipway_core.errors import UserError
from slipway_core.identifiers import list_models
from slipway_core.read_model.documents import FreezeLine, ModelDocument
from slipway_core.spec.release_file import load_model_spec
from slipway_core.spec.rollout.release_windows import ReleaseWindow

router = APIRouter()

_FILES_KEPT = 500


@router.get("/calendar")
def calendar(request: Request, sources: Read) -> HTMLResponse:
    """Show the freezes, and the days of every model."""
    known, now = sources.read_model.known_models(), datetime.now(UTC)
    windows, wrong = release_windows(releases_dir())
    return render(
        request,
        "calendar/page.html.j2",
        known=known,
        freezes=_freezes(known.value, now),
        view=_view(known.value, windows, now),
        wrong=wrong,
    )


@router.get("/api/calendar")
def calendar_of_programs(sources: Read) -> dict[str, Any]:
    """Return the freezes in force, and each model's release windows."""
    known, now = sources.read_model.known_models(), datetime.now(UTC)
    windows, wrong = release_windows(releases_dir())
    return {
        "read_at": known.read_at.isoformat(),
        "problem": known.problem,
        "freezes": [
            {"model": model, **one.model_dump(mode="json")} for model, one in _freezes(known.value, now)
        ],
        "windows": {
            model: [one.model_dump(mode="json") for one in found] for model, found in windows.items() if found
        },
        "unreadable_release_files": wrong,
    }


def release_windows(folder: Path) -> tuple[dict[str, Sequence[ReleaseWindow]], dict[str, str]]:
    """Return the windows of every release file by model, and what is wrong with those that cannot be read."""
    found: dict[str, Sequence[ReleaseWindow]] = {}
    wrong: dict[str, str] = {}
    for model in list_models(folder):
        try:
            stat = (folder / f"{model}.yaml").stat()
            found[model] = _windows_of(folder, model, stat.st_mtime_ns, stat.st_size)
        except UserError as error:
            wrong[model] = error.in_short()
        except OSError as error:
            wrong[model] = f"its release file cannot be read: {error.strerror}"
    return found, wrong


@lru_cache(maxsize=_FILES_KEPT)
def _windows_of(folder: Path, model: str, changed_ns: int, size_bytes: int) -> tuple[ReleaseWindow, ...]:
    """Return the windows of a release file; a changed file is read again."""
    return tuple(load_model_spec(folder, model).rollout.release_windows)


def _freezes(shown: Shown, now: datetime) -> list[tuple[str | None, FreezeLine]]:
    """Return the freezes in force, each with its model (None: every one), the one that ends first first."""
    own = [
        (name, one)
        for name, found in shown.models.items()
        if isinstance(found, ModelDocument)
        for one in found.freezes
    ]
    every: list[tuple[str | None, FreezeLine]] = [(None, one) for one in shown.freezes]
    return sorted(
        ((model, one) for model, one in [*every, *own] if one.until > now), key=lambda found: found[1].until
    )


def _view(shown: Shown, windows: Mapping[str, Sequence[ReleaseWindow]], now: datetime) -> CalendarView:
    freezes = {
        name: [one for one in found.freezes if one.until > now] if isinstance(found, ModelDocument) else []
        for name, found in shown.models.items()
    }
    return calendar_view(windows, freezes, [one for one in shown.freezes if one.until > now], now)

"""From a run of Airflow to its page here: what the tab of a run leads to."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from slipway.web.rendering import render
from slipway.web.sources import Read
from slipway_core.read_model.documents import ModelDocument, Unreadable

router = APIRouter()

_NUMBER = re.compile(r"[1-9][0-9]{0,18}")


@router.get("/runs/{dag_id}/{run_id:path}")
def run_page(request: Request, sources: Read, dag_id: str, run_id: str) -> Response:
    """Lead to the release that a run is, or else to the model that its name begins with."""
    place = place_of(sources.read_model.models(), run_id)
    if place is None:
        return render(request, "runs/none.html.j2", dag_id=dag_id, run_id=run_id)
    return RedirectResponse(f"{request.scope.get('root_path', '')}{place}", 303)


def place_of(models: Mapping[str, ModelDocument | Unreadable], run_id: str) -> str | None:
    """Return the path of a run's page; None: the run names nothing that is known."""
    for name, found in models.items():
        for line in found.versions if isinstance(found, ModelDocument) else ():
            if line.release_id == run_id:
                return f"/models/{quote(name)}/versions/{line.version}"
    named = [name for name in models if run_id == name or run_id.startswith(f"{name}-")]
    if not named:
        return None
    model = max(named, key=len)
    number, _, _ = run_id.removeprefix(model).removeprefix("-").partition("-")
    document = models[model]
    # What a model's document does not tell yet, the release's own page does.
    is_known = isinstance(document, Unreadable) or any(
        str(one.version) == number for one in document.versions
    )
    has_version = is_known and _NUMBER.fullmatch(number) is not None
    return f"/models/{quote(model)}" + (f"/versions/{number}" if has_version else "")

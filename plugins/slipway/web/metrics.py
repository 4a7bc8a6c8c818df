"""The numbers of releases for Prometheus, which asks with the token of a person who may read the releases."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from slipway.monitoring.exposition import exposed
from slipway.monitoring.reading import seen_by
from slipway.web.sources import Read
from slipway_core.monitoring.samples import samples

METRICS_PATH = "/metrics"

router = APIRouter()


@router.get(METRICS_PATH)
def metrics(request: Request, sources: Read) -> Response:
    """Return every number, from what the pages' read model knows."""
    found = samples(seen_by(sources.read_model))
    content, content_type = exposed(found, request.headers.get("accept", ""))
    return Response(content, headers={"content-type": content_type})

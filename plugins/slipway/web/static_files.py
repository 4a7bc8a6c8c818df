"""Style sheets, scripts and pictures of this package, with an ETag; read once, when they are first asked for."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from fastapi import APIRouter, HTTPException, Request, Response

_FOLDER = Path(__file__).with_name("static")
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_YEAR_S = 365 * 24 * 3600

router = APIRouter()


@dataclass(frozen=True)
class StaticFile:
    """A file and how it is served."""

    body: bytes
    content_type: str
    digest: str


@cache
def static_files() -> dict[str, StaticFile]:
    """Return the files by their names."""
    found = {}
    for path in _FOLDER.iterdir():
        if path.suffix in _TYPES:
            body = path.read_bytes()
            found[path.name] = StaticFile(body, _TYPES[path.suffix], hashlib.sha256(body).hexdigest()[:16])
    return found


@router.get("/static/{name}")
def static_file(name: str, request: Request) -> Response:
    """Serve one file of the package."""
    found = static_files().get(name)
    if found is None:
        raise HTTPException(404, "There is no such file.")
    # Under the address with its digest a file never changes.
    is_named = request.query_params.get("v") == found.digest
    headers = {
        "ETag": f'"{found.digest}"',
        "Cache-Control": f"private, max-age={_YEAR_S}, immutable" if is_named else "no-cache",
    }
    if headers["ETag"] in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(found.body, headers=headers, media_type=found.content_type)

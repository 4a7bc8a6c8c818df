"""Evidence, served to who may read it: the pages and data that the gates, the canary and later checks wrote.

What lies in the bucket is not trusted. Only names below the allowed prefixes are read, up to a size; the content type
comes from the table here; and a page of evidence is shown in a sandbox in which nothing runs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import HTMLResponse, Response

from slipway.hooks.s3_listing import StoredObject
from slipway.hooks.s3_store import ModelStoreHook
from slipway.web.rendering import render
from slipway.web.sources import Read
from slipway_core.bucket_layout import repository_paths
from slipway_core.identifiers import parse_version, validate_model_name
from slipway_core.operations.layout import GC_PREFIX, REVALIDATION_PREFIX

router = APIRouter()

LIMIT_BYTES = 32 << 20
"""A larger object is not served."""
NAMES_LIMIT = 1000
_NAME_LIMIT = 500
_NAME = re.compile(r"[A-Za-z0-9_~][A-Za-z0-9._~-]*(?:/[A-Za-z0-9_][A-Za-z0-9._-]*){0,5}")
# The pages of evidence have their style within, and no script, no form and nothing from elsewhere.
SANDBOX_POLICY = "; ".join(
    (
        "sandbox",
        "default-src 'none'",
        "style-src 'unsafe-inline'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'self'",
    )
)
_TYPES = {
    "html": "text/html; charset=utf-8",
    "json": "application/json",
    "jsonl": "text/plain; charset=utf-8",
    "csv": "text/plain; charset=utf-8",
    "txt": "text/plain; charset=utf-8",
    "log": "text/plain; charset=utf-8",
}
_OTHER_TYPE = "application/octet-stream"
_KINDS = {"gc": GC_PREFIX, "revalidation": REVALIDATION_PREFIX}


@dataclass(frozen=True)
class Paper:
    """An object of evidence in a list; `name` is below the folder of its run."""

    name: str
    path: str
    size_bytes: int
    written_at: datetime
    is_page: bool


@dataclass(frozen=True)
class Folder:
    """What one run left, newest first among the folders of a version."""

    run: str
    papers: tuple[Paper, ...]


@router.get("/evidence/{model}/{version}/")
def evidence_list(request: Request, sources: Read, model: str, version: str) -> HTMLResponse:
    """Show what evidence there is of a version, by the runs that left it."""
    paths = repository_paths(validate_model_name(model), parse_version(version))
    entries = sources.store.entries(paths.evidence, most=NAMES_LIMIT)
    return render(
        request,
        "evidence/list.html.j2",
        model=paths.model,
        version=paths.version,
        folders=folders_of(paths.evidence, entries),
        is_cut=len(entries) == NAMES_LIMIT,
    )


@router.get("/evidence/{model}/{version}/{name:path}")
def evidence(sources: Read, model: str, version: str, name: str) -> Response:
    """Serve one object of a version's evidence."""
    prefix = repository_paths(validate_model_name(model), parse_version(version)).evidence
    return _served(sources.store, prefix, name)


@router.get("/reports/{kind}/{run}/{name:path}")
def report(sources: Read, kind: str, run: str, name: str) -> Response:
    """Serve what a run of `repository_gc` (`gc`) or of `model_revalidation` (`revalidation`) left."""
    prefix = _KINDS.get(kind)
    if prefix is None or "/" in run or not _is_name(run):
        raise HTTPException(404, "There are no reports of this kind.")
    return _served(sources.store, f"{prefix}{run}/", name)


def folders_of(prefix: str, entries: list[StoredObject]) -> list[Folder]:
    """Return the objects below a prefix by their first folder; what is no name of evidence is left out."""
    found: dict[str, list[Paper]] = {}
    for entry in entries:
        path = entry.key.removeprefix(prefix)
        run, slash, name = path.partition("/")
        if slash and _is_name(path):
            is_page = _suffix(name) == "html"
            found.setdefault(run, []).append(Paper(name, path, entry.size_bytes, entry.written_at, is_page))
    newest_first = sorted(
        found.items(), key=lambda item: max(one.written_at for one in item[1]), reverse=True
    )
    return [
        Folder(run, tuple(sorted(papers, key=lambda one: (not one.is_page, one.name))))
        for run, papers in newest_first
    ]


def _served(store: ModelStoreHook, prefix: str, name: str) -> Response:
    if not _is_name(name):
        raise HTTPException(404, "There is no evidence with this name.")
    body = store.read(f"{prefix}{name}", most_bytes=LIMIT_BYTES)
    if body is None:
        raise HTTPException(404, "There is no evidence with this name.")
    content_type = _TYPES.get(_suffix(name), _OTHER_TYPE)
    headers = {"Content-Security-Policy": SANDBOX_POLICY}
    if content_type == _OTHER_TYPE:
        headers["Content-Disposition"] = f'attachment; filename="{name.rpartition("/")[2]}"'
    return Response(body, headers=headers, media_type=content_type)


def _is_name(name: str) -> bool:
    return len(name) <= _NAME_LIMIT and ".." not in name and _NAME.fullmatch(name) is not None


def _suffix(name: str) -> str:
    return name.rpartition(".")[2].lower()

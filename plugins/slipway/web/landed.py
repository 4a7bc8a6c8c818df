"""Which versions of a model have landed, what is live and what is under way: what a form for a release offers."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from include.model_release.bucket_layout import READY_FILE, incoming_prefix
from include.model_release.errors import UnknownModelError
from include.model_release.read_model.documents import ModelDocument, Standing
from include.model_release.record.arrivals import version_folders
from include.model_release.record.events import Outcome
from slipway.web.sources import Sources

PAGES = 3
"""Of the listing of what has landed; a page has a thousand names."""


class LandedVersion(BaseModel):
    """A version that has landed.

    `is_complete` tells that training has written ready.json, None that it is not known. `outcome` is the newest
    release's, None where it was never released.
    """

    model_config = ConfigDict(frozen=True)

    version: int
    is_complete: bool | None
    outcome: Outcome | None = None
    standing: Standing = ""
    is_rejected: bool = False


class Landed(BaseModel):
    """What there is of a model; versions newest first. `is_whole` is false where more has landed than is listed."""

    model_config = ConfigDict(frozen=True)

    model: str
    versions: tuple[LandedVersion, ...]
    is_whole: bool
    live_version: int | None = None
    previous_version: int | None = None
    under_way: int | None = None


def landed_versions(sources: Sources, model: str) -> Landed:
    """Return what there is of a model below `incoming/`.

    :raises StoreUnavailableError: it cannot be told.
    """
    try:
        document = sources.read_model.model(model)
    except UnknownModelError:
        document = None
    complete, is_whole = _landed(sources, model)
    return Landed(
        model=model,
        versions=tuple(
            _line(version, complete[version], document) for version in sorted(complete, reverse=True)
        ),
        is_whole=is_whole,
        live_version=None if document is None else document.live_version,
        previous_version=None if document is None else document.previous_version,
        under_way=None
        if document is None or document.open_release is None
        else document.open_release.version,
    )


def _landed(sources: Sources, model: str) -> tuple[dict[int, bool | None], bool]:
    """Return the versions, each with whether its ready.json is there, and whether these are all."""
    prefix = incoming_prefix(model)
    names = sources.store.listing(prefix, pages=1)
    if names.is_whole:
        inside, _ = version_folders(prefix, (one.key for one in names.objects))
        return {version: READY_FILE in files for version, files in inside.items()}, True
    # Too many files to look at each: then a form offers every folder.
    folders = sources.store.listing(prefix, delimiter="/", pages=PAGES)
    inside, _ = version_folders(prefix, folders.folders)
    return dict.fromkeys(inside), folders.is_whole


def _line(version: int, is_complete: bool | None, document: ModelDocument | None) -> LandedVersion:
    known = None if document is None else document.line(version)
    if known is None:
        return LandedVersion(version=version, is_complete=is_complete)
    return LandedVersion(
        version=version,
        is_complete=is_complete,
        outcome=None if known.rejected_only else known.outcome,
        standing=known.standing,
        is_rejected=known.rejection is not None,
    )

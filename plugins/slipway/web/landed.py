"""Which versions of a model have landed, what is live and what is under way: what a form for a release offers."""

from __future__ import annotations

from slipway.web.sources import Sources
from slipway_core.bucket_layout import READY_FILE, incoming_prefix
from slipway_core.errors import UnknownModelError
from slipway_core.read_model.documents import ModelDocument
from slipway_core.read_model.landed import Landed, LandedVersion
from slipway_core.record.arrivals import version_folders

PAGES = 3
"""Of the listing of what has landed; a page has a thousand names."""


ACT_AGE_S = 3.0
"""No act is refused because of older data."""


def landed_versions(sources: Sources, model: str) -> Landed:
    """Return what there is of a model below `incoming/`.

    :raises StoreUnavailableError: that is unknown.
    """
    try:
        document = sources.read_model.known_model(model, most_age_s=ACT_AGE_S).value
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
        unusable=sources.read_model.known_landed(model, most_age_s=ACT_AGE_S).value,
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

"""What changed, read once for each state of a release: what was published does not change, and gates end once."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock

from slipway.hooks.s3_store import ModelStoreHook
from slipway.web.comparison.changes import Changes, changes_between
from slipway.web.comparison.side import side_of
from slipway_core.errors import SlipwayError
from slipway_core.read_model.documents import ModelDocument, VersionLine

_KEPT = 200
_known: OrderedDict[tuple[object, ...], Changes] = OrderedDict()
_lock = Lock()


def known_changes(store: ModelStoreHook, document: ModelDocument, line: VersionLine, stable: int) -> Changes:
    """Return what changed from `stable` to the version of `line`, or that it could not be read."""
    other = document.line(stable)
    key = (
        store.bucket,
        line.model,
        stable,
        "" if other is None else other.release_id,
        line.version,
        line.release_id,
        tuple((gate.stage, gate.outcome) for gate in line.gates),
    )
    with _lock:
        if key in _known:
            _known.move_to_end(key)
            return _known[key]
    try:
        found = changes_between(side_of(store, document, stable), side_of(store, document, line.version))
    except SlipwayError as error:
        return Changes(stable, line.version, absent=error.in_short())
    # What is not published yet is looked for again.
    if not found.absent:
        with _lock:
            _known[key] = found
            while len(_known) > _KEPT:
                _known.popitem(last=False)
    return found

"""Freezes in the object store, and what holds a model now by them and by its release windows."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime

from slipway.hooks.s3_store import ModelStoreHook
from slipway_core.errors import SlipwayError
from slipway_core.operations.freezes import (
    FREEZE_LIMIT_BYTES,
    Freeze,
    FreezeUnreadableError,
    first_key_after,
    freezes_prefix,
    is_lifted,
    lifted_key,
    parse_freeze,
    parse_freeze_name,
)
from slipway_core.operations.holds import Cause, Hold, causes_of, hold_of
from slipway_core.operations.windows import is_open
from slipway_core.record.state import HoldOverride
from slipway_core.spec.rollout.release_windows import ReleaseWindow

log = logging.getLogger(__name__)

# Freezes in force at once, and what lifts them; of more nobody knows what is meant.
_MOST_OBJECTS = 200
_SHOWN = 5


class HoldReader:
    """What holds the releases of one model.

    :param windows: the release file's.
    """

    def __init__(self, store: ModelStoreHook, model: str, windows: Sequence[ReleaseWindow]) -> None:
        self._store = store
        self._model = model
        self._windows = windows

    def hold(self, overrides: Sequence[HoldOverride], triggered_by: str | None) -> Hold | None:
        """Return what holds a version now; None: nothing does. What cannot be read holds it.

        :param overrides: those in the version's record.
        :param triggered_by: who started its release; None: an event or a schedule did.
        """
        try:
            causes = self.causes(datetime.now(UTC))
        except SlipwayError as error:
            log.warning("the freezes could not be read, so nothing is started or raised: %s", error)
            return Hold.unknown(error)
        return hold_of(causes, overrides, triggered_by=triggered_by)

    def causes(self, now: datetime) -> list[Cause]:
        """Return every reason to wait.

        :raises FreezeUnreadableError: the object in the place of a freeze is invalid.
        :raises StoreUnavailableError: nobody can tell.
        """
        freezes = [one for model in (None, self._model) for one in self.freezes(model, now)]
        return causes_of(now, self._model, self._windows, freezes)

    def freezes(self, model: str | None, now: datetime) -> list[Freeze]:
        """Return the freezes of a model, or (None) of every model, that have neither ended nor been lifted.

        :raises FreezeUnreadableError: the object in the place of one is invalid, or there are too many.
        :raises StoreUnavailableError: nobody can tell.
        """
        keys = self._keys(model, now)
        freezing = [key for key in keys if parse_freeze_name(key, model)]
        return [one for key in freezing if (one := self._in_force(key, keys)) is not None]

    def fingerprint(self) -> str:
        """Return a text that changes when a freeze is set, is lifted or ends, or a window opens or closes."""
        now = datetime.now(UTC)
        try:
            found = sorted(one.sha256 for model in (None, self._model) for one in self.freezes(model, now))
        except SlipwayError as error:
            return f"unreadable: {type(error).__name__}"
        return f"{is_open(self._windows, now)} {' '.join(found)}"

    def _keys(self, model: str | None, now: datetime) -> set[str]:
        prefix = freezes_prefix(model)
        found = self._store.entries(prefix, after=first_key_after(model, now), most=_MOST_OBJECTS + 1)
        if len(found) > _MOST_OBJECTS:
            raise FreezeUnreadableError(
                f"{self._store.uri(prefix)} has more objects than can be read",
                expected=f"at most {_MOST_OBJECTS} objects about freezes that have not ended",
                found="more",
                remedy="check these objects; only Slipway should write under records/",
            )
        keys = {entry.key for entry in found}
        strays = sorted(key for key in keys if parse_freeze_name(key, model) is None)
        if strays:
            log.warning("objects that are not freezes are skipped: %s", ", ".join(map(repr, strays[:_SHOWN])))
        return keys

    def _in_force(self, key: str, keys: set[str]) -> Freeze | None:
        one = parse_freeze(self._read(key), key)
        lifting = lifted_key(key)
        if lifting in keys and is_lifted(self._read(lifting), lifting, one):
            return None
        return one

    def _read(self, key: str) -> bytes:
        content = self._store.read(key, most_bytes=FREEZE_LIMIT_BYTES)
        if content is None:
            raise FreezeUnreadableError(
                f"{self._store.uri(key)} is gone",
                expected="the object that is listed",
                found="none",
                remedy="the DAG release_freeze lifts freezes and never deletes them: restore the object",
            )
        return content

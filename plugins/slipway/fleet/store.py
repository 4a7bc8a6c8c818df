"""A fleet's document in the object store: written under conditions, by one release at a time."""

from __future__ import annotations

from contextlib import suppress

from slipway.blocking_calls import BlockingCalls
from slipway.hooks.s3_store import ModelStoreHook
from slipway_core.errors import ReleaseInProgressError, SlipwayError
from slipway_core.fleet.document import LIMIT_BYTES, FleetDocument, fleet_key

# Of one request; the hook asks once more after it.
_ANSWER_LIMIT_S = 5.0
_CALL_LIMIT_S = 3 * _ANSWER_LIMIT_S
# For a question that must hold up nobody who leads servers back.
_GLANCE_LIMIT_S = 1.0


class FleetStore:
    """The document of one fleet, as it was last read or written here.

    A write holds only where nobody has written since: two releases of one fleet exclude each other, and of two
    processes that carry out the same one, the later.

    :param store: the bucket.
    """

    def __init__(self, store: ModelStoreHook, fleet: str, model: str) -> None:
        self._store = store.with_answer_limit(_ANSWER_LIMIT_S)
        self._key = fleet_key(fleet)
        self._calls = BlockingCalls("the object store", _CALL_LIMIT_S)
        self._etag: str | None = None
        self._holder = ""
        self.document = FleetDocument(fleet=fleet, model=model)

    @property
    def uri(self) -> str:
        """Return where the document lies."""
        return self._store.uri(self._key)

    async def read(self) -> FleetDocument:
        """Return the document; one without a version where nothing has been released.

        :raises StoreUnavailableError: it could not be read.
        :raises UserError: what lies there is none.
        """
        found = await self._calls.run(self._now)
        if found is None:
            self._etag = None
            self.document = FleetDocument(fleet=self.document.fleet, model=self.document.model)
        else:
            self.document, self._etag = FleetDocument.from_bytes(found[0], self.uri), found[1]
        return self.document

    async def write(self, document: FleetDocument) -> None:
        """Write the document.

        :raises ReleaseInProgressError: another process has written it since it was read here.
        :raises StoreUnavailableError: nobody knows whether it was written.
        :raises TimedOutError: the same.
        """
        if document.run is not None:
            self._holder = document.run.holder
        body = document.to_bytes()
        self._etag = await self._calls.run(lambda: self._written(body))
        self.document = document

    async def require_own(self) -> None:
        """Return where what was last written here is still the newest.

        :raises ReleaseInProgressError: another process has written since.
        :raises StoreUnavailableError: nobody knows.
        :raises TimedOutError: the same.
        """
        now = await self._calls.run(self._now)
        if now is None or (now[1] != self._etag and not self._is_own(now[0])):
            raise self._other()

    async def require_not_taken_over(self) -> None:
        """Return unless another process is known to have written since.

        A store that does not answer is waited for once, for a second; while it hangs it is not asked again. A document
        that is gone or invalid says nothing of another process.

        :raises ReleaseInProgressError: another process has written since what was last written here.
        """
        if self._calls.is_busy:
            return
        is_taken = False
        with suppress(SlipwayError):
            now = await self._calls.run(self._now, _GLANCE_LIMIT_S)
            is_taken = now is not None and now[1] != self._etag and not self._is_own(now[0])
        if is_taken:
            raise self._other()

    def _written(self, body: bytes) -> str:
        """Write, and return the tag by which the next write is held to this one."""
        if not self._put(body, self._etag):
            now = self._now()
            if now is None or now[0] == body:
                pass  # the answer to this write was lost on its way
            elif not self._is_own(now[0]) or not self._put(body, now[1]):
                raise self._other()
        now = self._now()
        if now is None or now[0] != body:
            raise self._other()
        return now[1]

    def _put(self, body: bytes, etag: str | None) -> bool:
        if etag is None:
            return self._store.write_once(self._key, body)
        return self._store.replace(self._key, body, etag)

    def _now(self) -> tuple[bytes, str] | None:
        return self._store.read_with_etag(self._key, most_bytes=LIMIT_BYTES)

    def _is_own(self, body: bytes) -> bool:
        """Return whether this process wrote it: a write that was given up may still be carried out."""
        run = FleetDocument.from_bytes(body, self.uri).run
        return run is not None and run.holder == self._holder

    def _other(self) -> ReleaseInProgressError:
        return ReleaseInProgressError(
            f"{self.uri} was written by another process",
            expected="one release of a fleet at a time",
            found="a change since it was read",
            remedy="find out which release of this fleet is under way; run this one again when that has ended",
        )

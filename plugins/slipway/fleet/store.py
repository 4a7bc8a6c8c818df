"""A fleet's document in the object store: written under conditions, by one release at a time."""

from __future__ import annotations

from include.model_release.errors import ReleaseInProgressError
from include.model_release.fleet.document import LIMIT_BYTES, FleetDocument, fleet_key
from slipway.blocking_calls import BlockingCalls
from slipway.hooks.s3_store import ModelStoreHook

# Of one request; the hook asks once more after it.
_ANSWER_LIMIT_S = 5.0
_CALL_LIMIT_S = 3 * _ANSWER_LIMIT_S


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
        self.document = FleetDocument(fleet=fleet, model=model)

    @property
    def uri(self) -> str:
        """Return where the document lies."""
        return self._store.uri(self._key)

    async def read(self) -> FleetDocument:
        """Return the document; one without a version where nothing was ever released.

        :raises StoreUnavailableError: it could not be read.
        :raises UserError: what lies there is none.
        """
        found = await self._calls.run(lambda: self._store.read_with_etag(self._key, most_bytes=LIMIT_BYTES))
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
        """
        body = document.to_bytes()
        await self._calls.run(lambda: self._put(body))
        # The tag is read again, and with it whether the bytes are ours.
        now = await self._calls.run(lambda: self._store.read_with_etag(self._key, most_bytes=LIMIT_BYTES))
        if now is None or now[0] != body:
            raise self._other()
        self.document, self._etag = document, now[1]

    def _put(self, body: bytes) -> None:
        if self._etag is None:
            written = self._store.write_once(self._key, body)
        else:
            written = self._store.replace(self._key, body, self._etag)
        if not written:
            # Ours all the same, where an answer was lost on its way.
            now = self._store.read(self._key, most_bytes=LIMIT_BYTES)
            if now != body:
                raise self._other()

    def _other(self) -> ReleaseInProgressError:
        return ReleaseInProgressError(
            f"{self.uri} was written by another process",
            expected="one release of a fleet at a time",
            found="a change since it was read",
            remedy="see which release of this fleet is under way; run this one again when that has ended",
        )

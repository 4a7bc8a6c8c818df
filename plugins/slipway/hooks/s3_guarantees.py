"""Whether an S3 server keeps what the lock and the record rely on, asked with objects of its own.

Some servers and proxies accept `If-None-Match` and `If-Match` but ignore them. Then two releases hold one model's lock,
or an event of a record is overwritten, and neither notices. So Slipway tests the store before a release begins.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from botocore.exceptions import ClientError

from slipway.hooks.s3_errors import is_missing, is_precondition_failed, repeat_until_decided, translated
from slipway.hooks.s3_store import ModelStoreHook
from slipway.hooks.s3_transfer import facts_of
from slipway_core.errors import SlipwayError, StoreUnfitError
from slipway_core.operations.layout import PROBE_PREFIX

log = logging.getLogger(__name__)

CREATORS = 16
"""How many write one key at once where that is tried."""

# Answers that say what the server makes of a request; any other is about rights, patience or the network.
_ANSWERS = frozenset({400, 404, 405, 411, 412, 501})
_FIRST, _SECOND, _THIRD = b"first", b"second", b"third"
_asked: dict[tuple[str, str, str], date] = {}


@dataclass(frozen=True)
class Guarantee:
    """One thing that was asked of the server.

    :param what: the request, in words.
    :param is_needed: a release relies on it; without the others Slipway does something else, which `otherwise` says.
    """

    what: str
    expected: str
    found: str
    is_kept: bool
    is_needed: bool = True
    otherwise: str = ""


def require_guarantees(store: ModelStoreHook) -> None:
    """Return where the bucket's server keeps what the lock and the record rely on.

    It is asked once a day by each process, with a dozen small requests.

    :raises StoreUnfitError: it does not.
    :raises StoreUnavailableError: it did not answer, or refuses objects below `PROBE_PREFIX`.
    """
    asked = (_endpoint(store), store.bucket, str(store.encryption))
    today = datetime.now(UTC).date()
    if _asked.get(asked) == today:
        return
    refuse_unfit(store, ask_guarantees(store))
    _asked[asked] = today


def refuse_unfit(store: ModelStoreHook, guarantees: list[Guarantee]) -> None:
    """Raise the error that names the first thing which is relied on and not kept.

    :raises StoreUnfitError: there is one.
    """
    broken = [one for one in guarantees if one.is_needed and not one.is_kept]
    if not broken:
        return
    more = f" ({len(broken) - 1} more are missing)" if len(broken) > 1 else ""
    raise StoreUnfitError(
        f"the object store at {_endpoint(store)}, bucket {store.bucket!r}, does not give the guarantees that locks "
        f"and records rely on: {broken[0].what}{more}",
        expected=broken[0].expected,
        found=broken[0].found,
        remedy="use a store that honors conditional requests, and no proxy in front of it that drops headers: "
        "docs/cluster.md lists the stores that were tested; `slipway store-check --bucket {store.bucket}` repeats "
        "the test",
    )


def ask_guarantees(store: ModelStoreHook, *, at_once: bool = False) -> list[Guarantee]:
    """Ask for each thing, with objects below `PROBE_PREFIX`, which are removed again.

    :param at_once: ask too whether of many creators at once one wins.
    :raises StoreUnavailableError: the server did not answer, or refuses the role such objects.
    """
    asking = _Asking(store)
    try:
        found = [*asking.conditions(), asking.listing(), *asking.content()]
        return [*found, asking.creators()] if at_once else found
    finally:
        asking.tidy()


class _Asking:
    """The questions, each with what was found."""

    def __init__(self, store: ModelStoreHook) -> None:
        self._store = store
        self._key = f"{PROBE_PREFIX}{secrets.token_hex(16)}"
        self._written: set[str] = set()

    def conditions(self) -> list[Guarantee]:
        """Create, replace and delete, each with a condition that holds and one that does not."""
        key, asked = self._key, []
        absent = f"{key}0"
        answer = self._put(key, _FIRST, IfNoneMatch="*")
        asked.append(
            self._done("PutObject with If-None-Match: * when there is no object", answer, key, _FIRST)
        )
        answer = self._put(key, _SECOND, IfNoneMatch="*")
        asked.append(self._refused("PutObject with If-None-Match: * over an object", answer, key, _FIRST))
        first = self._etag(key)
        answer = self._put(key, _SECOND, IfMatch=first)
        asked.append(self._done("PutObject with the If-Match of the object", answer, key, _SECOND))
        answer = self._put(key, _THIRD, IfMatch=first)
        asked.append(self._refused("PutObject with the If-Match of a former object", answer, key, _SECOND))
        answer = self._put(absent, _THIRD, IfMatch=first)
        asked.append(self._refused("PutObject with If-Match when there is no object", answer, absent, None))
        answer = self._delete(key, IfMatch=first)
        asked.append(self._refused("DeleteObject with the If-Match of a former object", answer, key, _SECOND))
        answer = self._delete(key, IfMatch=self._etag(key))
        asked.append(self._done("DeleteObject with the If-Match of the object", answer, key, None))
        return asked

    def listing(self) -> Guarantee:
        """Whether what was just written is listed, in its place."""
        keys = [f"{self._key}-{number}" for number in range(3)]
        for key in reversed(keys):
            self._put(key, _FIRST)
        listed = [entry.key for entry in self._store.entries(f"{self._key}-", after=keys[0])]
        return Guarantee(
            "a listing with StartAfter right after objects were written",
            "the objects after that key, in key order",
            "these" if listed == keys[1:] else f"{len(listed)} objects, different ones or in another order",
            listed == keys[1:],
        )

    def content(self) -> list[Guarantee]:
        """What becomes of a body that is not what its SHA-256 says, of a digest that is right, and of encryption."""
        key, right, wrong = f"{self._key}-c", hashlib.sha256(_FIRST), hashlib.sha256(_SECOND)
        answer = self._put(f"{key}r", _FIRST)
        if answer is not None:
            return [Guarantee("PutObject with the SHA-256 of its body", "stored", answer, is_kept=False)]
        known = self._digest(f"{key}r")
        reported = Guarantee(
            "HeadObject of an object that was written with its SHA-256",
            "that digest",
            "that digest" if known == right.hexdigest() else "none" if known is None else "another one",
            known == right.hexdigest(),
            is_needed=known not in (None, right.hexdigest()),
            otherwise="files are read to be compared with their manifest",
        )
        answer = self._put(key, _FIRST, ChecksumSHA256=base64.b64encode(wrong.digest()).decode())
        claimed = self._digest(key) if answer is None else None
        checked = Guarantee(
            "PutObject with a SHA-256 that is not the body's",
            "refused (HTTP 400)",
            answer
            or (
                "stored, and the wrong digest is reported as its own"
                if claimed
                else "stored, without a digest"
            ),
            answer is not None,
            # A digest that nobody has computed would be taken for what a file holds.
            is_needed=claimed == wrong.hexdigest(),
            otherwise="damage by the network is found when the object is read",
        )
        return [reported, checked, *self._encryption(f"{key}r")]

    def _encryption(self, key: str) -> list[Guarantee]:
        """Whether what was written is encrypted as it was asked for; nothing where nothing is asked for."""
        asked = self._store.encryption.get("ServerSideEncryption")
        if asked is None:
            return []
        found = self._head(key).get("ServerSideEncryption")
        what = f"PutObject with server-side encryption by {asked}"
        return [
            Guarantee(what, f"HeadObject reports {asked}", f"it reports {found or 'none'}", found == asked)
        ]

    def creators(self) -> Guarantee:
        """Whether exactly one of many that create an object at once succeeds."""
        keys = [f"{self._key}-race-{number}" for number in range(4)]
        with ThreadPoolExecutor(CREATORS) as pool:
            winners = []
            for key in keys:
                answers = pool.map(
                    lambda n, key=key: self._put(key, b"%d" % n, IfNoneMatch="*"), range(CREATORS)
                )
                winners.append(sum(answer is None for answer in answers))
        return Guarantee(
            f"{CREATORS} PutObject at once with If-None-Match: * for one key, {len(keys)} times",
            "exactly one each time",
            f"{', '.join(map(str, winners))} were reported as created",
            # One whose answer was lost asks again, and is refused by what he has written himself.
            max(winners) == 1,
        )

    def tidy(self) -> None:
        """Remove what was written; what cannot be removed is left."""
        try:
            for key in sorted(self._written):
                self._store.delete(key)
        except SlipwayError as error:
            log.warning("objects below %s are left: %s", PROBE_PREFIX, error)

    def _done(self, what: str, answer: str | None, key: str, content: bytes | None) -> Guarantee:
        """Carried out. A request whose answer was lost is sent again, and then refused by what it has done itself."""
        there = self._store.read(key)
        return Guarantee(what, "done", answer or _what_is_there(there, content), there == content)

    def _refused(self, what: str, answer: str | None, key: str, content: bytes | None) -> Guarantee:
        """Refused in the words that Slipway knows, and nothing has changed."""
        there = self._store.read(key)
        expected = "refused (HTTP 412 or 404)" if "If-Match" in what else "refused (HTTP 412)"
        words = answer is not None and (
            answer.startswith("412") or (answer[:3] == "404" and "If-Match" in what)
        )
        found = f"{answer or 'HTTP 200'}, and {_what_is_there(there, content)}"
        return Guarantee(what, f"{expected}, and the object is as it was", found, words and there == content)

    def _put(self, key: str, body: bytes, **more: str) -> str | None:
        self._written.add(key)
        digest = {} if "ChecksumSHA256" in more else {"ChecksumAlgorithm": "SHA256"}
        act = partial(self._store.client.put_object, Bucket=self._store.bucket, Key=key, Body=body)
        return self._answer(key, partial(act, **digest, **self._store.encryption, **more))

    def _delete(self, key: str, **condition: str) -> str | None:
        act = partial(self._store.client.delete_object, Bucket=self._store.bucket, Key=key)
        return self._answer(key, partial(act, **condition))

    def _answer(self, key: str, act: Callable[[], Any]) -> str | None:
        """Return what the server says to a request that it does not carry out; None: it has."""
        with translated(self._store.uri(key), self._store.aws_conn_id):
            try:
                repeat_until_decided(act)
            except ClientError as error:
                status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
                code = error.response.get("Error", {}).get("Code", "")
                if is_precondition_failed(error):
                    return f"412 {code}"
                if is_missing(error) and code != "NoSuchBucket":
                    return f"404 {code}"
                if status in _ANSWERS and code != "NoSuchBucket":
                    return f"{status} {code}"
                raise
        return None

    def _etag(self, key: str) -> str:
        found = self._store.read_with_etag(key)
        return '"none"' if found is None else found[1]

    def _digest(self, key: str) -> str | None:
        return facts_of(self._head(key)).sha256

    def _head(self, key: str) -> dict[str, Any]:
        with translated(self._store.uri(key), self._store.aws_conn_id):
            answer: dict[str, Any] = self._store.client.head_object(
                Bucket=self._store.bucket, Key=key, ChecksumMode="ENABLED"
            )
            return answer


def _what_is_there(there: bytes | None, wanted: bytes | None) -> str:
    if there == wanted:
        return "the object is as it was" if there is not None else "nothing is there"
    return (
        "the object is gone"
        if there is None
        else "the object was replaced"
        if wanted
        else "there is an object"
    )


def _endpoint(store: ModelStoreHook) -> str:
    """Return the server's address, without a name and a password that it may hold."""
    address = urlsplit(str(store.client.meta.endpoint_url))
    port = f":{address.port}" if address.port else ""
    return f"{address.scheme}://{address.hostname}{port}"

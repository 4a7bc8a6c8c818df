"""Looks at what has landed: one model at a time, several at once, each judged alone."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from slipway.hooks.s3_listing import Listing
from slipway.hooks.s3_store import ModelStoreHook
from slipway.release_record.history import LIST_PAGES, ModelHistory, Newest, is_taken_back
from slipway_core.errors import TimedOutError, TransientError, UserError
from slipway_core.intake import READY_LIMIT_BYTES, IncomingVersion, parse_ready
from slipway_core.record.arrivals import (
    Arrival,
    Kept,
    Upload,
    missing_releases,
    near_marker,
    version_folders,
)
from slipway_core.spec.rollout.rollout import AfterRollback
from slipway_core.written_numbers import counted

log = logging.getLogger(__name__)

_WORKERS = 8
_PROGRESS_S = 10.0
_READS_OF_A_MODEL = 200
_READY = "ready.json"


@dataclass
class Look:
    """What was found.

    `set_aside` says what starts nothing because something is wrong with it; `kept` is what was learnt of ready.json
    files that start nothing, so that they need not be read again.
    """

    arrivals: list[Arrival] = field(default_factory=list)
    set_aside: list[str] = field(default_factory=list)
    kept: dict[IncomingVersion, Kept] = field(default_factory=dict)

    def add(self, other: Look) -> None:
        """Takes over what another look has found."""
        self.arrivals += other.arrivals
        self.set_aside += other.set_aside
        self.kept |= other.kept


class ModelLook:
    """Looks at one model: two requests where nothing is new, and one more for each version that is.

    :param kept: what earlier looks have learnt; it saves reading, and says nothing of versions that an event names.
    :param now_s: seconds since 1970.
    :param until_s: by the monotonic clock, when no further request may begin.
    :param after_rollback: what a model's release file says of the time after a rollback; asked where it counts.
    """

    def __init__(
        self,
        store: ModelStoreHook,
        kept: Mapping[IncomingVersion, Kept],
        *,
        now_s: float,
        until_s: float,
        after_rollback: Callable[[str], AfterRollback] = lambda _: "wait",
    ) -> None:
        self._store = store
        self._kept = kept
        self._now_s = now_s
        self._until_s = until_s
        self._after_rollback = after_rollback

    def __call__(self, model: str, announced: Collection[int] = ()) -> Look:
        """Finds the versions of the model that are to be started; `announced` are those that events name.

        :raises TransientError: the store does not answer, or the time is up.
        :raises UserError: the model has more folders than are listed.
        """
        look = Look()
        landed = self._landed(model, announced, look)
        if not landed:
            return look
        history = self._history(model, look)
        newest = history.newest(max(landed))
        started = [] if newest.version is None else [IncomingVersion(model, newest.version)]
        offered = (IncomingVersion(model, version) for version in landed if version not in newest.rejected)
        new = missing_releases(offered, started)
        unread = [each for each in new if not self._recall(each, landed[each.version], announced, look)]
        if len(unread) > _READS_OF_A_MODEL:
            look.set_aside.append(
                f"{model}: {counted(len(unread), 'new version')} found; only the newest were read."
            )
        for incoming in unread[-_READS_OF_A_MODEL:]:
            self._judge(incoming, landed[incoming.version], look)
        if look.arrivals:
            self._keep_back(history, newest, look)
        if newest.version in landed and newest.began_at is not None:
            self._judge_again(history, started[0], landed[newest.version], newest.began_at, look)
        return look

    def _keep_back(self, history: ModelHistory, newest: Newest, look: Look) -> None:
        """Leaves what arrived to a person where the model was rolled back, unless its release file says otherwise."""
        attempts = None if newest.version is None else history.attempts(newest.version)
        if attempts is None or not attempts.taken_back:
            return
        self._require_time()
        model = look.arrivals[0].incoming.model
        if not is_taken_back(self._store, attempts) or self._after_rollback(model) == "continue":
            return
        versions = ", ".join(str(arrival.incoming.version) for arrival in look.arrivals)
        look.arrivals.clear()
        look.set_aside.append(
            f"{model}: version {newest.version} was rolled back, so a person must start the next release (version "
            f"{versions}). Remedy: start `model_release` by hand, or set `rollout.after_rollback: continue`."
        )

    def _landed(self, model: str, announced: Collection[int], look: Look) -> dict[int, Upload | None]:
        """The versions in ``incoming/``, with the upload of their ready.json if a single page has it."""
        prefix = f"incoming/{model}/"
        page = self._list(prefix, pages=1)
        uploads: dict[int, Upload | None]
        if page.is_whole:
            versions, strays = version_folders(prefix, (entry.key for entry in page.objects))
            written = {entry.key: Upload(entry.etag, entry.written_at) for entry in page.objects}
            look.set_aside += [
                f"{prefix}{version}/{near} announces no version: expected the name {_READY}"
                for version, inside in versions.items()
                if (near := near_marker(inside)) is not None
            ]
            uploads = {
                version: written[f"{prefix}{version}/{_READY}"]
                for version, inside in versions.items()
                if _READY in inside
            }
        else:
            page = self._list(prefix, delimiter="/")
            versions, strays = version_folders(
                prefix, [*(entry.key for entry in page.objects), *page.folders]
            )
            uploads = dict.fromkeys(versions)
            if not page.is_whole:
                look.set_aside.append(f"{prefix} has more in it than is listed.")
                uploads |= dict.fromkeys(announced)
        look.set_aside += [f"{stray!r} belongs to no version: expected {prefix}VERSION/…" for stray in strays]
        return uploads

    def _history(self, model: str, look: Look) -> ModelHistory:
        return ModelHistory(model, self._list, look.set_aside.append)

    def _recall(
        self, incoming: IncomingVersion, upload: Upload | None, announced: Collection[int], look: Look
    ) -> bool:
        """Whether it is known that this upload starts nothing."""
        known = self._kept.get(incoming)
        if known is None or upload is None or known.upload != upload.digest or incoming.version in announced:
            return False
        look.kept[incoming] = known
        if known.reason is not None:
            look.set_aside.append(known.reason)
        return True

    def _judge(self, incoming: IncomingVersion, upload: Upload | None, look: Look) -> None:
        """Reads the version's ready.json: one that starts by itself arrives, any other is remembered."""
        self._require_time()
        problem: UserError | None = None
        try:
            found = self._store.fetch(
                f"incoming/{incoming.model}/{incoming.version}/{_READY}", most_bytes=READY_LIMIT_BYTES
            )
            if found is None:
                return
            upload = Upload(found.etag, found.written_at)
            if parse_ready(found.body, incoming).start == "automatic":
                look.arrivals.append(Arrival.of(incoming, found.body, found.written_at))
                return
        except TransientError as error:
            look.set_aside.append(str(error))
            return
        except UserError as error:
            problem = error
            look.set_aside.append(str(error))
        if upload is not None:
            look.kept[incoming] = Kept.of(upload, self._now_s, problem)

    def _judge_again(
        self,
        history: ModelHistory,
        incoming: IncomingVersion,
        upload: Upload | None,
        began_at: datetime,
        look: Look,
    ) -> None:
        """Judges a version whose release has ended before users met it, if it was uploaded anew since."""
        if upload is not None and upload.written_at <= began_at:
            return
        attempts = history.attempts(incoming.version)
        if attempts is None or attempts.started_at is None or not attempts.can_be_followed:
            return
        upload = upload or self._upload_of(incoming)
        if upload is None or upload.written_at <= attempts.started_at:
            return
        # What lies in incoming/ need not be all that was ever started.
        newer = history.newest(but=incoming.version).version
        if newer is None or newer <= incoming.version:
            self._judge(incoming, upload, look)

    def _upload_of(self, incoming: IncomingVersion) -> Upload | None:
        key = f"incoming/{incoming.model}/{incoming.version}/{_READY}"
        first = [entry for entry in self._list(key, pages=1).objects if entry.key == key]
        return Upload(first[0].etag, first[0].written_at) if first else None

    def _list(
        self, prefix: str, *, delimiter: str = "", pages: int = LIST_PAGES, page_size: int | None = None
    ) -> Listing:
        self._require_time()
        return self._store.listing(prefix, delimiter=delimiter, pages=pages, page_size=page_size)

    def _require_time(self) -> None:
        if time.monotonic() > self._until_s:
            raise TimedOutError("this scan ran out of time", remedy="the next scan continues")


def look_at_models(
    look: Callable[[str, Collection[int]], Look], models: Mapping[str, Collection[int]], *, until_s: float
) -> Look:
    """Looks at many models, some at once; a model that cannot be judged is set aside with the reason.

    :param models: by name, the versions of each that events name.
    :param until_s: by the monotonic clock, when to go on without those that have not ended.
    :raises TransientError: no model could be looked at.
    """
    pool = ThreadPoolExecutor(_WORKERS, thread_name_prefix="intake")
    try:
        futures = {model: pool.submit(partial(look, model, announced)) for model, announced in models.items()}
        waiting: set[Future[Look]] = set(futures.values())
        while waiting and (left_s := until_s - time.monotonic()) > 0:
            _, waiting = wait(waiting, timeout=min(left_s, _PROGRESS_S))
            if waiting:
                log.info("scanned %s of %s models", len(futures) - len(waiting), len(futures))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    return _together(futures)


def _together(futures: Mapping[str, Future[Look]]) -> Look:
    found = Look()
    failures: list[BaseException] = []
    for model, future in futures.items():
        error = _error_of(future)
        if error is None:
            found.add(future.result())
            continue
        failures.append(error)
        found.set_aside.append(f"{model}: {error}")
        if not isinstance(error, UserError | TransientError):
            log.error("%s could not be judged", model, exc_info=error)
    lasting = [error for error in failures if not isinstance(error, UserError)]
    if lasting and len(failures) == len(futures):
        raise lasting[0]
    return found


def _error_of(future: Future[Look]) -> BaseException | None:
    if future.cancelled() or not future.done():
        return TimedOutError("it was not scanned in time", remedy="the next scan reads it")
    return future.exception()

"""What a release run asks before it raises a weight: this attempt's record, the manifest and the freezes, read anew."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime

from slipway.hooks.s3_store import ModelStoreHook
from slipway.registry.registry import ModelRegistry
from slipway.release_record.holds import HoldReader
from slipway.release_record.outbox import Outbox
from slipway.release_record.record import ReleaseRecord
from slipway.release_run import ReleaseRun
from slipway.workflows import MODEL_RELEASE
from slipway_core.errors import ReleaseHeldError, SlipwayError
from slipway_core.operations.holds import Hold
from slipway_core.operations.notices.of_release import held_notice
from slipway_core.permission.raise_permission import Raise, raise_refusal
from slipway_core.record.kinds import RaiseHeld
from slipway_core.record.state import ReleaseState

log = logging.getLogger(__name__)


class RaisePermit:
    """Asks on behalf of one release run.

    "Could not be read" permits nothing. No answer is kept: each asking lists the record, the manifest and the freezes
    anew, and reads again only what was not read before.

    :param outbox: takes the notice that a raise is held, which is written into the record too; None: nothing is
        written, for who asks right before a patch and tells whoever waits.
    """

    def __init__(self, store: ModelStoreHook, release_run: ReleaseRun, outbox: Outbox | None = None) -> None:
        self._store = store
        self._release_run = release_run
        self._outbox = outbox
        self._record = ReleaseRecord(store, release_run.model, release_run.version, release_run.release_id)

    def to(self, weight: int) -> Callable[[], None]:
        """Return what asks for this weight, to be called right before each patch that raises it."""
        return lambda: self.require(weight)

    def require(self, weight: int) -> None:
        """Return where the version may get `weight` percent of the traffic.

        :raises HandedOtherwiseError: this is not the release that was admitted.
        :raises RaiseRefusedError: the record does not show what that needs.
        :raises RecordError: the record cannot be right.
        :raises StoreUnavailableError: it could not be read.
        :raises ReleaseHeldError: a freeze or a closed window holds it, or nobody knows whether one does; to be asked
            again. What a version has already, nobody holds back.
        :raises ReleaseNotNowError: the same, and the release file does not wait for it.
        """
        release_run, record = self._release_run, self._record
        _, digest = ModelRegistry(self._store).require_with_digest(release_run.model, release_run.version)
        state = record.state()
        refusal = raise_refusal(Raise(release_run.release_id, weight, digest), state)
        if refusal is not None:
            raise refusal
        release_run.require_admitted(state)
        if weight > (state.weight or 0):
            self._require_free(record, state, weight)

    def _require_free(self, record: ReleaseRecord, state: ReleaseState, weight: int) -> None:
        rollout = self._release_run.spec.rollout
        reader = HoldReader(self._store, state.model, rollout.release_windows)
        hold = reader.hold(state.overrides, state.triggered_by)
        if hold is None:
            return
        what = f"the raise of version {state.version} of {state.model!r} to {weight} %"
        error = hold.error(what, refuse=rollout.on_hold == "refuse")
        if isinstance(error, ReleaseHeldError) and self._outbox is not None:
            self._note(self._outbox, record, state, weight, hold)
        raise error

    def _note(
        self, outbox: Outbox, record: ReleaseRecord, state: ReleaseState, weight: int, hold: Hold
    ) -> None:
        """Write and tell once what is waited for. What cannot be written changes nothing about the wait."""
        if hold.reason == state.held:
            return
        now, release_id = datetime.now(UTC), record.release_id
        outbox.tell(
            held_notice(
                state.model,
                state.version,
                hold,
                at=now,
                release_id=release_id,
                dag_id=MODEL_RELEASE,
                weight=weight,
            )
        )
        try:
            record.append(RaiseHeld(weight=weight, hold=hold.reason, until=hold.until))
        except SlipwayError as error:
            log.warning("that the raise waits could not be recorded: %s", error)

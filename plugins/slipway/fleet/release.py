"""A release to a fleet, from its beginning or from where an earlier process was killed."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from uuid import uuid4

from slipway.blocking_calls import BlockingCalls
from slipway.fleet.members import Members
from slipway.fleet.servers import FleetServers
from slipway.fleet.store import FleetStore
from slipway.release_record.fresh_permission import require_fresh
from slipway_core.errors import (
    ReleaseInProgressError,
    SlipwayError,
    StoreUnavailableError,
    TransientError,
    UserError,
)
from slipway_core.fleet.alias import LoadedVersion, loaded_version
from slipway_core.fleet.document import Before, FleetDocument, RunNote
from slipway_core.fleet.golden import GoldenRequest
from slipway_core.fleet.outcome import FleetOutcome, ServerOutcome, ServerResult
from slipway_core.fleet.plan import FleetRun, FleetStep, ServerView, next_step
from slipway_core.fleet.policy import FleetPolicy
from slipway_core.triton_config.options import Config

log = logging.getLogger(__name__)

_WAIT_S = 0.3
_PERMIT_LIMIT_S = 120.0


@dataclass(frozen=True)
class FleetRelease:
    """What is to be released to which servers.

    :param run_id: names the release; the same one again goes on with it.
    :param configs: the configurations of the version's models as published, by name. Each server's model repository
        has its files under `slipway_core.fleet.alias.version_name`.
    :param manifest_sha256: digest of the version's manifest.
    :param permit: raises unless users may get this version now; asked right before each commit, and blocking.
    :param golden: what all servers must answer alike; None: nothing is asked.
    :param is_running: whether the run that is under way, by its id, is still carried out by anybody. One that is not
        is taken back before this one begins.
    """

    fleet: str
    model: str
    version: int
    manifest_sha256: str
    configs: Mapping[str, Config]
    members: Members
    store: FleetStore
    run_id: str
    permit: Callable[[], None]
    golden: GoldenRequest | None = None
    policy: FleetPolicy = field(default_factory=FleetPolicy)
    is_running: Callable[[str], bool] = lambda run_id: True


async def release_fleet(release: FleetRelease) -> FleetOutcome:
    """Bring a version to all servers of a fleet, or lead all back to what they had.

    Killed and run again with the same `run_id` it goes on, or leads back.

    :raises ReleaseInProgressError: another release of this fleet is under way; no server was changed. Or another
        process has taken this one over; nothing more is changed here.
    :raises StoreUnavailableError: the object store is away: before anything was changed, or when all servers have the
        version already and that cannot be written down. Run again.
    :raises UserError: this version cannot be released to a fleet; or the policy says that servers are fenced, and they
        cannot be.
    :raises TransientError: nobody knows which servers there are, or whether one could be fenced.
    """
    store = release.store
    document = await store.read()
    if document.model != release.model or document.fleet != release.fleet:
        raise UserError(
            f"the fleet {release.fleet!r} serves another model",
            expected=release.model,
            found=document.model,
            remedy="correct the fleet's name, or give this model its own fleet",
        )
    wanted = loaded_version(release.model, release.version, release.configs, release.manifest_sha256)
    left, had = document.run, dict[str, Before]()
    if left is not None and left.run_id != release.run_id:
        if release.is_running(left.run_id):
            raise ReleaseInProgressError(
                f"a release of the fleet {release.fleet!r} is under way",
                expected="none",
                found=f"{left.run_id}, of version {left.version}",
                remedy="wait until it has ended, or run it again",
            )
        log.warning("%s was left unfinished: ending it first", left.run_id)
        # One that was draining has committed: what it left loaded is unloaded with the rest.
        had = {} if left.phase == "drain" else await _ended(release, left)
        left = None
    if left is None and release.policy.on_unreachable == "fence":
        await release.members.require_fencing()
    return await _Carrier(release, wanted, store, had).carry_out(left)


async def settle_fleet(release: FleetRelease) -> FleetOutcome | None:
    """End what is left of a release that was cut short: lead the servers back, or unload what they had before.

    :returns: None where nothing is left of it.
    :raises SlipwayError: as `release_fleet`.
    """
    left = (await release.store.read()).run
    if left is None or left.run_id != release.run_id:
        return None
    if left.phase == "drain":
        return await release_fleet(release)
    return await _lead_back(release, left)


async def _ended(release: FleetRelease, left: RunNote) -> dict[str, Before]:
    """Lead back a release that another run has left; return what those servers had that it did not reach.

    One of these may go on later and serve what it was asked for then: that is never what it is led back to.
    """
    outcome = await _lead_back(replace(release, run_id=left.run_id, version=left.version), left)
    ended = {name for name, one in outcome.servers.items() if one.state not in ("unreachable", "failed")}
    return {name: had for name, had in left.before.items() if name not in ended}


async def _lead_back(release: FleetRelease, left: RunNote) -> FleetOutcome:
    back = left.model_copy(update={"phase": "back"})
    return await _Carrier(release, None, release.store).carry_out(back)


class _Carrier:
    """Carries out one release; what it intends is written down before it is done.

    :param wanted: the version to load; None: the release is only led back.
    :param had: what some servers had before, where that is known already; the others say it themselves.
    """

    def __init__(
        self,
        release: FleetRelease,
        wanted: LoadedVersion | None,
        store: FleetStore,
        had: Mapping[str, Before] | None = None,
    ) -> None:
        self._release = release
        self._wanted = wanted
        self._store = store
        self._servers = FleetServers(release.members, release.model, release.version, wanted, release.policy)
        self._permit = BlockingCalls("the permission to commit", _PERMIT_LIMIT_S)
        self._note = RunNote(
            run_id=release.run_id,
            holder=uuid4().hex,
            version=release.version,
            manifest_sha256=release.manifest_sha256,
            phase="prepare",
            began=datetime.now(UTC),
            before=dict(had or {}),
        )
        self._from_version: int | None = None
        self._reasons: list[str] = []
        self._began = time.monotonic()
        self._prepare_s: float | None = None
        self._commit_s: tuple[float, float] | None = None

    async def carry_out(self, left: RunNote | None) -> FleetOutcome:
        """Go on until nothing is left to do."""
        self._from_version = self._store.document.version
        if left is not None:
            log.info("continuing with %s in the phase %s", left.run_id, left.phase)
            self._note = left.model_copy(update={"holder": self._note.holder})
            self._reasons = list(left.reasons)
            self._servers.fenced = dict(self._store.document.fenced)
            if left.phase != "prepare":
                self._servers.may_be_asked_still(left.before)
        # A new release asks those again that an earlier one has taken out.
        await self._write(self._note)
        if self._note.phase == "commit":
            await self._enter(FleetStep("enter", phase="commit"))  # the permission may have gone meanwhile
        while True:
            views = await self._look()
            step = next_step(self._run(), views, self._release.policy)
            if step.act == "finish":
                return await self._finish(step, views)
            await self._do(step)

    def _run(self) -> FleetRun:
        had = {name: before.version for name, before in self._note.before.items()}
        return FleetRun(self._note.phase, self._release.version, had)

    async def _look(self) -> dict[str, ServerView]:
        views = await self._servers.look(self._note.phase, self._note.before)
        new, silent = await self._servers.unknown_before(self._note.before)
        if new:  # what a server had is written down before anything is changed there
            note = self._note.model_copy(update={"before": {**self._note.before, **new}})
            if self._from_version is None and self._note.phase == "prepare":
                self._from_version = max((one.version for one in new.values() if one.version), default=None)
            await self._intend(note)
        if self._note.phase == "back":  # nothing was changed on those
            silent = {}
        known = {name: view for name, view in views.items() if view.away_s is not None}
        return {**known, **{name: views[name] for name in self._note.before if name in views}, **silent}

    async def _do(self, step: FleetStep) -> None:
        log.info("%s %s%s", step.act, ", ".join(step.servers) or step.phase or "", _because(step.reasons))
        if step.act == "enter":
            await self._enter(step)
        elif step.act == "fence":
            await self._fence(step)
        elif step.act == "wait":
            await asyncio.sleep(_WAIT_S)
        elif step.act in ("prepare", "commit") and not await self._may_go_on():
            return
        elif step.act == "commit":
            await self._commit(step.servers)
        else:
            await self._act(step)

    async def _act(self, step: FleetStep) -> None:
        if step.act in ("restore", "clean", "drain"):
            # A process that was stopped may go on when a later release has ended: what is loaded is that one's now.
            await self._store.require_not_taken_over()
        if not await self._servers.act(step.act, step.servers, self._note.before, self._release.golden):
            await asyncio.sleep(_WAIT_S)

    async def _commit(self, servers: tuple[str, ...]) -> None:
        # A server that joins a fleet which has the version already gives it no more users.
        if self._note.phase == "commit" and not await self._is_permitted():
            return
        began = time.monotonic()
        good, answered = await self._servers.commit(servers)
        self._commit_s = (self._commit_s[0] if self._commit_s else began, answered)
        if not good:
            await asyncio.sleep(_WAIT_S)

    async def _may_go_on(self) -> bool:
        """Return whether nobody has taken over; where nobody knows, all are led back.

        A run that a person has stopped is settled at once, while the process that carried it out still lives: that must
        not give users the version again.
        """
        try:
            await self._store.require_own()
        except TransientError as error:
            self._reasons.append(f"it is unknown whether another process has taken over: {error.in_short()}")
            await self._enter_back()
            return False
        return True

    # --- what is written down ---

    async def _enter(self, step: FleetStep) -> None:
        assert step.phase is not None  # noqa: S101  what `enter` is
        self._reasons += step.reasons
        if step.phase == "commit":
            await self._enter_commit()
        elif step.phase == "back":
            await self._enter_back()
        else:
            await self._enter_drain()

    async def _enter_commit(self) -> None:
        """Ask whether users may get the version, and write down that they will; anything wrong leads back."""
        if self._prepare_s is None:
            self._prepare_s = time.monotonic() - self._began
        if await self._is_permitted():
            await self._intend(self._note.model_copy(update={"phase": "commit"}))

    async def _is_permitted(self) -> bool:
        """Return whether users may get the version at this moment; where they may not, or nobody knows, all are led
        back. It is asked before each commit, a repeated one included.
        """
        try:
            await self._permit.run(lambda: require_fresh(self._release.permit))
        except SlipwayError as error:
            self._reasons.append(f"users may not get it: {error.in_short()}")
            await self._enter_back()
            return False
        return True

    async def _enter_drain(self) -> None:
        """Write down that the fleet has the version; as long as that cannot be done, what was before stays loaded."""
        note = self._note.model_copy(update={"phase": "drain"})
        deadline = time.monotonic() + self._release.policy.unreachable_s
        while True:
            try:
                await self._write(
                    note, version=self._release.version, manifest_sha256=self._release.manifest_sha256
                )
                return
            except TransientError as error:
                if time.monotonic() > deadline:
                    raise StoreUnavailableError(
                        f"all servers of {self._release.fleet!r} serve version {self._release.version}, but that "
                        "could not be recorded",
                        expected=self._store.uri,
                        found=error.in_short(),
                        remedy="run it again when the object store answers; it continues from here",
                    ) from error
                await asyncio.sleep(_WAIT_S)

    async def _enter_back(self) -> None:
        """Lead back from here on, written down or not: the way back needs the servers alone."""
        self._note = self._note.model_copy(update={"phase": "back", "reasons": tuple(self._reasons)})
        self._servers.forget_failures()
        try:
            await self._write(self._note)
        except TransientError as error:
            log.warning("the rollback could not be recorded: %s", error)

    async def _intend(self, note: RunNote) -> None:
        """Write down what is intended; where that cannot be done, it is not done, and all are led back."""
        try:
            await self._write(note)
        except TransientError as error:
            if self._note.phase in ("back", "drain"):
                # What such a server had is kept here; it is only led back, or brought, by this process.
                self._note = note
                return
            self._reasons.append(f"the intended change could not be recorded: {error.in_short()}")
            await self._enter_back()

    async def _write(self, note: RunNote | None, **fields: object) -> None:
        known = {"run": note, "fenced": self._servers.fenced, **fields}
        document = self._store.document.model_copy(update=known)
        await self._store.write(FleetDocument.model_validate(document.model_dump()))
        if note is not None:
            self._note = note

    async def _fence(self, step: FleetStep) -> None:
        fenced = dict(zip(step.servers, step.reasons, strict=True))
        try:
            await self._write(self._note, fenced={**self._servers.fenced, **fenced})
        except TransientError as error:
            log.warning("the fenced servers could not be recorded: %s", error)
        await self._servers.fence(fenced)
        self._reasons += [
            f"fenced: {reason}" for name, reason in fenced.items() if name in self._servers.fenced
        ]

    async def _finish(self, step: FleetStep, views: Mapping[str, ServerView]) -> FleetOutcome:
        self._reasons += step.reasons
        outcome = self._outcome(step, views)
        is_away = any(view.away_s is not None for view in views.values())
        is_open = not outcome.is_whole if step.outcome == "committed" else is_away or step.outcome == "failed"
        try:
            # A server that did not answer may have changed: the run stays open, and whoever goes on sees to that first.
            await self._write(self._note if is_open else None)
        except TransientError as error:
            late = f"the end could not be recorded: {error.in_short()}"
            return outcome.model_copy(update={"reasons": (*outcome.reasons, late)})
        return outcome

    def _outcome(self, step: FleetStep, views: Mapping[str, ServerView]) -> FleetOutcome:
        assert step.outcome is not None  # noqa: S101  what `finish` is
        return FleetOutcome(
            fleet=self._release.fleet,
            model=self._release.model,
            version=self._release.version,
            from_version=self._from_version,
            outcome=step.outcome,
            servers=self._results(step, views),
            prepare_s=None if self._prepare_s is None else round(self._prepare_s, 3),
            commit_ms=None
            if self._commit_s is None
            else round(1000 * (self._commit_s[1] - self._commit_s[0]), 1),
            reasons=tuple(dict.fromkeys(self._reasons)),
        )

    def _results(self, step: FleetStep, views: Mapping[str, ServerView]) -> dict[str, ServerResult]:
        state: ServerOutcome = "committed" if step.outcome == "committed" else "taken_back"
        found = {name: ServerResult(state="fenced", reason=why) for name, why in self._servers.fenced.items()}
        for name, view in views.items():
            if view.away_s is not None:
                found[name] = ServerResult(state="unreachable", reason=f"no answer for {view.away_s:.0f} s")
            elif view.refusal:
                found[name] = ServerResult(state="failed", version=view.serving, reason=view.refusal)
            else:
                found[name] = ServerResult(state=state, version=view.serving)
        return found


def _because(reasons: tuple[str, ...]) -> str:
    return f": {'; '.join(reasons)}" if reasons else ""

"""All servers of a fleet at once: what is seen of them, and one act on several."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence

from slipway.fleet.members import Member, Members
from slipway.fleet.outcomes import outcomes_of
from slipway.fleet.server import Facts, FleetServer
from slipway_core.errors import SlipwayError, TransientError
from slipway_core.fleet.alias import LoadedVersion, next_name, version_name
from slipway_core.fleet.document import Before
from slipway_core.fleet.golden import GoldenRequest, answers_differ
from slipway_core.fleet.plan import Act, Phase, ServerView
from slipway_core.fleet.policy import FleetPolicy

log = logging.getLogger(__name__)

# How long one look waits for who there is, where that is known from the look before: a Kubernetes API that hangs holds
# up neither a commit nor the way back.
_MEMBERS_LIMIT_S = 3.0
# Of a load of an alias, which takes milliseconds, on a server that was away until its time was over.
_LEAST_S = 0.1


class FleetServers:
    """The servers that count or want to join, looked up anew at each step.

    :param wanted: the version to load; None where nothing is loaded any more.
    """

    def __init__(
        self,
        members: Members,
        model: str,
        version: int,
        wanted: LoadedVersion | None,
        policy: FleetPolicy,
    ) -> None:
        self._members = members
        self._model = model
        self._version = version
        self._wanted = wanted
        self._policy = policy
        self._servers: dict[str, FleetServer] = {}
        self._facts: dict[str, Facts] = {}
        self._refusals: dict[str, str] = {}
        self._trouble: dict[str, float] = {}
        self._asked: dict[str, float] = {}
        self._unsure: set[str] = set()
        self.fenced: dict[str, str] = {}

    def may_be_asked_still(self, before: Mapping[str, Before]) -> None:
        """Take it that an earlier process has asked these servers to give users the version, and had no answer."""
        self._unsure |= before.keys()

    def forget_failures(self) -> None:
        """Ask again what was refused: on the way back each server gets another chance."""
        self._refusals.clear()
        self._trouble.clear()

    # --- what is seen ---

    async def look(self, phase: Phase, before: Mapping[str, Before]) -> dict[str, ServerView]:
        """Return what is seen of each server."""
        await self._read_members()
        servers = list(self._servers.values())
        views = await asyncio.gather(*(self._view(one, phase, before) for one in servers))
        return {one.name: view for one, view in zip(servers, views, strict=True)}

    async def unknown_before(
        self, before: Mapping[str, Before]
    ) -> tuple[dict[str, Before], dict[str, ServerView]]:
        """Return what those servers have that answer and are not in `before`; and those that do not say it.

        One that lives and does not say what it has is as good as away: it counts, and nothing is changed there.
        """
        new = [one for one in self._servers.values() if one.name not in before and one.away_s is None]
        found, silent = dict[str, Before](), dict[str, ServerView]()
        for one, (had, error) in zip(new, await outcomes_of([one.before() for one in new]), strict=True):
            if error is not None:
                silent[one.name] = ServerView(away_s=self._troubled(f"{one.name} before", error))
            elif had is not None:
                self._trouble.pop(f"{one.name} before", None)
                found[one.name] = had
        return found, silent

    async def _read_members(self) -> None:
        try:
            async with asyncio.timeout(_MEMBERS_LIMIT_S if self._servers else None):
                current = await self._members.current()
        except (TransientError, TimeoutError) as error:
            if not self._servers:
                raise
            log.warning(
                "the fleet's servers cannot be looked up, so the servers known before are used: %r", error
            )
            return
        if not current and self._servers:
            log.warning("no server is listed, so the servers known before are used")
            return
        found = {one.name: self._known(one) for one in current}
        # One that was to be fenced and is still there, or is there again, counts: users are sent to it.
        self.fenced = {name: reason for name, reason in self.fenced.items() if name not in found}
        for gone in self._servers.keys() - found.keys():
            self._facts.pop(gone, None)
        self._servers = found

    def _known(self, member: Member) -> FleetServer:
        known = self._servers.get(member.name)
        if known is not None and known.member.settings == member.settings:
            return known
        return FleetServer(member, self._model, self._policy)

    async def _view(self, server: FleetServer, phase: Phase, before: Mapping[str, Before]) -> ServerView:
        if not await server.answers():
            refusal = self._refusals.get(server.name, "")
            return ServerView(away_s=server.away_s or 0.0, refusal=refusal)
        try:
            serving = await self._shown(server, phase, before)
            prepared = self._wanted is not None and await server.is_prepared(self._wanted)
            old, new = (
                await self._leftovers(server, phase, before) if phase in ("drain", "back") else ([], [])
            )
        except SlipwayError as error:
            # It lives, and says nothing that helps: as good as away.
            return ServerView(away_s=self._troubled(f"{server.name} look", error))
        self._trouble.pop(f"{server.name} look", None)
        if not prepared:
            self._facts.pop(server.name, None)
        return ServerView(
            serving=serving,
            is_prepared=prepared,
            is_verified=server.name in self._facts,
            has_old=bool(old),
            has_new=bool(new),
            # Anything but an alias is loaded for long, and is not loaded anew without need.
            is_unsure=server.name in self._unsure and server.name in before and before[server.name].is_alias,
            refusal=self._refusals.get(server.name, ""),
        )

    async def _shown(self, server: FleetServer, phase: Phase, before: Mapping[str, Before]) -> int | None:
        """Return the version that a server's users get; None also where they get that number by other means.

        A model that was loaded under the model's own name, without an alias, may be any that has this number.
        """
        serving = await server.serving()
        if serving != self._version:
            return serving
        target = await server.leads_to(self._model)
        if phase == "back":
            had = before.get(server.name)
            is_same = had is None or had.version != serving or had.is_alias == (target is not None)
            return serving if is_same else None
        return None if self._wanted is None or target != self._wanted.target else serving

    async def _leftovers(
        self, server: FleetServer, phase: Phase, before: Mapping[str, Before]
    ) -> tuple[list[str], list[str]]:
        """Return what is loaded besides the new version, and what of the new one; the alias on trial is both."""
        loaded = await server.loaded(self._candidates(server.name, before))
        mine, trial = version_name(self._model, self._version), next_name(self._model)
        new = [one for one in loaded if one in (mine, trial) or one.startswith(f"{mine}__")]
        return [one for one in loaded if one not in new or one == trial], new

    def _candidates(self, name: str, before: Mapping[str, Before]) -> tuple[str, ...]:
        had = before[name].version if name in before else None
        return tuple(version_name(self._model, one) for one in (had, self._version) if one is not None)

    # --- what is done ---

    async def act(
        self, act: Act, names: Sequence[str], before: Mapping[str, Before], golden: GoldenRequest | None
    ) -> bool:
        """Do the same on some servers at once; return whether it went well on all."""
        servers = [self._servers[name] for name in names if name in self._servers]
        if act == "verify":
            return await self._verify(servers, golden)
        works: dict[Act, Callable[[FleetServer], Awaitable[None]]] = {
            "prepare": lambda one: one.prepare(self._target),
            "restore": lambda one: one.restore(before.get(one.name, Before())),
            "drain": lambda one: one.drain(self._version, self._candidates(one.name, before)),
            "clean": lambda one: one.clean(self._version, self._candidates(one.name, before)),
        }
        outcomes = await outcomes_of([works[act](one) for one in servers])
        errors = [error for _, error in outcomes]
        if act == "restore":
            self._unsure -= {one.name for one, error in zip(servers, errors, strict=True) if error is None}
        return self._all_noted(servers, act, errors)

    async def commit(self, names: Sequence[str]) -> tuple[bool, float]:
        """Give users the version on all these servers at once; return whether all show it, and when all had answered.

        Nothing else is asked until the last one has answered: that would make them differ for longer.
        """
        servers = [self._servers[name] for name in names if name in self._servers]
        answers = await outcomes_of([one.commit(self._target, self._left_s(one.name)) for one in servers])
        answered = time.monotonic()
        self._unsure |= {
            one.name for one, (_, error) in zip(servers, answers, strict=True) if error is not None
        }
        pairs = zip(servers, answers, strict=True)
        shown = await outcomes_of([one.require_committed(self._target, error) for one, (_, error) in pairs])
        return self._all_noted(servers, "commit", [error for _, error in shown]), answered

    async def fence(self, reasons: Mapping[str, str]) -> None:
        """Take servers out; one that cannot be taken out is as one that refuses."""
        for name, reason in reasons.items():
            try:
                await self._members.fence(name, reason)
            except SlipwayError as error:
                self._refusals[name] = f"it could not be fenced: {error.in_short()}"
                continue
            self.fenced[name] = reason
            self._servers.pop(name, None)
            self._facts.pop(name, None)

    @property
    def _target(self) -> LoadedVersion:
        assert self._wanted is not None  # noqa: S101  nothing is loaded without one
        return self._wanted

    def _noted(self, server: FleetServer, act: str, error: SlipwayError | None) -> bool:
        """Remember a failure: a refusal at once, what may pass when it has lasted; return whether there is none."""
        if error is None:
            self._trouble.pop(f"{server.name} {act}", None)
            if act == "commit":
                self._asked.pop(server.name, None)
            return True
        log.warning("%s: %s: %s", server.name, act, error)
        way_back = act in ("restore", "clean")
        limit_s = self._policy.settle_limit_s if way_back else self._policy.unreachable_s
        may_pass = (isinstance(error, TransientError) or way_back) and not (
            act == "commit" and self._left_s(server.name) <= _LEAST_S
        )
        if server.away_s is None and (
            not may_pass or self._troubled(f"{server.name} {act}", error) >= limit_s
        ):
            self._refusals[server.name] = error.in_short()
        return False

    def _left_s(self, name: str) -> float:
        """Return how long a server may still take to give users the version, from when it was first asked to."""
        now = time.monotonic()
        return max(_LEAST_S, self._asked.setdefault(name, now) + self._policy.commit_limit_s - now)

    def _all_noted(
        self, servers: Sequence[FleetServer], act: str, errors: Sequence[SlipwayError | None]
    ) -> bool:
        noted = [self._noted(one, act, error) for one, error in zip(servers, errors, strict=True)]
        return all(noted)

    def _troubled(self, what: str, error: SlipwayError) -> float:
        """Return for how long something has failed."""
        since = self._trouble.setdefault(what, time.monotonic())
        log.debug("%s: %s", what, error)
        return time.monotonic() - since

    async def _verify(self, servers: Sequence[FleetServer], golden: GoldenRequest | None) -> bool:
        outcomes = await outcomes_of([one.facts(self._target, golden) for one in servers])
        good, found = True, dict[str, Facts]()
        for server, (facts, error) in zip(servers, outcomes, strict=True):
            good &= self._noted(server, "verify", error)
            if facts is not None:
                found[server.name] = facts
        odd = odd_ones({**self._facts, **found}, golden)
        self._refusals |= odd
        self._facts |= {name: facts for name, facts in found.items() if name not in odd}
        return good and not odd


def odd_ones(found: Mapping[str, Facts], golden: GoldenRequest | None) -> dict[str, str]:
    """Return the servers that differ from most others, each with how."""
    if not found:
        return {}
    most = Counter((one.config_sha256, one.manifest_sha256) for one in found.values()).most_common(1)[0][0]
    reference = next(one for one in found.values() if (one.config_sha256, one.manifest_sha256) == most)
    odd = dict[str, str]()
    for name, one in found.items():
        if one.config_sha256 != most[0]:
            odd[name] = f"its configuration is {one.config_sha256[:12]}, the others' is {most[0][:12]}"
        elif one.manifest_sha256 != most[1]:
            odd[name] = f"its manifest is {one.manifest_sha256[:12]}, the others' is {most[1][:12]}"
        elif golden is not None:
            differs = answers_differ(golden, reference.answers or {}, one.answers or {})
            if differs:
                odd[name] = f"it answers the golden request differently: {differs}"
    return odd

"""One server of a fleet: what it has of a model, and each thing that a release does there."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from airflow_provider_triton.client import calls
from airflow_provider_triton.client.calls import Call
from slipway.fleet.members import Member
from slipway.fleet.outcomes import outcomes_of
from slipway.hooks.triton import TritonCaller
from slipway_core.errors import (
    LoadRefusedError,
    ModelNotLoadedError,
    ServerUnavailableError,
    SlipwayError,
    TransientError,
)
from slipway_core.fleet.alias import (
    AliasTarget,
    LoadedVersion,
    alias_files,
    alias_target,
    next_name,
    version_name,
)
from slipway_core.fleet.document import Before
from slipway_core.fleet.golden import GoldenRequest
from slipway_core.fleet.parity import ServerReport
from slipway_core.fleet.policy import FleetPolicy
from slipway_core.triton_config.build import pin_versions
from slipway_core.triton_config.canonical import config_sha256
from slipway_core.triton_config.ensemble import (
    bundle_config_sha256,
    called_models,
    departures,
    load_order,
)

T = TypeVar("T")

_POLL_INTERVAL_S = 0.1
_LOOK_INTERVAL_S = 1.0
_GOLDEN_LIMIT_S = 60.0


@dataclass(frozen=True)
class Facts:
    """What a server shows of a version before any user gets it.

    :param answers: to the golden request; None without one.
    """

    config_sha256: str
    manifest_sha256: str
    answers: Mapping[str, np.ndarray] | None


class FleetServer:
    """One server.

    Every call has a limit. What takes longer (a load, a drain) is watched: it is given up when the server has not
    answered a question for `FleetPolicy.unreachable_s`.
    """

    def __init__(self, member: Member, model: str, policy: FleetPolicy) -> None:
        self.name = member.name
        self.member = member
        self._model = model
        self._policy = policy
        self._caller = TritonCaller(member.settings, policy.call_limit_s)
        self._away_since: float | None = None

    @property
    def away_s(self) -> float | None:
        """Return for how long it has given no answer; None: it answered the last question."""
        return None if self._away_since is None else time.monotonic() - self._away_since

    async def answers(self) -> bool:
        """Ask whether it lives, and remember since when it does not."""
        try:
            lives = await self._ask(calls.live())
        except SlipwayError:
            lives = False
        if lives:
            self._away_since = None
        elif self._away_since is None:
            self._away_since = time.monotonic()
        return lives

    # --- what it has ---

    async def before(self) -> Before:
        """Return what it serves under the model's name, as it can be led back to."""
        try:
            versions = (await self._ask(calls.model_metadata(self._model))).versions
            if not versions:
                return Before()
            config = await self._ask(calls.config(self._model, max(versions)))
        except ModelNotLoadedError:
            return Before()
        target = alias_target(config)
        return Before(
            version=max(versions),
            is_alias=target is not None,
            config=pin_versions(config, sorted(versions)),
            called={} if target is None else await self._called(target),
        )

    async def _called(self, target: AliasTarget) -> dict[str, Any]:
        """Return the configuration of each model of a version, in the order of the loads."""
        inner = f"{target.name}__"
        names = [
            one for one in await self.loaded((target.name,)) if one == target.name or one.startswith(inner)
        ]
        found = {name: await self._ask(calls.config(name, target.version)) for name in names}
        return {name: found[name] for name in load_order(found)}

    async def serving(self) -> int | None:
        """Return the version that requests without one get; None: none."""
        try:
            versions = (await self._ask(calls.model_metadata(self._model))).versions
        except ModelNotLoadedError:
            return None
        return max(versions, default=None)

    async def leads_to(self, name: str) -> AliasTarget | None:
        """Return where an alias leads; None: there is no alias of this name."""
        try:
            config = await self._ask(calls.config(name))
        except ModelNotLoadedError:
            return None
        return alias_target(config)

    async def is_prepared(self, wanted: LoadedVersion) -> bool:
        """Return whether the version is loaded, and an alias leads to it: the users', or the one on trial."""
        for name in wanted.configs:
            if not await self._ask(calls.model_ready(name, wanted.version)):
                return False
        return wanted.target in (
            await self.leads_to(next_name(self._model)),
            await self.leads_to(self._model),
        )

    async def loaded(self, candidates: tuple[str, ...]) -> list[str]:
        """Return which versions' models, and the next alias, are loaded; the outer before what they call.

        :param candidates: names that are asked for one by one where the server cannot list its repository.
        """
        try:
            names = {one.name for one in await self._ask(calls.index()) if one.is_ready}
        except TransientError:
            names = set()
        mine = {one for one in names if one.startswith(f"{self._model}_v")}
        for name in {*candidates, next_name(self._model)} - mine:
            if await self._ask(calls.model_ready(name)):
                mine.add(name)
        return sorted(mine, key=lambda name: (name != next_name(self._model), len(name.split("__")), name))

    async def report(self) -> ServerReport:
        """Return what it serves, for people and for parity."""
        ready = self.member.is_ready
        if not await self.answers():
            return ServerReport(server=self.name, is_ready=ready, problem="no answer")
        try:
            before, manifest_sha256, sha256 = await self.before(), "", ""
            target = None if before.config is None else alias_target(before.config)
            if target is not None:
                manifest_sha256 = target.manifest_sha256
                sha256 = await self._config_sha256(target.name, target.version)
            elif before.config is not None:
                sha256 = config_sha256(before.config)
            leftovers = await self._leftovers(target)
        except SlipwayError as error:
            return ServerReport(server=self.name, is_ready=ready, problem=error.in_short())
        return ServerReport(
            server=self.name,
            version=before.version,
            config_sha256=sha256,
            manifest_sha256=manifest_sha256,
            is_ready=ready,
            leftovers=leftovers,
        )

    async def _leftovers(self, target: AliasTarget | None) -> tuple[str, ...]:
        """Return which versions' models are loaded, and the alias on trial, but what users' alias leads to."""
        loaded = await self.loaded(())
        if target is None:
            return tuple(loaded)
        return tuple(one for one in loaded if one != target.name and not one.startswith(f"{target.name}__"))

    # --- what is done there ---

    async def prepare(self, wanted: LoadedVersion) -> None:
        """Load the version beside what is served, and try an alias that leads to it.

        :raises LoadRefusedError: the server refuses, or does not serve it as it was loaded.
        """
        for name, config in wanted.configs.items():
            if not await self._serves(name, wanted.version, config):
                await self._watched(self._load(name, wanted.version, config))
            if not await self._serves(name, wanted.version, config):
                raise LoadRefusedError(
                    f"{self.name} does not serve {name!r} as configured",
                    expected="the configuration of the load",
                    found="another one, or none",
                    remedy="find out what else loads models on this server",
                )
        await self._point(next_name(self._model), wanted)

    async def facts(self, wanted: LoadedVersion, golden: GoldenRequest | None) -> Facts:
        """Return what the version is there, and how it answers through the alias that it is tried with."""
        sha256 = await self._config_sha256(wanted.name, wanted.version)
        name = next_name(self._model)
        target = await self.leads_to(name)
        if target is None:
            name, target = self._model, await self.leads_to(self._model)
        if target is None or target.name != wanted.name:
            raise ModelNotLoadedError(f"{self.name} has no alias that points to {wanted.name!r}")
        if golden is None:
            return Facts(sha256, target.manifest_sha256, None)
        caller = TritonCaller(self.member.settings, _GOLDEN_LIMIT_S)
        asked = caller.infer_async(name, wanted.version, golden.inputs, golden.outputs)
        return Facts(sha256, target.manifest_sha256, await self._watched(asked))

    async def commit(self, wanted: LoadedVersion, limit_s: float) -> None:
        """Give users the version. `require_committed` says whether they have it, whatever came of this.

        :param limit_s: how long the server may take, also where it answers questions meanwhile.
        """
        # Whoever hangs now is not waited for: others may have to be led back.
        await self._load_alias(self._model, wanted, limit_s, patience_s=0.0)

    async def require_committed(self, wanted: LoadedVersion, error: SlipwayError | None) -> None:
        """Raise unless the server shows that users have the version.

        :param error: what it answered to the load.
        """
        await self._require_alias(self._model, wanted, error)

    async def restore(self, before: Before) -> None:
        """Give users again what they had; without its object store a server can still do that for an alias.

        A server that was started anew since has nothing: what the alias leads to is loaded there first.
        """
        if before.version is None or before.config is None:
            await self._ask(calls.unload(self._model))
            return
        for name, config in before.called.items():
            if not await self._ask(calls.model_ready(name, before.version)):
                await self._watched(self._load(name, before.version, config))
        files = alias_files(before.version) if before.is_alias else None
        load = calls.load(self._model, before.config, files)
        # Where no alias was before, the model itself is loaded again, which may take long.
        limit_s = self._policy.commit_limit_s if before.is_alias else self._policy.load_limit_s
        await self._watched(self._caller.ask_async(load, limit_s), limit_s)

    async def drain(self, keep: int, candidates: tuple[str, ...]) -> None:
        """Unload all versions but one, each when its last request has been answered."""
        kept = version_name(self._model, keep)
        for name in await self.loaded(candidates):
            if name == kept or name.startswith(f"{kept}__"):
                continue
            if name == next_name(self._model):
                await self._ask(calls.unload(name))
                continue
            await self._require_unused(name)
            await self._watched(
                self._caller.drain(name, quiet_s=self._policy.quiet_s, limit_s=self._policy.drain_limit_s)
            )

    async def clean(self, version: int, candidates: tuple[str, ...]) -> None:
        """Unload a version that users did not get, or do not have any more."""
        unwanted = version_name(self._model, version)
        for name in await self.loaded(candidates):
            if name == next_name(self._model):
                await self._ask(calls.unload(name))
            elif name == unwanted or name.startswith(f"{unwanted}__"):
                await self._require_unused(name)
                await self._ask(calls.unload(name))

    async def _require_unused(self, name: str) -> None:
        """Raise where users' alias leads to a model that is about to be unloaded: they would be without."""
        target = await self.leads_to(self._model)
        if target is not None and (name == target.name or name.startswith(f"{target.name}__")):
            raise ServerUnavailableError(
                f"{self.name} still serves {name!r}",
                expected="an alias that points to another version",
                found=f"one that points to version {target.version}",
                remedy="find out what else loads models on this server",
            )

    # --- how ---

    async def _point(self, name: str, wanted: LoadedVersion) -> None:
        """Have an alias lead to a version."""
        load = self._load_alias(name, wanted, self._policy.load_limit_s)
        [(_, error)] = await outcomes_of([load])
        await self._require_alias(name, wanted, error)

    async def _load_alias(
        self, name: str, wanted: LoadedVersion, limit_s: float, patience_s: float | None = None
    ) -> None:
        load = calls.load(name, wanted.alias(name), alias_files(wanted.version))
        # Watched, not cut short: one whose object store is slow to be looked at would do it later, out of turn.
        await self._watched(self._caller.ask_async(load, limit_s), limit_s, patience_s)

    async def _require_alias(self, name: str, wanted: LoadedVersion, error: SlipwayError | None) -> None:
        """Raise unless an alias leads to a version.

        What counts is what the server shows, not its answer: one whose object store is away answers with an error, and
        has changed the alias all the same.
        """
        if await self.leads_to(name) == wanted.target and await self._ask(
            calls.model_ready(name, wanted.version)
        ):
            return
        raise error or ServerUnavailableError(
            f"{self.name} does not show the alias {name!r} as it was loaded",
            expected=f"one that points to {wanted.name!r}",
            found="another one, or none",
            remedy="find out what else loads models on this server",
        )

    async def _load(self, name: str, version: int, config: Mapping[str, Any]) -> None:
        await self._caller.ask_async(calls.load(name, config), self._policy.load_limit_s)
        await self._caller.wait_ready(name, [version], self._policy.load_limit_s, _POLL_INTERVAL_S)

    async def _serves(self, name: str, version: int, config: Mapping[str, Any]) -> bool:
        try:
            served = await self._ask(calls.config(name, version))
        except ModelNotLoadedError:
            return False
        return not departures(config, served)

    async def _config_sha256(self, name: str, version: int) -> str:
        """Return the digest of what the server uses for a model and all that it calls."""
        found, names = dict[str, Any](), [name]
        while names:
            one = names.pop()
            if one not in found:
                found[one] = await self._ask(calls.config(one, version))
                names += called_models(found[one], {})
        return bundle_config_sha256(found)

    async def _ask(self, call: Call[T]) -> T:
        return await self._caller.ask_async(call, self._policy.call_limit_s)

    async def _watched(
        self, work: Awaitable[T], limit_s: float | None = None, patience_s: float | None = None
    ) -> T:
        """Wait for what takes long, while the server answers questions beside it.

        :param limit_s: for all of it; None: as for the loads of a version.
        :param patience_s: for how long it may give no answer; None: as the policy says.
        """
        limit_s = self._policy.load_limit_s if limit_s is None else limit_s
        patience_s = self._policy.unreachable_s if patience_s is None else patience_s
        task, since = asyncio.ensure_future(work), time.monotonic()
        try:
            while True:
                left_s = since + limit_s - time.monotonic()
                done, _ = await asyncio.wait({task}, timeout=max(0.0, min(_LOOK_INTERVAL_S, left_s)))
                if done:
                    return task.result()
                took_s = time.monotonic() - since
                if not await self.answers() and (away_s := self.away_s or 0.0) >= patience_s:
                    raise ServerUnavailableError(f"{self.name} has not answered for {away_s:.0f} s")
                if took_s >= limit_s:
                    raise ServerUnavailableError(f"{self.name} has not finished within {took_s:.0f} s")
        finally:
            task.cancel()

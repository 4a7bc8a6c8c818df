"""One load of a model on several servers, without an alias: what each has, the load, the way back to what each had."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict

from airflow_provider_triton.client import calls
from airflow_provider_triton.client.calls import Call
from airflow_provider_triton.client.model_config import config_sha256, departures
from airflow_provider_triton.errors import (
    LoadRefusedError,
    ModelNotLoadedError,
    ServerUnavailableError,
    TimedOutError,
    TritonError,
)
from airflow_provider_triton.hooks.triton import TritonHook, versions_ready

T = TypeVar("T")

_POLL_INTERVAL_S = 0.2
# How often it is looked before the same is asked for again.
_POLLS = 10


class ServerState(BaseModel):
    """What one server has of the model; no versions and no configuration where it is not loaded."""

    model_config = ConfigDict(frozen=True)

    versions: tuple[int, ...] = ()
    config: dict[str, Any] | None = None

    @property
    def config_sha256(self) -> str:
        """Return the SHA-256, in hex, of the configuration; empty without one."""
        return "" if self.config is None else config_sha256(self.config)


States = dict[str, ServerState]


class PlainServers:
    """The servers, each by its connection's id.

    :param limit_s: for each of the three things that can be done.
    """

    def __init__(self, triton_conn_ids: Sequence[str], model: str, limit_s: float) -> None:
        self._hooks = {conn_id: TritonHook(conn_id, limit_s) for conn_id in triton_conn_ids}
        self._model = model
        self._limit_s = limit_s

    async def states(self) -> States:
        """Return what each server has.

        :raises TritonError: one does not answer.
        """
        found, errors = await self._on_each(self._state)
        for conn_id, error in errors.items():
            raise ServerUnavailableError(
                f"{conn_id!r} does not report its state of {self._model!r}; nothing was loaded anywhere",
                expected="an answer of each server",
                found=error.in_short(),
                remedy="find out why it does not answer, or remove it from the fleet",
            ) from error
        return found

    async def load(self, config: Mapping[str, Any], versions: Sequence[int]) -> States:
        """Load the configuration on all at the same time; return what each has then.

        :raises LoadRefusedError: a server refuses, or serves something other than what was asked for.
        :raises ServerUnavailableError: a server does not answer, or is not ready in time.
        """

        found, errors = await self._on_each(lambda hook: self._load_one(hook, config, versions))
        if not errors:
            return found
        refused = any(isinstance(error, LoadRefusedError) for error in errors.values())
        kind = LoadRefusedError if refused else ServerUnavailableError
        raise kind(
            f"{self._model!r} versions {sorted(versions)} could not be loaded on all servers",
            expected=f"{len(self._hooks)} servers with it",
            found=_summary(errors),
            remedy="fix the model or the named servers, then load it again",
        ) from next(iter(errors.values()))

    async def take_back(self, before: Mapping[str, ServerState]) -> dict[str, TritonError]:
        """Lead each server back to what it had; return the errors of those where that failed."""
        _, errors = await self._on_each(lambda hook: self._take_back(hook, before[hook.triton_conn_id]))
        return errors

    async def _take_back(self, hook: TritonHook, before: ServerState) -> None:
        if before.config is not None:
            pinned = {**before.config, "version_policy": {"specific": {"versions": list(before.versions)}}}
            await self._load_one(hook, pinned, before.versions)
            return
        await self._reach(hook, calls.unload(self._model), ())

    async def _load_one(
        self, hook: TritonHook, config: Mapping[str, Any], versions: Sequence[int]
    ) -> ServerState:
        """Load, and hold what the server uses then against the configuration."""
        await self._reach(hook, calls.load(self._model, config), versions)
        state = await self._state(hook)
        found = departures(config, state.config or {})
        if found:
            raise LoadRefusedError(
                f"{hook.triton_conn_id!r} does not serve {self._model!r} as it was loaded",
                expected="the configuration of the load",
                found="; ".join(found),
                remedy="check what else loads models on this server",
            )
        return state

    async def _reach(self, hook: TritonHook, call: Call[None], versions: Sequence[int]) -> None:
        """Send a load or an unload until exactly these versions are ready.

        More than once: a server that hung carries out late what an earlier try had asked for and given up.
        """
        ready: frozenset[int] = frozenset()
        try:
            async with asyncio.timeout(self._limit_s):
                while True:
                    await hook.ask_async(call)
                    for _ in range(_POLLS):
                        ready = await self._ready(hook)
                        if ready == set(versions):
                            return
                        await asyncio.sleep(_POLL_INTERVAL_S)
        except TimeoutError as late:
            raise TimedOutError(
                f"{hook.triton_conn_id!r} does not serve the wanted versions of {self._model!r}",
                expected=f"versions {sorted(versions)} ready within {self._limit_s:g} s",
                found=f"versions {sorted(ready)}",
                remedy="read the server's log",
            ) from late

    async def _state(self, hook: TritonHook) -> ServerState:
        versions = sorted(await self._ready(hook))
        if not versions:
            return ServerState()
        try:
            config = await hook.ask_async(calls.config(self._model, versions[-1]))
        except ModelNotLoadedError:  # it was unloaded meanwhile
            return ServerState()
        return ServerState(versions=tuple(versions), config=config)

    async def _ready(self, hook: TritonHook) -> frozenset[int]:
        index = await hook.ask_async(calls.index())
        return versions_ready(index, self._model)

    async def _on_each(
        self, work: Callable[[TritonHook], Awaitable[T]]
    ) -> tuple[dict[str, T], dict[str, TritonError]]:
        """Do the same on all servers at once; return the results, and the errors of those that failed."""
        results, errors = dict[str, T](), dict[str, TritonError]()

        async def one(conn_id: str, hook: TritonHook) -> None:
            try:
                results[conn_id] = await work(hook)
            except TritonError as error:
                errors[conn_id] = error

        await asyncio.gather(*(one(conn_id, hook) for conn_id, hook in self._hooks.items()))
        in_order = [conn_id for conn_id in self._hooks if conn_id in errors]
        return results, {conn_id: errors[conn_id] for conn_id in in_order}


def _summary(errors: Mapping[str, TritonError]) -> str:
    return "; ".join(f"{conn_id}: {error.in_short()}" for conn_id, error in errors.items())

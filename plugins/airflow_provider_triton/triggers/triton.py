"""Waiting for a Triton server without holding a worker, or a thread of the triggerer."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_triton.client.waits import POLL_INTERVAL_S, drain, load_models, wait_ready
from airflow_provider_triton.errors import TritonError
from airflow_provider_triton.hooks.triton import TritonHook
from airflow_provider_triton.triggers.pace import Pace


class TritonTrigger(BaseTrigger):
    """Waits for something on a Triton server.

    Yields one event: ``{"error": null}``, with ``result`` where there is one, or ``{"error": TritonError.to_dict()}``.
    A trigger that starts anew on another triggerer goes on from what the server says then.
    """

    @abstractmethod
    def fields(self) -> dict[str, Any]:
        """Return what the trigger is made with."""

    @abstractmethod
    async def wait(self) -> Any:
        """Wait, and return the event's result, or None."""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return what the triggerer needs to make this trigger again."""
        return f"{type(self).__module__}.{type(self).__qualname__}", self.fields()

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Wait without a thread: it may take minutes, and many may wait at once."""
        pace, event = Pace(), dict[str, Any]()
        try:
            result = await self.wait()
            event = {"error": None} if result is None else {"error": None, "result": result}
        except TritonError as error:
            event = {"error": error.to_dict()}
        await pace.until_due()
        yield TriggerEvent(event)


class TritonLoadModelTrigger(TritonTrigger):
    """Asks a Triton server to load models, one after the other, and waits for the answers.

    The model-control API answers a load when it is done, and a load that is asked for again is harmless.

    :param models: name and whole configuration of each, in the order of the loads.
    """

    def __init__(
        self, triton_conn_id: str, models: Sequence[tuple[str, dict[str, Any] | None]], timeout_s: float
    ) -> None:
        super().__init__()
        self.triton_conn_id = triton_conn_id
        self.models = models
        self.timeout_s = timeout_s

    def fields(self) -> dict[str, Any]:
        """Return what the trigger is made with."""
        return {
            "triton_conn_id": self.triton_conn_id,
            "models": [list(one) for one in self.models],
            "timeout_s": self.timeout_s,
        }

    async def wait(self) -> None:
        """Load."""
        await load_models(TritonHook(self.triton_conn_id, self.timeout_s).caller, self.models)


class TritonReadyTrigger(TritonTrigger):
    """Waits until a Triton server, or versions of a model on it, are ready.

    :param model_name: empty for the server itself.
    :param versions: all of these; without any, one version of the model is enough.
    """

    def __init__(
        self,
        triton_conn_id: str,
        model_name: str = "",
        versions: Sequence[int] = (),
        timeout_s: float = 600.0,
        poll_interval_s: float = POLL_INTERVAL_S,
    ) -> None:
        super().__init__()
        self.triton_conn_id = triton_conn_id
        self.model_name = model_name
        self.versions = versions
        self.timeout_s = timeout_s
        self.poll_interval_s = poll_interval_s

    def fields(self) -> dict[str, Any]:
        """Return what the trigger is made with."""
        return {
            "triton_conn_id": self.triton_conn_id,
            "model_name": self.model_name,
            "versions": list(self.versions),
            "timeout_s": self.timeout_s,
            "poll_interval_s": self.poll_interval_s,
        }

    async def wait(self) -> list[int]:
        """Wait; return the versions that are ready."""
        caller = TritonHook(self.triton_conn_id).caller
        return await wait_ready(caller, self.model_name, self.versions, self.timeout_s, self.poll_interval_s)


class TritonDrainTrigger(TritonTrigger):
    """Takes a model out of service on a Triton server, without cutting a request short.

    :param quiet_s: for how long nobody may have asked before it is unloaded.
    """

    def __init__(
        self, triton_conn_id: str, model_name: str, quiet_s: float, timeout_s: float, unload_dependents: bool
    ) -> None:
        super().__init__()
        self.triton_conn_id = triton_conn_id
        self.model_name = model_name
        self.quiet_s = quiet_s
        self.timeout_s = timeout_s
        self.unload_dependents = unload_dependents

    def fields(self) -> dict[str, Any]:
        """Return what the trigger is made with."""
        return {
            "triton_conn_id": self.triton_conn_id,
            "model_name": self.model_name,
            "quiet_s": self.quiet_s,
            "timeout_s": self.timeout_s,
            "unload_dependents": self.unload_dependents,
        }

    async def wait(self) -> dict[str, Any]:
        """Drain and unload; return how it went."""
        drained = await drain(
            TritonHook(self.triton_conn_id).caller,
            self.model_name,
            quiet_s=self.quiet_s,
            limit_s=self.timeout_s,
            dependents=self.unload_dependents,
        )
        return asdict(drained)

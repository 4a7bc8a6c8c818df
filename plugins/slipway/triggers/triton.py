"""Waiting for a model to load without holding a worker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from include.model_release.errors import SlipwayError
from slipway.hooks.triton import TritonHook


class TritonLoadModelTrigger(BaseTrigger):
    """Asks a Triton server to load a model and waits for the answer.

    The model-control API answers a load when it is done, and a load that is asked for again is harmless, so a
    trigger that starts anew on another triggerer simply asks again.

    Yields one event: ``{"error": null}`` or ``{"error": SlipwayError.to_dict()}``.
    """

    def __init__(
        self, triton_conn_id: str, model_name: str, config: dict[str, Any], timeout_s: float
    ) -> None:
        super().__init__()
        self.triton_conn_id = triton_conn_id
        self.model_name = model_name
        self.config = config
        self.timeout_s = timeout_s

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """What the triggerer needs to make this trigger again."""
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {
                "triton_conn_id": self.triton_conn_id,
                "model_name": self.model_name,
                "config": self.config,
                "timeout_s": self.timeout_s,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Loads in a thread: Triton's client blocks until the server has loaded."""
        hook = TritonHook(self.triton_conn_id, self.timeout_s)
        try:
            await asyncio.to_thread(hook.load, self.model_name, self.config)
        except SlipwayError as error:
            yield TriggerEvent({"error": error.to_dict()})
        else:
            yield TriggerEvent({"error": None})

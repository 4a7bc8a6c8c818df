"""Waiting for models to load without holding a worker."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from include.model_release.errors import SlipwayError
from slipway.hooks.triton import TritonHook
from slipway.hooks.triton_client import calls
from slipway.triggers.timing import Pace


class TritonLoadModelTrigger(BaseTrigger):
    """Asks a Triton server to load models, one after the other, and waits for the answers.

    The model-control API answers a load when it is done, and a load that is asked for again is harmless, so a
    trigger that starts anew on another triggerer simply asks again.

    Yields one event: ``{"error": null}`` or, at the first that is refused, ``{"error": SlipwayError.to_dict()}``.

    :param models: name and whole configuration of each, in the order of the loads.
    """

    def __init__(
        self, triton_conn_id: str, models: Sequence[tuple[str, dict[str, Any]]], timeout_s: float
    ) -> None:
        super().__init__()
        self.triton_conn_id = triton_conn_id
        self.models = models
        self.timeout_s = timeout_s

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return what the triggerer needs to make this trigger again."""
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {
                "triton_conn_id": self.triton_conn_id,
                "models": [list(one) for one in self.models],
                "timeout_s": self.timeout_s,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Load without a thread: a load may take minutes, and many may wait at once."""
        pace, hook, failure = Pace(), TritonHook(self.triton_conn_id, self.timeout_s), None
        try:
            for name, config in self.models:
                await hook.ask_async(calls.load(name, config))
        except SlipwayError as error:
            failure = error.to_dict()
        await pace.until_due()
        yield TriggerEvent({"error": failure})

"""The clients of the demo: they send the digits all the time, over HTTP and gRPC."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Self

from slipway_digit_models.images import LiveImages, live_images
from slipway_sandbox.demo.counts import Traffic, count
from slipway_sandbox.load.clients import PROTOCOLS
from slipway_sandbox.load.open_load import OpenLoad
from slipway_sandbox.load.request_set import RequestSet

IN_FLIGHT_LIMIT = 2
"""Of each protocol: one slow answer does not silence a protocol, and many do not pile up."""


def digit_requests(live: LiveImages) -> RequestSet:
    """Return a request for each image; right is the digit that was drawn."""
    rows = live.images.pixels.reshape(len(live.images), 1, -1)
    return RequestSet("pixels", rows, "label", live.images.label)


class TrafficClient:
    """The clients as a process, whose answers lie in `output`. A context manager, at whose exit they have ended.

    They may be started before the service is there: nothing counts until it has answered over each protocol.
    """

    def __init__(
        self,
        *,
        port: int,
        authority: str,
        model: str,
        rate_rps: float,
        output: Path,
        sandbox_root: Path,
        protocols: Collection[str] = PROTOCOLS,
    ) -> None:
        self.output = output
        self._load = OpenLoad(
            digit_requests(live_images()),
            port=port,
            authority=authority,
            model=model,
            rate_rps=rate_rps,
            output=output,
            sandbox_root=sandbox_root,
            protocols=protocols,
            in_flight_limit=IN_FLIGHT_LIMIT,
            start_limit_s=None,
        )

    def __enter__(self) -> Self:
        self._load.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def traffic(self) -> Traffic:
        """Return what was counted so far."""
        return count(self._load.answers())

    def stop(self) -> Traffic:
        """End the clients and return what they counted. May be called twice."""
        return count(self._load.stop())

"""The story after its end, for tests."""

from __future__ import annotations

from dataclasses import dataclass

from slipway_sandbox.demo.traffic import TrafficClient
from tests.support.cluster_demo.running import RunningDemo
from tests.support.cluster_demo.story import Played


@dataclass(frozen=True)
class PlayedDemo:
    """What came of it, while the cluster runs on and clients ask."""

    running: RunningDemo
    clients: TrafficClient
    played: Played

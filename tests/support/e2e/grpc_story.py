"""A model whose servers are asked by gRPC alone: KServe routes one port of theirs."""

from __future__ import annotations

from dataclasses import dataclass

from slipway_core.rollout.observation import Observed
from slipway_sandbox.demo.counts import Traffic
from tests.support.e2e.release_files import BY_GRPC
from tests.support.e2e.running_sandbox import Ended, RunningSandbox

RATE_RPS = 30.0
# Fails for some live inputs only.
BAD_RECIPE = 3


@dataclass(frozen=True)
class GrpcStory:
    """Version 1 goes live, 2 is promoted, 3 is taken back; every client asks by gRPC."""

    first: Ended
    second: Ended
    third: Ended
    service: Observed
    traffic: Traffic


def grpc_story(sandbox: RunningSandbox) -> GrpcStory:
    """Three versions of a model with `rollout.protocol: grpc`."""
    with sandbox.traffic(BY_GRPC, RATE_RPS, protocols=["grpc"]) as clients:
        first = sandbox.release(BY_GRPC, 1)
        sandbox.await_answers(clients)
        second = sandbox.release(BY_GRPC, 2)
        sandbox.land(BY_GRPC, 3, recipe=BAD_RECIPE)
        third = sandbox.ended(BY_GRPC, 3, sandbox.start(BY_GRPC, 3))
        sandbox.await_answers(clients, 4)
    service = sandbox.service(BY_GRPC)
    assert service is not None
    return GrpcStory(first=first, second=second, third=third, service=service, traffic=clients.traffic())

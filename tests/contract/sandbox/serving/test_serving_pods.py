"""What the cluster shows of servers, as pods, and what becomes of streams that are open on them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from slipway_sandbox.load.open_streams import OpenStreams
from slipway_sandbox.load.request_set import RequestSet
from tests.support.serving.clients import HOST
from tests.support.serving.kserve_cluster import FIRST, NAMESPACE, SECOND, Cluster
from tests.support.serving.published import BETTER, GOOD

pytestmark = [pytest.mark.timeout(600), pytest.mark.asyncio]


def streams(cluster: Cluster, count: int = 4) -> OpenStreams:
    rows = RequestSet("x", np.ones((1, 1, 2), dtype=np.float32), "y")
    port = cluster.envoy.ingress_port
    return OpenStreams(rows, port, f"{HOST}:{port}", "table", count=count)


def pods(cluster: Cluster) -> dict[str, dict[str, Any]]:
    """The pods by their revision."""
    found = cluster.store.list("pods", NAMESPACE)
    return {one["metadata"]["labels"]["serving.knative.dev/revision"]: one for one in found}


async def test_a_revision_with_open_streams_is_not_scaled_down(cluster: Cluster) -> None:
    """As Knative's autoscaler counts it: whatever the traffic says, it serves on until they end."""
    cluster.create(GOOD)
    await cluster.until_shares(first=100)
    with streams(cluster) as open_streams:
        await cluster.until(lambda: open_streams.answered(FIRST) > 20, "answers on the streams")
        cluster.patch(BETTER)
        await cluster.until_shares(second=100)
        answered = open_streams.answered(FIRST)
        # Several times the grace after which a revision without anybody goes.
        await cluster.until(
            lambda: open_streams.answered(FIRST) > answered + 160, "answers of the old revision"
        )
        assert open_streams.ends == []
        assert cluster.running() == {FIRST, SECOND}
    await cluster.until(lambda: cluster.running() == {SECOND}, "the revision to be scaled down")
    await cluster.until(lambda: set(pods(cluster)) == {SECOND}, "its pod to be gone")


async def test_a_deleted_pod_takes_its_streams_with_it(cluster: Cluster) -> None:
    """Its server ends within the grace, another one comes because the revision is still named, and gets no stream."""
    cluster.create(GOOD)
    await cluster.until_shares(first=100)
    cluster.patch(BETTER, percent=50)
    await cluster.until_shares(second=50, first=50)
    with streams(cluster, 8) as open_streams:
        await cluster.until(lambda: open_streams.answered(SECOND) > 20, "answers on the candidate's streams")
        cluster.patch(percent=0)
        await cluster.until_shares(second=0, first=100)
        pod = pods(cluster)[SECOND]
        process = cluster.run_of(SECOND)._server.process
        cluster.store.delete("pods", NAMESPACE, pod["metadata"]["name"], grace_period_s=1)
        await cluster.until_ended(process)
        gone = len(open_streams.answers)
        await cluster.until(
            lambda: pods(cluster).get(SECOND, pod)["metadata"]["uid"] != pod["metadata"]["uid"], "another pod"
        )
        await cluster.until(lambda: len(open_streams.answers) > gone + 50, "more answers")
        late = [one for one in open_streams.answers[gone + 8 :] if one.revision != FIRST]
    assert late == []
    assert {one.revision for one in open_streams.ends} <= {SECOND, None}


async def test_the_pods_of_a_controller_that_ended_are_not_shown(cluster: Cluster) -> None:
    """Its servers ended with it: the next controller shows its own."""
    cluster.create(GOOD)
    await cluster.until_shares(first=100)
    before = pods(cluster)[FIRST]["metadata"]["uid"]
    await cluster.restart()

    def uids() -> set[str]:
        return {one["metadata"]["uid"] for one in pods(cluster).values()}

    await cluster.until(lambda: bool(uids() - {before}), "its own pod")
    assert len(cluster.store.list("pods", NAMESPACE)) == 1

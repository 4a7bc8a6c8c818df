"""The KServe controller over the real store, S3 on moto, real tritonservers and a real Envoy."""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from slipway_core.errors import InputMissingError, SlipwayError, StoreUnavailableError
from slipway_sandbox.kserve.controller import KServeSettings
from slipway_sandbox.kserve.revisions import download_repository
from slipway_sandbox.services.routing import Mirror
from slipway_sandbox.services.triton import TritonPorts
from tests.support.serving.clients import HOST, Load, ask_grpc, ask_http, grpc_client
from tests.support.serving.kserve_cluster import FIRST, KIND, NAME, NAMESPACE, SECOND, THIRD, Cluster
from tests.support.serving.models import table_model
from tests.support.serving.published import BETTER, BROKEN, GOOD

pytestmark = [pytest.mark.timeout(600), pytest.mark.asyncio]


async def test_first_deploy_answers_over_both_protocols(cluster: Cluster) -> None:
    """A new InferenceService is downloaded, served and routed, and its status says so."""
    cluster.create(GOOD)
    await cluster.until_shares(first=100)
    assert await cluster.factor() == 2.0
    with grpc_client(cluster.envoy.ingress_port) as client:
        assert await asyncio.to_thread(ask_grpc, client) == 2.0
    status = cluster.status()
    assert status["url"] == f"http://{HOST}"
    assert status["modelStatus"]["transitionStatus"] == "UpToDate"
    assert {one["type"]: one["status"] for one in status["conditions"]}["Ready"] == "True"


async def test_canary_promotion_and_rollback_lose_no_request(cluster: Cluster) -> None:
    """A canary in steps, its promotion, and a four-phase rollback, all under load, fail no request."""
    cluster.create(GOOD)
    await cluster.until_shares(first=100)
    with Load(cluster.envoy.ingress_port) as load:
        cluster.patch(BETTER, percent=10)
        await cluster.until_shares(second=10, first=90)
        cluster.patch(percent=50)
        await cluster.until_shares(second=50, first=50)
        cluster.patch(percent=None)
        await cluster.until_shares(second=100)
        await cluster.until(lambda: cluster.running() == {SECOND}, "the first revision to be scaled down")
        assert await cluster.factor() == 3.0
        cluster.patch(GOOD, percent=0)
        await cluster.until_shares(third=0, second=100)
        cluster.patch(percent=100)
        await cluster.until_shares(third=100)
        assert await cluster.factor() == 2.0
        await cluster.until(lambda: cluster.running() == {THIRD}, "the second revision to be scaled down")
    assert load.failures == []
    assert set(load.answers) == {"http 2", "http 3", "grpc 2", "grpc 3"}


async def test_the_knative_service_is_what_kserve_asks_knative_for(cluster: Cluster) -> None:
    """It names "latest" and the revision that has the rest; what somebody writes there KServe writes over."""

    def asked_for() -> list[dict[str, Any]]:
        (found,) = cluster.store.list("services", NAMESPACE)
        targets: list[dict[str, Any]] = found["spec"]["traffic"]
        return targets

    cluster.create(GOOD)
    await cluster.until_shares(first=100)
    assert asked_for() == [{"latestRevision": True, "percent": 100}]
    cluster.patch(BETTER, percent=10)
    await cluster.until_shares(second=10, first=90)
    rest = {"revisionName": FIRST, "latestRevision": False, "percent": 90, "tag": "prev"}
    assert asked_for() == [{"latestRevision": True, "percent": 10}, rest]
    theirs = {"spec": {"traffic": [{"revisionName": FIRST, "percent": 100}]}}
    cluster.store.merge_patch("services", NAMESPACE, f"{NAME}-predictor", theirs)
    await cluster.until(lambda: asked_for()[-1:] == [rest], "KServe has written it over")
    cluster.store.delete(KIND, NAMESPACE, NAME)
    await cluster.until(lambda: not cluster.store.list("services", NAMESPACE), "it goes with the service")


async def test_traffic_is_told_before_envoy_has_it(cluster: Cluster) -> None:
    """With a slow ingress the status says what is intended; only with the route ready do users get it."""
    cluster.settings = replace(cluster.settings, ingress_lag_s=1.5)
    await cluster.restart()
    cluster.create(GOOD)
    await cluster.until_intended(first=100)
    assert cluster.route()["reason"] == "IngressNotConfigured"
    assert "url" not in cluster.status()
    assert (await asyncio.to_thread(ask_http, cluster.envoy.ingress_port))[0] == 404
    await cluster.until_shares(first=100)
    cluster.patch(BETTER, percent=99)
    await cluster.until_intended(second=99, first=1)
    assert cluster.route()["reason"] == "IngressNotConfigured"
    assert {await cluster.factor() for _ in range(20)} == {2.0}
    await cluster.until_shares(second=99, first=1)
    assert 3.0 in {await cluster.factor() for _ in range(20)}


async def test_a_dead_ingress_leaves_users_where_they_are(cluster: Cluster) -> None:
    """Percent 0 is intended, and told, for as long as one likes; users meet the candidate until the ingress is back."""
    cluster.create(GOOD)
    await cluster.until_shares(first=100)
    cluster.patch(BETTER, percent=50)
    await cluster.until_shares(second=50, first=50)
    alive = cluster.settings
    cluster.settings = replace(alive, ingress_lag_s=None)
    await cluster.restart()
    await cluster.until_shares(second=50, first=50)
    cluster.patch(percent=0)
    await cluster.until_intended(second=0, first=100)
    await cluster.until_answered()
    assert 3.0 in {await cluster.factor() for _ in range(60)}
    assert (cluster.route()["status"], cluster.route()["reason"]) == ("Unknown", "IngressNotConfigured")
    cluster.settings = alive
    await cluster.restart()
    await cluster.until_shares(second=0, first=100)
    await cluster.until_answered()
    assert {await cluster.factor() for _ in range(40)} == {2.0}


async def test_users_are_mirrored_while_a_candidate_is_shown(cluster: Cluster) -> None:
    """With a tagged candidate at 0 % users get stable's answers and the mirror copies, until the first percent."""
    cluster.create(GOOD)
    await cluster.until_shares(first=100)
    spec = {"predictor": {"canaryTrafficPercent": 0, "model": {"storageUri": BETTER}}}
    tagging = {"annotations": {"serving.kserve.io/enable-tag-routing": "true"}}
    cluster.store.merge_patch(KIND, NAMESPACE, NAME, {"metadata": tagging, "spec": spec})
    await cluster.until_shares(second=0, first=100)
    mirror = cluster.settings.mirror
    assert mirror is not None
    seen = []

    async def take(request: web.Request) -> web.Response:
        seen.append(request.host)
        return web.Response(status=500)

    with Load(cluster.envoy.ingress_port) as load:
        await cluster.until(lambda: sum(load.answers.values()) > 50, "answers with nobody at the mirror")
        application = web.Application()
        application.router.add_post("/{path:.*}", take)
        async with TestServer(application, port=mirror.http_port):
            await cluster.until(lambda: len(seen) > 20, "copies")
            cluster.patch(percent=10)
            await cluster.until_shares(second=10, first=90)
            seen.clear()
            answered = sum(load.answers.values())
            await cluster.until(lambda: sum(load.answers.values()) > answered + 50, "answers in the canary")
            assert len(seen) < 10  # the last ones may still have been under way
    assert load.failures == []


async def test_broken_candidate_gets_no_traffic(cluster: Cluster) -> None:
    """A candidate that cannot load leaves all the traffic where it was; the status says why it is blocked."""
    cluster.create(GOOD)
    await cluster.until_shares(first=100)
    cluster.patch(BROKEN, percent=20)
    await cluster.until(
        lambda: cluster.status()["modelStatus"]["transitionStatus"] == "BlockedByFailedLoad", "the failure"
    )
    assert cluster.shares() == {FIRST: 100}
    assert "cannot read the model" in cluster.status()["modelStatus"]["lastFailureInfo"]["message"]
    assert await cluster.factor() == 2.0
    cluster.patch(BETTER)
    await cluster.until_shares(third=20, first=80)


async def test_missing_repository_is_told(cluster: Cluster) -> None:
    """A storageUri under which nothing lies is a failed revision whose message names it."""
    cluster.create("s3://slipway/models/table/99")
    await cluster.until(
        lambda: "lastFailureInfo" in cluster.status().get("modelStatus", {}), "the failure to be told"
    )
    assert "s3://slipway/models/table/99" in cluster.status()["modelStatus"]["lastFailureInfo"]["message"]
    assert cluster.shares() == {}


async def test_killed_server_comes_back(cluster: Cluster) -> None:
    """A server that is killed is started again in its place, and the traffic finds it."""
    cluster.create(GOOD)
    await cluster.until_shares(first=100)
    process = cluster.run_of(FIRST)._server.process
    os.kill(process.pid, signal.SIGKILL)
    await cluster.until(lambda: cluster.run_of(FIRST).phase != "ready", "the end to be noticed")
    await cluster.until(lambda: cluster.run_of(FIRST).phase == "ready", "the server to be back")
    assert await cluster.factor() == 2.0


async def test_scaled_down_revision_is_woken_before_it_gets_traffic(cluster: Cluster) -> None:
    """Traffic that is to go to a scaled-down revision goes where it went until that one is back."""
    cluster.create(GOOD)
    await cluster.until_shares(first=100)
    cluster.patch(BETTER)
    await cluster.until_shares(second=100)
    await cluster.until(lambda: cluster.running() == {SECOND}, "the first revision to be scaled down")
    with Load(cluster.envoy.ingress_port) as load:
        cluster.patch(percent=10)  # no new spec: KServe falls back to the previous model
        await cluster.until_shares(second=10, first=90)
    assert load.failures == []


async def test_restarted_controller_goes_on(cluster: Cluster) -> None:
    """A controller that is started again serves the same revisions with the same weights."""
    cluster.create(GOOD)
    await cluster.until_shares(first=100)
    cluster.patch(BETTER, percent=10)
    await cluster.until_shares(second=10, first=90)
    before = cluster.status()
    await cluster.restart()
    await cluster.until(lambda: _both_ready(cluster), "both revisions to be back")
    await cluster.until_answered()
    assert cluster.status() == before


def _both_ready(cluster: Cluster) -> bool:
    assert cluster.controller is not None
    services = cluster.controller._services
    runs = services[(NAMESPACE, NAME)].runs if services else {}
    return {name for name, run in runs.items() if run.phase == "ready"} == {FIRST, SECOND}


async def test_deleted_service_leaves_nothing(cluster: Cluster) -> None:
    """Deleting the InferenceService ends its route and its server; a new one starts from revision 1."""
    cluster.create(GOOD)
    await cluster.until_shares(first=100)
    process = cluster.run_of(FIRST)._server.process
    cluster.store.delete(KIND, NAMESPACE, NAME)
    await cluster.until_ended(process)
    assert (await asyncio.to_thread(ask_http, cluster.envoy.ingress_port))[0] == 404
    cluster.create(BETTER)
    await cluster.until_shares(first=100)
    assert await cluster.factor() == 3.0


async def test_download_is_whole_or_not_at_all(bucket: dict[str, str], tmp_path: Path) -> None:
    """A repository comes with its structure; a bad or unreachable source is named and leaves nothing."""
    count = await asyncio.to_thread(download_repository, GOOD, tmp_path / "good", bucket)
    assert count == 2
    assert (tmp_path / "good" / "table" / "1" / "model.onnx").read_bytes() == table_model(2.0)
    unreachable = {**bucket, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{TritonPorts.free().http}"}
    for uri, environment, error in (
        ("s3://slipway/nothing/here", bucket, InputMissingError),
        ("https://slipway/models", bucket, InputMissingError),
        ("s3://no-such-bucket/models", bucket, StoreUnavailableError),
        (GOOD, unreachable, StoreUnavailableError),
    ):
        with pytest.raises(error, match=uri):
            await asyncio.to_thread(download_repository, uri, tmp_path / "bad", environment)
    assert not (tmp_path / "bad").exists()


async def test_settings_come_from_the_clusters_file(tmp_path: Path) -> None:
    """The controller's settings are read from cluster.json, and a missing key is named."""
    config = {
        "state_dir": "state",
        "images_dir": "images",
        "node_env": {"AWS_REGION": "us-east-1"},
        "kserve": {"router_dir": "router", "router_admin_url": "http://127.0.0.1:1", "domain": "d"},
    }
    settings = KServeSettings.from_cluster_config(config, tmp_path)
    assert (settings.domain, settings.router_dir) == ("d", tmp_path / "router")
    assert settings.triton_venv == tmp_path / "images" / "triton"
    assert settings.mirror is None
    config["kserve"]["mirror"] = {"http_port": 1, "grpc_port": 2}
    assert KServeSettings.from_cluster_config(config, tmp_path).mirror == Mirror(1, 2)
    with pytest.raises(SlipwayError, match="router_dir"):
        KServeSettings.from_cluster_config({**config, "kserve": {}}, tmp_path)

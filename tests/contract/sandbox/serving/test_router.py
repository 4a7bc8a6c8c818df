"""Envoy as the weighted router, as a real process, before real tritonservers."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import numpy as np
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from slipway.hooks.ingress import Endpoint
from slipway.metrics.streams_seen import FILTER, streams_counted
from slipway.traffic.golden_requests.grpc_body import grpc_body
from slipway.traffic.streams.generate_streams import GenerateStreams, generate_body
from slipway.traffic.streams.grpc_streams import GrpcStreams
from slipway_core.errors import ServerUnavailableError, SlipwayError
from slipway_core.metrics.queries import QUERY_SETS
from slipway_core.tensors import TensorSpec
from slipway_sandbox.host.settings import PROJECT_ROOT
from slipway_sandbox.services.router import Router, envoy_program
from slipway_sandbox.services.routing import Backend, Ingress, Mirror, Routing
from slipway_sandbox.services.triton import TritonPorts, TritonServer
from slipway_sandbox.services.triton_install import TritonInstall
from tests.support.serving.clients import HOST, Load, ask_grpc, ask_http, body_of, grpc_client
from tests.support.serving.envoy import Envoy
from tests.support.serving.models import table_model, write_repository
from tests.support.waiting import until

pytestmark = [pytest.mark.timeout(600), pytest.mark.asyncio]

TAG_HOST = "latest-table-predictor.models.sandbox.test"
OLD, NEW = "table-predictor-00001", "table-predictor-00002"


@pytest.fixture(scope="module")
def backends(
    install: TritonInstall, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Backend]]:
    """Two running revisions: the old one doubles, the new one trebles."""
    servers = {}
    try:
        for revision, factor in ((OLD, 2.0), (NEW, 3.0)):
            directory = tmp_path_factory.mktemp(revision)
            more = "dynamic_batching { }"
            write_repository(directory / "repository", versions={1: table_model(factor)}, more=more)
            server = TritonServer(
                install,
                directory / "repository",
                TritonPorts.free(),
                log_path=directory / "log",
                exit_timeout_s=3,
            )
            server.start()
            servers[revision] = server
        for server in servers.values():
            server.wait_ready(30)
        yield {name: Backend(name, one.ports.http, one.ports.grpc) for name, one in servers.items()}
    finally:
        for server in servers.values():
            server.stop(grace_s=0.5)


def split(backends: dict[str, Backend], **percents: int) -> Routing:
    """The routing of one ingress over the given backends."""
    names = {"old": OLD, "new": NEW}
    weights = tuple((names[name], percent) for name, percent in percents.items())
    return Routing(tuple(backends.values()), (Ingress("models/table", (HOST,), weights),))


async def scrape(envoy: Envoy) -> dict[str, float]:
    """Envoy's Prometheus page as {series: value}."""
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{envoy.admin_port}/stats/prometheus") as response,
    ):
        text = await response.text()
    return {
        name: float(value) for name, value in re.findall(r"^([a-z][^#\n]*) ([0-9.e+]+)$", text, re.MULTILINE)
    }


def cluster_series(name: str, revision: str, protocol: str, **labels: str) -> str:
    """The name of a series of one cluster on the Prometheus page."""
    parts = [*(f'{key}="{value}"' for key, value in sorted(labels.items()))]
    parts.append(f'envoy_cluster_name="{revision}|{protocol}"')
    return f"{name}{{{','.join(parts)}}}"


async def test_unknown_host_is_not_found(envoy: Envoy, backends: dict[str, Backend]) -> None:
    """A host that no InferenceService has gets 404, before and after others are routed."""
    assert (await asyncio.to_thread(ask_http, envoy.ingress_port))[0] == 404
    await envoy.router.apply(split(backends, old=100))
    assert (await asyncio.to_thread(ask_http, envoy.ingress_port, 1.0, "other.test"))[0] == 404


async def test_http_and_grpc_share_the_port(envoy: Envoy, backends: dict[str, Backend]) -> None:
    """Once apply returns, both protocols answer on one port, whatever port the host name carries."""
    await envoy.router.apply(split(backends, old=100))
    assert await asyncio.to_thread(ask_http, envoy.ingress_port) == (200, 2.0)
    assert await asyncio.to_thread(ask_http, envoy.ingress_port, 1.0, f"{HOST}:8080") == (200, 2.0)
    with grpc_client(envoy.ingress_port) as client:
        assert await asyncio.to_thread(ask_grpc, client) == 2.0


async def test_fifty_weight_changes_lose_no_request(envoy: Envoy, backends: dict[str, Backend]) -> None:
    """Under load over both protocols fifty changes of the weights fail no request; both revisions answer."""
    await envoy.router.apply(split(backends, old=100, new=0))
    with Load(envoy.ingress_port) as load:
        for change in range(50):
            new = (5, 25, 50, 99, 0)[change % 5]
            await envoy.router.apply(split(backends, old=100 - new, new=new))
            await asyncio.sleep(0.04)  # not a wait: the load needs some room between changes to be one
    assert load.failures == []
    assert set(load.answers) == {"http 2", "http 3", "grpc 2", "grpc 3"}
    assert sum(load.answers.values()) > 200


async def test_revision_that_leaves_loses_no_request(envoy: Envoy, backends: dict[str, Backend]) -> None:
    """Under load, taking the revision that has all the traffic out of the router fails no request."""
    only = {"old": {OLD: backends[OLD]}, "new": {NEW: backends[NEW]}}
    await envoy.router.apply(split(only["old"], old=100))
    with Load(envoy.ingress_port) as load:
        for _ in range(5):
            await envoy.router.apply(split(only["new"], new=100))
            await envoy.router.apply(split(only["old"], old=100))
    assert load.failures == []
    assert sum(load.answers.values()) > 50


async def test_new_weight_is_in_force_when_apply_returns(envoy: Envoy, backends: dict[str, Backend]) -> None:
    """After weight 0 is applied no later request reaches that revision."""
    for _ in range(10):
        await envoy.router.apply(split(backends, old=0, new=100))
        assert await asyncio.to_thread(ask_http, envoy.ingress_port) == (200, 3.0)
        await envoy.router.apply(split(backends, old=100, new=0))
        assert await asyncio.to_thread(ask_http, envoy.ingress_port) == (200, 2.0)


async def test_same_routing_again_changes_nothing(
    envoy: Envoy, backends: dict[str, Backend], tmp_path: Path
) -> None:
    """Applying what is in force leaves the files untouched."""
    await envoy.router.apply(split(backends, old=50, new=50))
    before = [(tmp_path / "router" / name).stat().st_ino for name in ("clusters.json", "routes.json")]
    await envoy.router.apply(split(backends, old=50, new=50))
    after = [(tmp_path / "router" / name).stat().st_ino for name in ("clusters.json", "routes.json")]
    assert before == after


async def test_streams_of_users_are_counted_by_ingress(envoy: Envoy, backends: dict[str, Backend]) -> None:
    """Both of Triton's streaming calls count, single requests do not, and a revision's own URL counts apart."""
    tagged = Ingress("models/table/latest", (TAG_HOST,), ((NEW, 100),), tag="latest")
    users = split(backends, old=50, new=50)
    await envoy.router.apply(Routing(users.backends, (*users.ingresses, tagged)))
    await asyncio.to_thread(ask_http, envoy.ingress_port)
    with grpc_client(envoy.ingress_port) as client:
        await asyncio.to_thread(ask_grpc, client)
    rows = (TensorSpec(name="x", datatype="FP32", shape=(-1, 2)),)
    row = {"x": np.ones((1, 2), np.float32)}
    for host, times in ((HOST, 2), (TAG_HOST, 5)):
        endpoint = Endpoint(f"http://127.0.0.1:{envoy.ingress_port}", host)
        by_events, by_grpc = (
            GenerateStreams(endpoint, "table", ("y",), 5.0),
            GrpcStreams(endpoint, ("y",), 5.0),
        )
        for _ in range(times):
            assert (await by_events.ask(generate_body(rows, row))).fault == ""
            assert (await by_grpc.ask(grpc_body("table", rows, row))).fault == ""
        await by_events.close()
        await by_grpc.close()
    async with (
        aiohttp.ClientSession() as session,
        session.get(
            f"http://127.0.0.1:{envoy.admin_port}/stats/prometheus", params={"filter": FILTER}
        ) as response,
    ):
        page = await response.text()
    assert streams_counted([page], "models", "table") == 4
    assert streams_counted([page], "models", "other") == 0


async def test_answers_are_counted_by_revision_and_protocol(
    envoy: Envoy, backends: dict[str, Backend]
) -> None:
    """Good and bad answers of both protocols, and latencies, are counted for the revision that gave them."""
    await envoy.router.apply(split(backends, old=100))
    for first in (1.0, 1.0, 1.0, 50.0):
        await asyncio.to_thread(ask_http, envoy.ingress_port, first)
    with grpc_client(envoy.ingress_port) as client:
        await asyncio.to_thread(ask_grpc, client)
        with pytest.raises(Exception, match="out of"):
            await asyncio.to_thread(ask_grpc, client, 50.0)
    await wait_for_series(envoy, cluster_series("envoy_cluster_upstream_rq_time_count", OLD, "grpc"), 2)
    series = await scrape(envoy)
    code = "envoy_cluster_upstream_rq_xx"
    assert series[cluster_series(code, OLD, "http", envoy_response_code_class="2")] == 3
    assert series[cluster_series(code, OLD, "http", envoy_response_code_class="5")] == 1
    assert series[cluster_series("envoy_cluster_grpc_success", OLD, "grpc")] == 1
    assert series[cluster_series("envoy_cluster_grpc_failure", OLD, "grpc")] == 1
    assert series[cluster_series("envoy_cluster_grpc_total", OLD, "grpc")] == 2
    # A failed gRPC call is HTTP 200: the status class would count it as good.
    assert series[cluster_series(code, OLD, "grpc", envoy_response_code_class="2")] == 2
    assert series[cluster_series("envoy_cluster_upstream_rq_time_count", OLD, "http")] == 4


def mirrored(backends: dict[str, Backend], mirror: Mirror) -> Routing:
    """All users on the old revision, the new one at its tag's own host, and copies to the mirror."""
    users = Ingress("models/table", (HOST,), ((OLD, 100), (NEW, 0)), mirror=mirror)
    return Routing(
        tuple(backends.values()),
        (users, Ingress("models/table/latest", (TAG_HOST,), ((NEW, 100),), tag="latest")),
    )


async def test_who_asks_at_a_tags_host_is_not_counted_among_users(
    envoy: Envoy, backends: dict[str, Backend]
) -> None:
    """Requests at a tag's host reach its revision, name it, and are counted apart from users', as the judge reads."""
    await envoy.router.apply(mirrored(backends, Mirror(*closed_ports())))
    for _ in range(3):
        assert await asyncio.to_thread(ask_http, envoy.ingress_port, 1.0, TAG_HOST) == (200, 3.0)
    async with (
        aiohttp.ClientSession() as session,
        session.post(
            f"http://127.0.0.1:{envoy.ingress_port}/v2/models/table/infer",
            data=body_of(1.0),
            headers={"Host": TAG_HOST},
        ) as response,
    ):
        assert response.headers["x-slipway-revision"] == NEW
    series = await scrape(envoy)
    code = "envoy_cluster_upstream_rq_xx"
    assert series[cluster_series(code, f"{NEW}~latest", "http", envoy_response_code_class="2")] == 4
    for protocol in ("http", "grpc"):
        assert series[cluster_series("envoy_cluster_upstream_rq_total", NEW, protocol)] == 0
    queries = QUERY_SETS["envoy"].filled({"revision": NEW}).queries(60)
    (pattern,) = re.findall(r'=~"([^"]+)"', next(query for kind, query in queries if kind == "latency"))
    assert re.fullmatch(pattern, f"{NEW}|http")
    assert not re.fullmatch(pattern, f"{NEW}~latest|http")


async def test_a_mirror_gets_copies_of_users_requests_alone(
    envoy: Envoy, backends: dict[str, Backend]
) -> None:
    """The mirror is sent what users send, under their host with -shadow; not what is asked at a tag's host."""
    seen: list[tuple[str, bytes]] = []

    async def take(request: web.Request) -> web.Response:
        seen.append((request.headers["Host"], await request.read()))
        return web.Response(status=500)

    application = web.Application()
    application.router.add_post("/{path:.*}", take)
    async with TestServer(application) as server:
        await envoy.router.apply(mirrored(backends, Mirror(int(server.port or 0), closed_ports()[1])))
        assert await asyncio.to_thread(ask_http, envoy.ingress_port, 1.0, TAG_HOST) == (200, 3.0)
        assert await asyncio.to_thread(ask_http, envoy.ingress_port, 2.0) == (200, 2.0)
        await until(lambda: len(seen) == 1, "the copy")
    assert seen == [(f"{HOST}-shadow", body_of(2.0))]


@pytest.mark.parametrize("listens", [False, True], ids=["nobody listens", "it never answers"])
async def test_a_bad_mirror_touches_no_user(
    envoy: Envoy, backends: dict[str, Backend], listens: bool
) -> None:
    """With a mirror that is not there, or hangs, all users' requests are answered, and counted once."""

    async def never(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    silent = await asyncio.start_server(never, "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    mirror = Mirror(port, port) if listens else Mirror(*closed_ports())
    try:
        await envoy.router.apply(mirrored(backends, mirror))
        with Load(envoy.ingress_port) as load:
            await until(lambda: sum(load.answers.values()) > 300, "300 answers")
    finally:
        silent.close()
    assert load.failures == []
    assert set(load.answers) == {"http 2", "grpc 2"}
    series = await scrape(envoy)
    code = "envoy_cluster_upstream_rq_xx"
    for protocol in ("http", "grpc"):
        users = series[cluster_series(code, OLD, protocol, envoy_response_code_class="2")]
        assert users == load.answers[f"{protocol} 2"]
        assert series[cluster_series("envoy_cluster_upstream_cx_total", mirror.name, protocol)] > 0


async def test_the_example_of_an_envoy_with_a_mirror_is_valid() -> None:
    """Envoy itself takes the example as it stands."""
    example = PROJECT_ROOT / "include" / "manifests" / "mirror-comparison" / "envoy.yaml"
    process = await asyncio.create_subprocess_exec(
        *(str(envoy_program()), "--mode", "validate", "--config-path", str(example), "--log-level", "error"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    told, _ = await process.communicate()
    assert process.returncode == 0, told.decode()


async def test_a_mirror_comes_and_goes_without_a_lost_request(
    envoy: Envoy, backends: dict[str, Backend]
) -> None:
    """Under load, switching the mirror on and off fails no request."""
    mirror = Mirror(*closed_ports())
    await envoy.router.apply(split(backends, old=100, new=0))
    with Load(envoy.ingress_port) as load:
        for _ in range(5):
            await envoy.router.apply(mirrored(backends, mirror))
            await envoy.router.apply(split(backends, old=100, new=0))
    assert load.failures == []
    assert sum(load.answers.values()) > 50


def closed_ports() -> tuple[int, int]:
    """Two ports of loopback on which nobody listens."""
    ports = TritonPorts.free()
    return ports.http, ports.grpc


async def test_unreachable_server_counts_as_failure(envoy: Envoy) -> None:
    """An answer that Envoy gives because a revision's server is gone counts as that revision's failure."""
    ports = TritonPorts.free()
    await envoy.router.apply(split({OLD: Backend(OLD, ports.http, ports.grpc)}, old=100))
    assert (await asyncio.to_thread(ask_http, envoy.ingress_port))[0] == 503
    with grpc_client(envoy.ingress_port) as client, pytest.raises(Exception, match="upstream connect error"):
        await asyncio.to_thread(ask_grpc, client)
    series = await scrape(envoy)
    code = cluster_series("envoy_cluster_upstream_rq_xx", OLD, "http", envoy_response_code_class="5")
    assert series[code] == 1
    assert series[cluster_series("envoy_cluster_grpc_failure", OLD, "grpc")] == 1


async def test_refused_routes_are_told(envoy: Envoy, backends: dict[str, Backend]) -> None:
    """Routes that Envoy refuses are an error at once; what was in force stays; good ones are taken again."""
    good = split(backends, old=100)
    await envoy.router.apply(good)
    twice = (*good.ingresses, Ingress("models/other", (HOST,), ((OLD, 100),)))
    with pytest.raises(SlipwayError, match=r"refuses routes\.json"):
        await envoy.router.apply(Routing(good.backends, twice))
    assert (await asyncio.to_thread(ask_http, envoy.ingress_port))[0] == 200
    await envoy.router.apply(split(backends, new=100))
    assert await asyncio.to_thread(ask_http, envoy.ingress_port) == (200, 3.0)


async def wait_for_series(envoy: Envoy, name: str, value: float) -> None:
    """Wait until a series reaches a value: histograms are as old as Envoy's last flush."""
    for _ in range(100):
        if (await scrape(envoy)).get(name) == value:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"{name} did not become {value}")


async def test_weights_that_do_not_sum_are_refused() -> None:
    """Weights must sum to 100 and lead to known revisions."""
    with pytest.raises(SlipwayError, match="sum to 100"):
        Ingress("models/table", (HOST,), ((OLD, 50), (NEW, 40)))
    with pytest.raises(SlipwayError, match="without a server"):
        Routing((), (Ingress("models/table", (HOST,), ((OLD, 100),)),))


async def test_unreachable_envoy_is_named(tmp_path: Path, backends: dict[str, Backend]) -> None:
    """Without an Envoy to take it, applying fails and says where it looked."""
    port = TritonPorts.free().http
    (tmp_path / "router").mkdir()
    router = Router(tmp_path / "router", f"http://127.0.0.1:{port}")
    with pytest.raises(ServerUnavailableError, match=f"http://127.0.0.1:{port}"):
        await router.apply(split(backends, old=100))

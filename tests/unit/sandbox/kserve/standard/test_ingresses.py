"""What the emulated controller has the router do about tags and mirrors, in both modes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import pytest_asyncio

from slipway_sandbox.kserve.knative.traffic_rules import Target
from slipway_sandbox.kserve.knative.worker import KnativeWorker
from slipway_sandbox.kserve.settings import KServeSettings
from slipway_sandbox.kserve.standard import machine
from slipway_sandbox.kserve.standard.worker import StandardWorker
from slipway_sandbox.kserve.worker import ServiceWorker, WorkerContext
from slipway_sandbox.services.envoy_config import cluster_documents, route_document
from slipway_sandbox.services.routing import Backend, Ingress, Mirror, Routing

MIRROR = Mirror(9000, 9001)
OLD, NEW = "digits-predictor-00001", "digits-predictor-00002"
Make = Callable[[type[ServiceWorker]], Any]


@pytest_asyncio.fixture
async def make(tmp_path: Path) -> AsyncIterator[Make]:
    """Makes workers that do nothing by themselves."""
    made: list[ServiceWorker] = []
    settings = KServeSettings(tmp_path, tmp_path, "http://127.0.0.1:9", mirror=MIRROR)
    context = WorkerContext(
        SimpleNamespace(),  # type: ignore[arg-type]
        settings,
        lambda: None,  # type: ignore[arg-type,return-value]
        asyncio.Event().wait,  # type: ignore[arg-type]
        SimpleNamespace(),  # type: ignore[arg-type]
        asyncio.Event().wait,  # type: ignore[arg-type]
    )

    def worker(kind: type[ServiceWorker]) -> ServiceWorker:
        made.append(kind(context, "models", "digits"))
        return made[-1]

    yield worker
    for one in made:
        one._worker.cancel()


def knative(make: Make, *targets: Target) -> list[Ingress]:
    worker = make(KnativeWorker)
    worker._routed = targets
    return list(worker.ingresses())


@pytest.mark.parametrize(
    ("targets", "mirrored"),
    [
        ((Target(NEW, 0, True, "latest"), Target(OLD, 100, False, "prev")), True),
        ((Target(NEW, 5, True, "latest"), Target(OLD, 95, False, "prev")), False),
        ((Target(NEW, 0, True), Target(OLD, 100, False, "prev")), False),
        ((Target(OLD, 0, True, "latest"), Target(OLD, 100, False, "prev")), False),
        ((Target(NEW, 100, True, "latest"),), False),
    ],
    ids=["shown", "a canary", "not shown", "one revision", "promoted"],
)
async def test_users_are_mirrored_while_a_candidate_is_shown(
    make: Make, targets: tuple[Target, ...], mirrored: bool
) -> None:
    """Knative: as long as a tag leads to a revision without users; never what is asked at a tag's own host."""
    users, *tagged = knative(make, *targets)
    assert users.mirror == (MIRROR if mirrored else None)
    assert [one.mirror for one in tagged] == [None] * len(tagged)
    assert [one.tag for one in tagged] == [target.tag for target in targets if target.tag]


@pytest.mark.parametrize(("percent", "mirrored"), [(0, True), (5, False)])
async def test_standard_mode_mirrors_likewise(make: Make, percent: int, mirrored: bool) -> None:
    """Standard: as long as the routes name a Deployment that runs and has no users."""
    worker = make(StandardWorker)
    pods = machine.Pods("template", 1, "s3://b/m", phase="ready", available=1)
    names = ("digits-predictor", "digits-two-predictor")
    worker.predictor = machine.Predictor(
        workloads=tuple(machine.Workload(name, 1, (pods,)) for name in names)
    )
    worker.runs = {f"{name}-1": SimpleNamespace() for name in names}
    worker._routed = (machine.Backend(names[0], 100 - percent), machine.Backend(names[1], percent))
    users, *services = worker.ingresses()
    assert users.mirror == (MIRROR if mirrored else None)
    assert [(one.tag, one.mirror) for one in services] == [("service", None)] * 2


async def test_tags_and_mirrors_have_clusters_of_their_own(make: Make) -> None:
    """Every route leads to a cluster that is there, and only users' routes to those that the judge reads."""
    ingresses = knative(make, Target(NEW, 0, True, "latest"), Target(OLD, 100, False, "prev"))
    routing = Routing((Backend(OLD, 1, 2), Backend(NEW, 3, 4)), tuple(ingresses))
    clusters = {one["name"] for one in cluster_documents(routing)}
    led_to: dict[str, set[str]] = {}
    for host in route_document(ingresses)["virtual_hosts"]:
        for route in host["routes"]:
            action = route["route"]
            led_to.setdefault(host["name"], set()).update(
                one["name"] for one in (*action["weighted_clusters"]["clusters"],)
            )
            led_to.setdefault(f"{host['name']} mirror", set()).update(
                one["cluster"] for one in action["request_mirror_policies"]
            )
    assert led_to["models/digits"] == {f"{OLD}|http", f"{OLD}|grpc"}
    assert led_to["models/digits/latest"] == {f"{NEW}~latest|http", f"{NEW}~latest|grpc"}
    assert led_to["models/digits mirror"] == {"mirror~9000|http", "mirror~9000|grpc"}
    assert set().union(*led_to.values()) <= clusters

"""doctor looks at a model that is live, and plants faults in one of its own: real Tritons behind a real Envoy."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from slipway.doctor.examination import chosen_examinations
from slipway.doctor.examinations import release_files
from slipway.doctor.examining import examine
from slipway.doctor.installation import Installation, Permission
from slipway.doctor.planted_model import MODEL, repository_files
from slipway.hooks.inference_service import KServeHook
from slipway.metrics.sources.scrape import EnvoyMetricsHook
from slipway_core.doctor.line import Line, Status
from slipway_core.metrics.samples import Reading
from slipway_core.rollout.next_action import FirstDeploy
from tests.support.examples import nightly
from tests.support.serving.published import GOOD
from tests.support.serving.serving_stack import ServingStack, manifest
from tests.support.store.connections import aws_connection

pytestmark = [pytest.mark.timeout(600), pytest.mark.asyncio]

MODES = pytest.mark.parametrize("mode", ["Knative", "Standard"])
RELEASE = """
model: table
source: {format: onnx}
rollout: {namespace: models, inference_service: table, deployment_mode: MODE}
"""


@pytest.fixture
def installation(
    serving_stack: ServingStack,
    published_bucket: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Installation:
    """The connections of the stack, and its bucket."""
    for name, port in (
        ("METRICS", serving_stack.envoy.admin_port),
        ("INGRESS", serving_stack.envoy.ingress_port),
    ):
        value = {"conn_type": "http", "host": "127.0.0.1", "port": port, "schema": "http"}
        monkeypatch.setenv(f"AIRFLOW_CONN_SLIPWAY_{name}", json.dumps(value))
    monkeypatch.setenv("AIRFLOW_CONN_AWS_DEFAULT", aws_connection(published_bucket["AWS_ENDPOINT_URL"]))
    monkeypatch.setattr(release_files, "WATCHED_S", 3.0)
    (tmp_path / "releases").mkdir()
    return Installation("slipway", tmp_path / "releases")


async def deploy(serving_stack: ServingStack, installation: Installation, mode: str) -> None:
    """Deploy the first version, and write its release file."""
    service = manifest(GOOD)
    service["metadata"]["annotations"] = {"serving.kserve.io/deploymentMode": mode}
    await serving_stack.reach(FirstDeploy(service))
    text = RELEASE.replace("MODE", mode)
    (installation.releases_dir / "table.yaml").write_text(text, encoding="utf-8")


async def examined(installation: Installation, *names: str) -> dict[str, Line]:
    """Return the lines of some examinations by what they are about."""
    report = await asyncio.to_thread(examine, installation, chosen_examinations(names))
    return {line.what: line for line in report.lines}


@MODES
async def test_a_model_that_is_live_is_looked_at(
    serving_stack: ServingStack, installation: Installation, mode: str
) -> None:
    """By its users' way, in its metrics, and at the traffic that it has; a dead gateway is found."""
    await deploy(serving_stack, installation, mode)
    with serving_stack.load() as load:
        await serving_stack.until(lambda: load.answers["http 2"] > 20, "answers")
        found = await examined(installation, "kserve", "gateway", "metrics", "release_files")
    of_service = "InferenceService models/table"
    assert found[f"{of_service} by its users' way"].status is Status.OK
    assert found[f"{of_service} at weight 0"].status in (Status.OK, Status.UNKNOWN)
    for what in ("", ": latency", ": requests that are never answered"):
        assert found[f"metrics of table{what}"].status is Status.OK
    (canary,) = [line for what, line in found.items() if what.startswith("canary of table at")]
    assert canary.status is Status.OK
    assert "is found at" in canary.found


async def test_a_gateway_that_does_not_answer_and_metrics_that_are_away_are_found(
    serving_stack: ServingStack, installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Users would meet the same."""
    await deploy(serving_stack, installation, "Knative")
    nobody = json.dumps({"conn_type": "http", "host": "127.0.0.1", "port": 9, "schema": "http"})
    for name in ("METRICS", "INGRESS"):
        monkeypatch.setenv(f"AIRFLOW_CONN_SLIPWAY_{name}", nobody)
    found = await examined(installation, "gateway", "metrics", "release_files")
    assert found["InferenceService models/table by its users' way"].status is Status.FAILED
    assert found["metrics of table"].status is Status.FAILED
    assert found["canary of table"].status is Status.UNKNOWN


@pytest.mark.parametrize("mode", ["Knative", nightly("Standard")])
async def test_planted_faults_are_counted_and_nothing_is_left(
    serving_stack: ServingStack, installation: Installation, mode: str
) -> None:
    """An error and a hang, in a model of its own; without the permission nothing is planted."""
    await deploy(serving_stack, installation, mode)
    skipped = await examined(installation, "planted_faults")
    assert {line.status for line in skipped.values()} == {Status.SKIPPED}
    installation.permitted = frozenset({Permission.PLANT})
    found = await examined(installation, "planted_faults")
    assert {line.status for line in found.values()} == {Status.OK}, found
    assert len(found) == 2
    assert await asyncio.to_thread(KServeHook(MODEL, "models").get) is None
    store = installation.store()
    assert not any(store.exists(key) for key in repository_files())
    assert serving_stack.traffic() == dict.fromkeys(serving_stack.traffic(), 100)


async def test_a_source_that_counts_no_fault_has_failed(
    serving_stack: ServingStack, installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with a label that relabelling has dropped."""
    await deploy(serving_stack, installation, "Knative")
    monkeypatch.setattr("slipway.doctor.examinations.planted_faults._SETTLES_S", 2.0)
    read = EnvoyMetricsHook.read
    seen: dict[str, Reading] = {}

    def blind(self: EnvoyMetricsHook, revisions: Iterable[str]) -> dict[str, Reading]:
        (name,) = revisions
        if name not in seen:
            seen[name] = read(self, [name])[name]
        return {name: seen[name]}

    monkeypatch.setattr(EnvoyMetricsHook, "read", blind)
    installation.permitted = frozenset({Permission.PLANT})
    found = await examined(installation, "planted_faults")
    assert [line.status for line in found.values()] == [Status.FAILED, Status.FAILED]


async def test_a_model_of_a_user_of_that_name_is_left_alone(
    serving_stack: ServingStack, installation: Installation
) -> None:
    """Nothing is deployed over it, and nothing removed."""
    text = RELEASE.replace("MODE", "Knative").replace("table", MODEL)
    (installation.releases_dir / f"{MODEL}.yaml").write_text(text, encoding="utf-8")
    service = manifest(GOOD)
    service["metadata"]["name"] = MODEL
    assert await asyncio.to_thread(KServeHook(MODEL, "models").create, service)
    installation.permitted = frozenset({Permission.PLANT})
    named = await examined(installation, "planted_faults")
    (installation.releases_dir / f"{MODEL}.yaml").unlink()
    other = RELEASE.replace("MODE", "Knative")
    (installation.releases_dir / "table.yaml").write_text(other, encoding="utf-8")
    foreign = await examined(
        Installation("slipway", installation.releases_dir, permitted=installation.permitted), "planted_faults"
    )
    for found in (named, foreign):
        assert {line.status for line in found.values()} == {Status.FAILED}
    assert await asyncio.to_thread(KServeHook(MODEL, "models").get) is not None

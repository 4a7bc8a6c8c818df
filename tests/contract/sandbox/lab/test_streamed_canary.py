"""A canary of a decoupled model: real Tritons behind a real Envoy, and users who ask over streams."""

from __future__ import annotations

import asyncio
import io
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np
import pytest

from slipway_core.bucket_layout import repository_paths
from slipway_core.errors import StreamsUnreadError
from slipway_core.publishing.manifest import FileEntry, Provenance
from slipway_core.spec.release_file import parse_release_spec
from slipway_core.tensors import TensorSpec
from slipway_sandbox.lab.models import publish_files, repository_files
from slipway_sandbox.lab.serving_stack import Lab
from slipway_sandbox.services.object_store import client
from tests.support.serving.stream_model import stream_model_files

if TYPE_CHECKING:
    from benchmarks.live.canary import LabModel
    from slipway.release_run import ReleaseRun

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

MODEL = "moody"
RELEASE_FILE = """
model: moody
source: {}
validation: {output: y}
rollout:
  steps: [{weight: 50, bake_s: 4}]
  window_s: 1
  max_bake_s: 40
  analysis: {minimum_candidate_requests: 30}
  streaming: {requests_per_s: 60, timeout_s: 2}
"""
TAG_ROUTING = "serving.kserve.io/enable-tag-routing"
X = (TensorSpec(name="x", datatype="FP32", shape=(1,)),)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabModel]:
    """A decoupled model with version 1 live, whose revisions have URLs of their own."""
    root = tmp_path_factory.mktemp("lab")
    with Lab(root) as lab, patch.dict(os.environ, lab.environment(root / "airflow")):
        from benchmarks.live.canary import LabModel
        from slipway.traffic.reconciler import first_deploy
        from slipway_core.rollout.next_action import FirstDeploy

        made = LabModel(lab, parse_release_spec(RELEASE_FILE, "moody.yaml"))
        manifest = first_deploy(published(made)).manifest
        manifest["metadata"].setdefault("annotations", {})[TAG_ROUTING] = "true"
        made.drive(FirstDeploy(manifest))
        yield made


def published(model: LabModel, fault: str = "", *, decoupled: bool = True, **streaming: Any) -> ReleaseRun:
    """Publish the next version with a golden set of one row; a decoupled one fails as told inside its streams."""
    from slipway.hooks.s3_store import ModelStoreHook
    from slipway.registry.registry import ModelRegistry, golden_key

    release_run = model.publish()
    bucket, version = release_run.bucket, release_run.version
    files = stream_model_files(MODEL, version, fault) if decoupled else repository_files(MODEL, version)
    publish_files(client(model.lab.settings, "s3"), bucket, MODEL, version, files)
    file = io.BytesIO()
    np.savez(file, x=np.ones(1, dtype=np.float32), label=np.zeros(1, dtype=np.int64))
    store = ModelStoreHook(bucket)
    source = Provenance(files={"golden.npz": FileEntry.of(file.getvalue())})
    manifest = ModelRegistry(store).require(MODEL, version).model_copy(update={"source": source})
    store.write(golden_key(manifest), file.getvalue())
    store.write(repository_paths(MODEL, version).manifest, manifest.to_bytes())
    rollout = release_run.spec.rollout
    rollout = rollout.model_copy(update={"streaming": rollout.streaming.model_copy(update=streaming)})
    return release_run.model_copy(update={"spec": release_run.spec.model_copy(update={"rollout": rollout})})


class Users:
    """What users of the streams met."""

    def __init__(self) -> None:
        self.answers = self.errors = 0


@contextmanager
def users_of(model: LabModel, requests_per_s: float = 60.0) -> Iterator[Users]:
    """Users who each ask one request over a gRPC stream, through the router."""
    from slipway.hooks.ingress import Endpoint
    from slipway.traffic.golden_requests.grpc_body import grpc_body
    from slipway.traffic.streams.grpc_streams import GrpcStreams

    users, stop = Users(), threading.Event()
    settings = model.lab.settings
    endpoint = Endpoint(
        f"http://127.0.0.1:{settings.ports.ingress}",
        settings.service_host(MODEL, model.spec.rollout.namespace),
    )

    async def one(streams: GrpcStreams, body: bytes) -> None:
        answer = await streams.ask(body)
        users.answers += 1
        users.errors += bool(answer.fault)

    async def ask() -> None:
        streams = GrpcStreams(endpoint, ("y",), 5.0)
        body = grpc_body(MODEL, X, {"x": np.ones(1, np.float32)})
        asked = set()
        while not stop.is_set():
            asked.add(asyncio.create_task(one(streams, body)))
            await asyncio.sleep(1.0 / requests_per_s)
        await asyncio.gather(*asked)
        await streams.close()

    thread = threading.Thread(target=lambda: asyncio.run(ask()))
    thread.start()
    try:
        yield users
    finally:
        stop.set()
        thread.join()


def verdicts_of(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The recorded verdicts, in order."""
    return [event["data"]["verdict"] for event in events if event["kind"] == "window_judged"]


@pytest.mark.parametrize(
    ("streaming", "refusal"),
    [
        ({}, ""),
        ({"protocol": "generate_stream"}, ""),
        ({"timeout_s": 1e-6}, "no answer of the stable version to 3 golden requests by grpc"),
    ],
    ids=["grpc", "generate_stream", "no time"],
)
def test_before_the_first_percent_stable_is_asked(
    model: LabModel, streaming: dict[str, Any], refusal: str
) -> None:
    """Over the protocol that the canary will use, at the users' own URL."""
    from slipway.release_context import Connections, ReleaseContext
    from slipway.traffic.streams.preflight import require_streams_read

    release_run = published(model, **streaming)
    parts = ReleaseContext(release_run.model_dump(mode="json"), Connections())
    told = ""
    try:
        require_streams_read(parts)
    except StreamsUnreadError as error:
        told = str(error)
    assert refusal in told
    assert bool(refusal) == bool(told)


async def test_a_candidate_that_fails_inside_its_streams_is_taken_back(model: LabModel) -> None:
    """The router counts no error of its users; streamed golden requests condemn it long before its bake is over."""
    release_run = published(model, "error")
    with users_of(model) as users:
        decision, events = await model._watch(release_run)
    verdicts = verdicts_of(events)
    assert (decision, verdicts[-1]["status"]) == ("roll_back", "fail")
    seen = verdicts[-1]["statistics"]["canary"]
    assert users.errors > 0
    assert (seen["candidate_requests"] > 0, seen["candidate_errors"]) == (True, 0)
    assert seen["streamed_errors"] == seen["streamed_requests"] > 0
    assert seen["stable_streamed_errors"] == 0
    assert "streamed golden requests" in verdicts[-1]["reason"]
    model.restore(release_run)


async def test_a_good_candidate_passes_by_answers_that_were_read(model: LabModel) -> None:
    """Users' windows and streamed ones are clean: the step passes, and says how many answers were read."""
    release_run = published(model)
    with users_of(model) as users:
        decision, events = await model._watch(release_run)
    verdicts = verdicts_of(events)
    assert (decision, verdicts[-1]["status"]) == ("advance", "pass"), verdicts[-1]["reason"]
    assert users.errors == 0
    step = verdicts[-1]["statistics"]["step"]
    assert step["streamed_requests"] >= 30
    assert step["streamed_errors"] == 0
    model.restore(release_run)


async def test_a_candidate_that_hangs_inside_its_streams_is_taken_back(model: LabModel) -> None:
    """Its first response comes, its last does not: each is an error when its time is up."""
    release_run = published(model, "hang after the first", timeout_s=1.0)
    decision, events = await model._watch(release_run)
    assert decision == "roll_back"
    seen = verdicts_of(events)[-1]["statistics"]["canary"]
    assert seen["streamed_errors"] > 0
    model.restore(release_run)


async def test_the_same_by_generate_stream(model: LabModel) -> None:
    """An error in an event after HTTP 200 is one."""
    release_run = published(model, "error after the first", protocol="generate_stream")
    decision, events = await model._watch(release_run)
    verdicts = verdicts_of(events)
    assert (decision, verdicts[-1]["status"]) == ("roll_back", "fail")
    assert verdicts[-1]["statistics"]["canary"]["stable_streamed_errors"] == 0
    model.restore(release_run)


async def test_streams_that_nobody_spoke_of_pass_nothing(model: LabModel) -> None:
    """The model sends single responses and its users stream them all the same: no pass, and what to write is told."""
    release_run = published(model, decoupled=False)
    short = release_run.spec.rollout.model_copy(update={"max_bake_s": 8})
    assert release_run.stable is not None
    release_run = release_run.model_copy(
        update={
            "spec": release_run.spec.model_copy(update={"rollout": short}),
            # Stable's files are gone from the bucket: its configuration does not tell of streams either.
            "stable": release_run.stable.model_copy(update={"version": 99}),
        }
    )
    with patch.object(model, "spec", release_run.spec), users_of(model) as users:
        decision, events = await model._watch(release_run)
    assert users.answers > 0
    assert decision == "roll_back"
    reason = next(event["data"]["reason"] for event in events if event["kind"] == "rollback_started")
    assert "`rollout.streaming: {protocol: grpc}`" in reason
    model.restore(release_run)

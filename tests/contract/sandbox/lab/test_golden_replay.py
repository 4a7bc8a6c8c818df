"""A canary without users: golden requests through a real Envoy to real Tritons, each revision by its own URL."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np
import pytest

from slipway_core.canary.recordings import replay as judged_again
from slipway_core.publishing.manifest import FileEntry, Provenance
from slipway_core.spec.release_file import parse_release_spec
from slipway_core.spec.rollout.analysis import AnalysisPolicy
from slipway_sandbox.lab.serving_stack import Lab

if TYPE_CHECKING:
    from benchmarks.live.canary import LabModel
    from slipway.release_run import ReleaseRun

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

RELEASE_FILE = """
model: moody
source: {}
rollout:
  steps: [{weight: 20, bake_s: 2}]
  window_s: 1
  max_bake_s: 40
  on_inconclusive: golden_replay
  golden_replay: {requests_per_s: 60}
"""
TAG_ROUTING = "serving.kserve.io/enable-tag-routing"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabModel]:
    """A model with version 1 live, whose revisions have URLs of their own and whose users are away."""
    root = tmp_path_factory.mktemp("lab")
    with Lab(root) as lab, patch.dict(os.environ, lab.environment(root / "airflow")):
        from benchmarks.live.canary import LabModel
        from slipway.traffic.reconciler import first_deploy
        from slipway_core.rollout.next_action import FirstDeploy

        made = LabModel(lab, parse_release_spec(RELEASE_FILE, "moody.yaml"))
        manifest = first_deploy(made.publish()).manifest
        manifest["metadata"].setdefault("annotations", {})[TAG_ROUTING] = "true"
        made.drive(FirstDeploy(manifest))
        yield made


def golden_published(release_run: ReleaseRun) -> None:
    """What publishing leaves beside the repository: manifest and golden set, of the one row that the model takes."""
    from slipway.hooks.s3_store import ModelStoreHook
    from slipway.registry.registry import ModelRegistry, golden_key
    from slipway_core.bucket_layout import repository_paths

    file = io.BytesIO()
    np.savez(file, x=np.ones(1, dtype=np.float32), label=np.zeros(1, dtype=np.int64))
    store = ModelStoreHook(release_run.bucket)
    source = Provenance(files={"golden.npz": FileEntry.of(file.getvalue())})
    published = ModelRegistry(store).require(release_run.model, release_run.version)
    manifest = published.model_copy(update={"source": source})
    store.write(golden_key(manifest), file.getvalue())
    store.write(repository_paths(release_run.model, release_run.version).manifest, manifest.to_bytes())


def verdicts_of(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The recorded verdicts, in order."""
    return [event["data"]["verdict"] for event in events if event["kind"] == "window_judged"]


def recomputed(verdicts: list[dict[str, Any]], path: Path) -> list[dict[str, Any]]:
    """The verdicts that the recorded windows lead to, through a file as the evidence holds it."""
    lines: list[dict[str, Any]] = [
        {"policy": AnalysisPolicy().to_dict()},
        {"step": {"weight": 20, "bake_s": 2}},
        {"coverage": {"not_seen": verdicts[0]["not_seen"]}},
    ]
    lines += [{"window": verdict["window"]} for verdict in verdicts]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    again = judged_again(path.read_text().splitlines(), path.name)
    return [json.loads(json.dumps(verdict.to_dict())) for _, verdict in again]


async def watched(model: LabModel, release_run: ReleaseRun) -> tuple[str, list[dict[str, Any]]]:
    """Carries the step out, as the trigger of a canary does."""
    golden_published(release_run)
    return await model._watch(release_run)


async def test_a_good_candidate_without_users_passes_by_replays_and_says_so(
    model: LabModel, tmp_path: Path
) -> None:
    """Its revision answers the golden requests as stable does; none of them counts as a user's."""
    release_run = model.publish()
    decision, events = await watched(model, release_run)
    verdicts = verdicts_of(events)
    assert (decision, verdicts[-1]["status"]) == ("advance", "pass")
    assert "replayed golden requests" in verdicts[-1]["reason"]
    totals = verdicts[-1]["statistics"]["canary"]
    assert (totals["candidate_requests"], totals["stable_requests"]) == (0, 0)
    assert (totals["replayed_requests"] >= 50, totals["replayed_errors"]) == (True, 0)
    assert verdicts[-1]["reason"].endswith("does not see: errors inside streams.")
    assert recomputed(verdicts, tmp_path / "canary.jsonl") == verdicts
    model.restore(release_run)


async def test_a_failing_candidate_without_users_is_rolled_back(model: LabModel, tmp_path: Path) -> None:
    """A fifth of its answers to golden requests are errors; stable's are not, and the evidence can be recomputed."""
    release_run = model.publish(error_percent=20, seed=5)
    decision, events = await watched(model, release_run)
    verdicts = verdicts_of(events)
    assert (decision, verdicts[-1]["status"]) == ("roll_back", "fail")
    assert [event["data"]["weight"] for event in events if event["kind"] == "weight_observed"][-1] == 0
    totals = verdicts[-1]["statistics"]["canary"]
    assert (totals["candidate_errors"], totals["stable_replayed_errors"]) == (0, 0)
    assert 0.05 < totals["replayed_errors"] / totals["replayed_requests"] < 0.5
    assert recomputed(verdicts, tmp_path / "canary.jsonl") == verdicts
    model.restore(release_run)

"""A version that is published already: what is built again, and what is taken as it is."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import pytest
from airflow.sdk.exceptions import AirflowSkipException

from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.convert import ChooseVariantOperator
from slipway.operators.publish import PublishModelOperator
from slipway.registry.registry import ModelRegistry
from slipway.release_run import ReleaseRun
from slipway_core.bucket_layout import repository_paths
from slipway_core.errors import InputMissingError, VersionConflictError
from slipway_core.publishing.publication import decision_key
from tests.support.release.conversion import (
    CONTEXT,
    Pods,
    converting,
    engines_that_differ,
    outcomes,
    release_run_of,
)

# --- a version that is published already ---


@pytest.fixture
def landed(store: ModelStoreHook) -> ModelStoreHook:
    """What training leaves, uploaded as large files are: S3 has no SHA-256 of the whole."""
    golden = io.BytesIO()
    np.savez(golden, x=np.array([[1, 2], [3, 4]], dtype=np.float32), label=np.zeros(2, np.int64))
    for name, body in (("model.onnx", b"onnx"), ("golden.npz", golden.getvalue())):
        store.client.put_object(Bucket=store.bucket, Key=f"incoming/ranker/1/{name}", Body=body)
    store.write_json("incoming/ranker/1/ready.json", {"model": "ranker", "version": 1})
    return store


def release(release_run: ReleaseRun) -> list[str] | None:
    """Convert, choose and publish, as the DAG does: a choice that skips itself gives publishing nothing."""
    rendered, chosen = release_run.model_dump_json(), None
    for name in release_run.spec.conversion.variants:
        try:
            converting(release_run, name).execute(CONTEXT)
        except AirflowSkipException:
            continue
    try:
        chosen = ChooseVariantOperator(task_id="choose", release=rendered).run(CONTEXT)
    except AirflowSkipException:
        assert chosen is None
    PublishModelOperator(task_id="publish", release=rendered, variants=json.dumps(chosen)).run(CONTEXT)
    return chosen


def test_a_version_that_is_published_is_released_again_as_it_is(
    landed: ModelStoreHook, bucket: str, pods: Pods
) -> None:
    """Engines differ from build to build: nothing is built nor chosen again, and what is published is checked."""
    ran = pods(engines_that_differ(landed))
    assert release(release_run_of(bucket)) == ["half"]
    published = ModelRegistry(landed).require("ranker", 1)
    again = release_run_of(bucket, "manual__2")
    assert release(again) is None
    assert ran == ["half", "whole"]
    assert outcomes(landed, again) == {
        "convert-half": "reused",
        "convert-whole": "reused",
        "publish": "passed",
    }
    assert ModelRegistry(landed).require("ranker", 1) == published


def test_a_version_that_was_decided_on_is_finished_and_not_built_again(
    landed: ModelStoreHook, bucket: str, pods: Pods
) -> None:
    """A publisher died after it had decided: the next release takes what was decided, and the version exists."""
    ran = pods(engines_that_differ(landed))
    release(release_run_of(bucket))
    paths = repository_paths("ranker", 1)
    manifest = landed.require(paths.manifest, remedy="")
    landed.delete(paths.manifest)
    assert landed.exists(decision_key(paths))
    assert release(release_run_of(bucket, "manual__2")) is None
    assert ran == ["half", "whole"]
    assert landed.read(paths.manifest) == manifest


@pytest.mark.parametrize(
    "parts",
    [
        {"conversion": {"builder_optimization_level": 5}},
        {"conversion": {"variants": {"whole": {"tf32": True}}}},
        {"serving": {"max_batch_size": 8}},
    ],
)
def test_another_way_to_make_it_is_not_taken_for_the_same(
    landed: ModelStoreHook, bucket: str, pods: Pods, parts: dict[str, Any]
) -> None:
    """Where the release file says something else now it is converted again, and publishing tells the difference."""
    ran = pods(engines_that_differ(landed))
    release(release_run_of(bucket))
    with pytest.raises(VersionConflictError, match="already published with other content"):
        release(release_run_of(bucket, "manual__2", **parts))
    assert len(ran) == 4


@pytest.mark.parametrize(
    "parts",
    [
        {"conversion": {"timeout_s": 60, "node_selector": {"gpu": "l4"}, "parity": {"abs_tolerance": 1.0}}},
        {"conversion": {"variants": {"whole": {"resources": {"memory": "32Gi"}}}}},
        {"serving": {"hardware": {"compute_capability": "8.9", "tensorrt": "10.13.2"}}, "rollout": {}},
    ],
)
def test_where_it_is_made_and_how_it_is_judged_does_not_count(
    landed: ModelStoreHook, bucket: str, pods: Pods, parts: dict[str, Any]
) -> None:
    """Limits, nodes and tolerances change nothing in what was made: it is taken as it is."""
    ran = pods(engines_that_differ(landed))
    release(release_run_of(bucket))
    assert release(release_run_of(bucket, "manual__2", **parts)) is None
    assert len(ran) == 2


def test_other_files_are_not_taken_for_the_same(landed: ModelStoreHook, bucket: str, pods: Pods) -> None:
    """A source that was replaced, even by one as long, is converted again, and publishing refuses it."""
    ran = pods(engines_that_differ(landed))
    release(release_run_of(bucket))
    landed.client.put_object(Bucket=bucket, Key="incoming/ranker/1/model.onnx", Body=b"oonx")
    with pytest.raises(VersionConflictError):
        release(release_run_of(bucket, "manual__2"))
    assert len(ran) == 4


def test_a_config_of_training_counts_as_well(landed: ModelStoreHook, bucket: str, pods: Pods) -> None:
    """It is the base of the published configuration: one that came or changed since is not overlooked."""
    ran = pods(engines_that_differ(landed))
    release(release_run_of(bucket))
    landed.write("incoming/ranker/1/config.pbtxt", b"max_batch_size: 16")
    with pytest.raises(VersionConflictError):
        release(release_run_of(bucket, "manual__2"))
    assert len(ran) == 4


def test_a_damaged_version_is_not_released_again(landed: ModelStoreHook, bucket: str, pods: Pods) -> None:
    """Publishing reads every byte of what is there; one that was changed is named, with the remedy."""
    pods(engines_that_differ(landed))
    release(release_run_of(bucket))
    landed.write("models/ranker/1/repository/ranker/1/model.plan", b"another engine")
    with pytest.raises(VersionConflictError, match=r"ranker/1/model\.plan: expected"):
        release(release_run_of(bucket, "manual__2"))


def test_nothing_converted_and_nothing_published_is_an_error(landed: ModelStoreHook, bucket: str) -> None:
    """Publishing that is told of no variant does not guess at one."""
    rendered = release_run_of(bucket).model_dump_json()
    with pytest.raises(InputMissingError, match="nothing was converted"):
        PublishModelOperator(task_id="publish", release=rendered, variants="null").run(CONTEXT)

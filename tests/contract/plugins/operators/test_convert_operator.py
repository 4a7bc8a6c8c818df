"""What becomes of a conversion: evidence, refusals, what is left out, what is tried again. The pod is emulated: a
function that writes what a converter writes to a real S3 protocol.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException
from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.convert import ChooseVariantOperator, ConvertModelOperator
from slipway.operators.publish import PublishModelOperator
from slipway.registry.registry import ModelRegistry
from slipway.release_record.record import ReleaseRecord
from slipway.release_run import ReleaseRun

from include.model_release.bucket_layout import repository_paths
from include.model_release.errors import (
    InputMissingError,
    ModelInvalidError,
    ParityRefusedError,
    SlipwayError,
    StoreUnavailableError,
    TimedOutError,
    TransientError,
    UserError,
    VersionConflictError,
)
from include.model_release.publishing.intent import decision_key
from include.model_release.spec.release_file import apply_overrides, parse_release_spec

CONTEXT: Any = {}
ENGINES = """
model: ranker
source: {format: onnx}
conversion:
  target: tensorrt
  choose: fastest
  variants:
    half: {}
    whole: {precision: fp32}
serving: {platform: tensorrt_plan, max_batch_size: 16, instances: [{kind: gpu}]}
"""
GOOD: dict[str, Any] = {
    "output": "y",
    "max_abs_diff": 0.001,
    "max_rel_diff": 0.01,
    "rows": 2,
    "mismatched_rows": 0,
    "pass": True,
}
OFF = {**GOOD, "mismatched_rows": 1, "pass": False, "worst": [{"row": 1, "source": 1, "converted": 2}]}
RESULT: dict[str, Any] = {
    "outcome": "pass",
    "error": None,
    "signature": {
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 2]}],
        "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, 1]}],
    },
    "profiles": [{"min": {"x": [1, 2]}, "opt": {"x": [8, 2]}, "max": {"x": [16, 2]}}],
    "engine": {"gpu": "NVIDIA L4", "compute_capability": "8.9", "tensorrt": "10.13.2.6"},
    "tools": {"tensorrt": "10.13.2.6"},
    "parity": [GOOD],
    "latency": {"p50_ms": 0.2},
}

Pods = Callable[[Callable[[ConvertModelOperator], dict[str, Any] | None]], list[str]]


@pytest.fixture
def pods(monkeypatch: pytest.MonkeyPatch, store: ModelStoreHook) -> Pods:
    """Emulates pods: what the given function returns is the result that the converter leaves; None: it leaves none."""

    def emulate(result_of: Callable[[ConvertModelOperator], dict[str, Any] | None]) -> list[str]:
        ran: list[str] = []

        def run(operator: ConvertModelOperator, context: Any) -> None:
            ran.append(operator.variant)
            result = result_of(operator)
            if result is not None:
                store.write_json(operator.result_key(operator.release_run), result)
            if result is None or result["error"] is not None:
                raise AirflowException("Pod returned a failure.")

        monkeypatch.setattr(KubernetesPodOperator, "execute", run)
        return ran

    return emulate


def engines_that_differ(store: ModelStoreHook) -> Callable[[ConvertModelOperator], dict[str, Any]]:
    """A converter as TensorRT is: no two builds have the same bytes; whole is now slower, now faster than half."""
    builds = iter(range(100))

    def convert(operator: ConvertModelOperator) -> dict[str, Any]:
        build = next(builds)
        body = f"engine {operator.variant}, build {build}".encode()
        store.write(f"{operator.release_run.work_prefix}model.plan", body)
        digest = hashlib.sha256(body).hexdigest()
        model = {"file": "model.plan", "size_bytes": len(body), "sha256": digest}
        faster = "half" if build < 2 else "whole"
        return {**RESULT, "model": model, "latency": {"p50_ms": 0.1 if operator.variant == faster else 0.2}}

    return convert


def release_run_of(bucket: str, release_id: str = "manual__1", **parts: Any) -> ReleaseRun:
    spec = apply_overrides(parse_release_spec(ENGINES, "ranker.yaml"), parts, "the test")
    return ReleaseRun(release_id=release_id, model="ranker", version=1, bucket=bucket, spec=spec, stable=None)


def one_conversion(bucket: str) -> ReleaseRun:
    """A release without variants."""
    spec = parse_release_spec("model: ranker\nsource: {format: onnx}\n", "ranker.yaml")
    return release_run_of(bucket).model_copy(update={"spec": spec})


def converting(release_run: ReleaseRun, variant: str = "half") -> ConvertModelOperator:
    return ConvertModelOperator(
        task_id="convert", variant=variant, release=release_run.model_dump_json(), namespace="models"
    )


def outcomes(store: ModelStoreHook, release_run: ReleaseRun) -> dict[str, str]:
    """How each stage of the release ended, by its record."""
    events = ReleaseRecord(store, "ranker", 1, release_run.release_id).events()
    ended = (event for event in events if event.kind == "stage_finished")
    return {
        event.data.stage: event.data.outcome for event in ended if event.release_id == release_run.release_id
    }


def evidence(store: ModelStoreHook, name: str) -> dict[str, Any]:
    found = store.read_json(f"models/ranker/1/evidence/manual__1/{name}")
    assert found is not None, name
    return dict(found)


# --- what is left of a conversion that failed ---


def test_a_refused_conversion_leaves_its_parity_table(store: ModelStoreHook, bucket: str, pods: Pods) -> None:
    """The evidence is written before the refusal is raised, with the worst rows; without variants too."""
    error = ParityRefusedError("The converted model answers otherwise").to_dict()
    pods(lambda _: {**RESULT, "outcome": "refused", "error": error, "parity": [OFF]})
    release_run = one_conversion(bucket)
    with pytest.raises(AirflowFailException, match="answers otherwise"):
        converting(release_run, "").execute(CONTEXT)
    assert evidence(store, "convert.json")["parity"][0]["worst"] == OFF["worst"]
    assert outcomes(store, release_run) == {"convert": "refused"}


def test_the_choice_shows_the_worst_figures_of_each_variant(
    store: ModelStoreHook, bucket: str, pods: Pods
) -> None:
    """`variants.json` has the parity of those that are left and of those that are not, beside the reason."""
    error = ParityRefusedError("row 1 differs").to_dict()
    refused = {**RESULT, "error": error, "parity": [OFF]}
    pods(lambda operator: RESULT if operator.variant == "whole" else refused)
    release_run = release_run_of(bucket)
    for name in ("half", "whole"):
        assert converting(release_run, name).execute(CONTEXT) is None  # type: ignore[func-returns-value]
    chosen = ChooseVariantOperator(task_id="choose", release=release_run.model_dump_json()).run(CONTEXT)
    assert chosen == ["whole"]
    half, whole = evidence(store, "variants.json")["candidates"]
    assert (half["refused"], half["parity"][0]["mismatched_rows"]) == ("row 1 differs.", 1)
    assert (whole["refused"], whole["parity"][0]["max_abs_diff"]) == (None, 0.001)
    assert evidence(store, "convert-half.json")["parity"] == [OFF]
    assert outcomes(store, release_run) == {
        "convert-half": "left_out",
        "convert-whole": "passed",
        "choose": "passed",
    }


def test_a_choice_that_refuses_shows_what_there_was(store: ModelStoreHook, bucket: str, pods: Pods) -> None:
    """With no variant left, `variants.json` tells all the same what each was and why it is out."""
    error = ParityRefusedError("row 1 differs").to_dict()
    pods(lambda _: {**RESULT, "error": error, "parity": [OFF]})
    release_run = release_run_of(bucket)
    for name in ("half", "whole"):
        converting(release_run, name).execute(CONTEXT)
    with pytest.raises(ParityRefusedError, match="no variant of the conversion is left"):
        ChooseVariantOperator(task_id="choose", release=release_run.model_dump_json()).run(CONTEXT)
    told = evidence(store, "variants.json")
    assert told["names"] == []
    assert [one["parity"][0]["mismatched_rows"] for one in told["candidates"]] == [1, 1]
    assert outcomes(store, release_run)["choose"] == "refused"


def test_nothing_is_chosen_of_a_conversion_that_did_not_run(store: ModelStoreHook, bucket: str) -> None:
    """A conversion that somebody marked as skipped has left no evidence; what an older one left is not published."""
    with pytest.raises(InputMissingError, match="the conversion has left no result"):
        ChooseVariantOperator(task_id="choose", release=one_conversion(bucket).model_dump_json()).run(CONTEXT)


@pytest.mark.parametrize(
    ("parity", "words"),
    [
        ([OFF], "1 of 2 rows differ"),
        ([], "`y`: not compared"),
        (None, "no readable `parity`"),
        ([{**GOOD, "output": "another"}], "`y`: not compared"),
    ],
)
def test_a_pod_that_says_pass_is_not_believed(
    store: ModelStoreHook, bucket: str, pods: Pods, parity: object, words: str
) -> None:
    """The table decides: one that fails, is empty, unreadable or lacks an output refuses the version."""
    pods(lambda _: {**RESULT, "parity": parity})
    release_run = one_conversion(bucket)
    with pytest.raises(AirflowFailException, match=words):
        converting(release_run, "").execute(CONTEXT)
    assert words in str(SlipwayError.from_dict(evidence(store, "convert.json")["error"]))


def test_what_is_passed_through_has_no_table(bucket: str, store: ModelStoreHook, pods: Pods) -> None:
    """A model of the Python backend is not converted, so there is nothing to compare."""
    pods(lambda _: {"error": None, "parity": [], "outcome": "pass"})
    spec = parse_release_spec(
        "model: ranker\nsource: {format: python}\nconversion: {target: python}\n", "r.yaml"
    )
    release_run = release_run_of(bucket).model_copy(update={"spec": spec})
    assert converting(release_run, "").execute(CONTEXT) is None  # type: ignore[func-returns-value]
    assert outcomes(store, release_run) == {"convert": "passed"}


# --- what is left out, and what is tried again ---


@pytest.mark.parametrize("variant", ["half", ""])
@pytest.mark.parametrize(
    "error",
    [
        ParityRefusedError("row 17 differs"),
        ModelInvalidError("no int8 of this"),
        UserError("The tool 'optimise' wanted more memory than it may have"),
        TimedOutError("The tool 'optimise' did not finish in time"),
    ],
)
def test_one_of_several_that_cannot_be_released_is_left_out(
    store: ModelStoreHook, bucket: str, pods: Pods, error: SlipwayError, variant: str
) -> None:
    """The only conversion fails its task at once, a hang included; one of several is left out, and nothing fails."""
    pods(lambda _: {**RESULT, "error": error.to_dict(), "parity": []})
    release_run = release_run_of(bucket) if variant else one_conversion(bucket)
    operator = converting(release_run, variant)
    if variant:
        assert operator.execute(CONTEXT) is None  # type: ignore[func-returns-value]
        assert outcomes(store, release_run) == {"convert-half": "left_out"}
        return
    with pytest.raises(AirflowFailException, match=str(error)):
        operator.execute(CONTEXT)
    outcome = "refused" if isinstance(error, ParityRefusedError) else "failed"
    assert outcomes(store, release_run) == {"convert": outcome}


def test_an_unreachable_store_leaves_nothing_out(bucket: str, pods: Pods) -> None:
    """A variant whose pod did not reach the hub or the store is tried again: the world was away, not the variant."""
    pods(lambda _: {**RESULT, "error": StoreUnavailableError("S3 does not answer").to_dict()})
    with pytest.raises(StoreUnavailableError):
        converting(release_run_of(bucket)).execute(CONTEXT)


def pod_that_ended(reason: str | None, container_reason: str | None, message: str = "") -> Any:
    terminated = SimpleNamespace(reason=container_reason)
    container = SimpleNamespace(state=SimpleNamespace(terminated=terminated, waiting=None))
    status = SimpleNamespace(reason=reason, message=message, container_statuses=[container])
    return SimpleNamespace(status=status)


OVER_ITS_DISK = 'Usage of EmptyDir volume "scratch" exceeds the limit "100Gi". '


@pytest.mark.parametrize(
    ("pod", "words"),
    [
        (pod_that_ended(None, "OOMKilled"), "killed for its memory.*resources.memory: 16Gi"),
        (pod_that_ended("DeadlineExceeded", "Error"), "did not end in time.*9060 s"),
        (pod_that_ended("Evicted", None, OVER_ITS_DISK), "evicted for its disk.*exceeds the limit"),
    ],
)
def test_a_pod_that_meets_its_limits_is_left_out_with_the_reason(
    store: ModelStoreHook, bucket: str, pods: Pods, pod: Any, words: str
) -> None:
    """Killed for memory, over its disk or past its deadline it left no result; the choice is told why it is out."""

    def die(operator: ConvertModelOperator) -> dict[str, Any] | None:
        operator.remote_pod = pod
        return None if operator.variant == "half" else RESULT

    pods(die)
    release_run = release_run_of(bucket)
    for name in ("half", "whole"):
        converting(release_run, name).execute(CONTEXT)
    release = release_run.model_dump_json()
    assert ChooseVariantOperator(task_id="choose", release=release).run(CONTEXT) == ["whole"]
    (half, _) = evidence(store, "variants.json")["candidates"]
    assert re.search(words, half["refused"])


def test_a_pod_that_ended_for_no_reason_of_its_own_is_tried_again(bucket: str, pods: Pods) -> None:
    """Evicted, or never started: that may pass."""

    def die(operator: ConvertModelOperator) -> None:
        operator.remote_pod = pod_that_ended("Evicted", None)

    pods(die)
    with pytest.raises(TransientError, match=r"without a result.*Evicted"):
        converting(release_run_of(bucket)).execute(CONTEXT)


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

"""What a pod left as its result.json is read as what anybody may have written."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from slipway.hooks.s3_store import ModelStoreHook
from slipway.operators.convert import evidence_key
from slipway.operators.smoke_test.run import RunSmokeTestOperator
from slipway.operators.tuning.pods import PodMeasure
from slipway.release_run import ReleaseRun
from slipway.tuning.search import Wanted
from slipway_core.errors import InputMissingError, ModelInvalidError, SlipwayError
from slipway_core.spec.load import LoadLevel
from slipway_core.spec.release_file import parse_release_spec
from tests.support.release.conversion import RESULT, converting, one_conversion

SPEC = parse_release_spec("model: digits\nsource: {format: onnx}\nsmoke_test: {}\n", "digits.yaml")


@pytest.mark.parametrize(
    "written",
    [
        b"[]",
        b"{}",
        b'"error"',
        b"7",
        b'{"error": "it did not work"}',
        b'{"error": ["it did not work"]}',
        b'{"outcome": "pass"}',
        b"[" * 100_000,
        b"\xff",
        b'{"error": NaN}',
    ],
)
def test_result_of_another_form_ends_the_step_with_an_error_of_its_own(
    store: ModelStoreHook, monkeypatch: pytest.MonkeyPatch, written: bytes
) -> None:
    """Neither a pass nor a traceback of this program, whatever lies there."""
    release_run = ReleaseRun(
        release_id="digits-1", model="digits", version=1, bucket=store.bucket, spec=SPEC, stable=None
    )
    operator = RunSmokeTestOperator(
        task_id="smoke_test", release=release_run.model_dump_json(), manifest_sha256="0" * 64
    )
    pod = operator.describe(release_run)
    silent = InputMissingError("the pod left no result")
    execution = SimpleNamespace(failure=None, silent_end=lambda uri: silent)
    monkeypatch.setattr(operator, "execution_of", lambda *_: execution)
    store.write(pod.result_key, written)
    with pytest.raises(SlipwayError):
        operator._finish(pod, release_run, lambda _: None)


def test_kept_measurement_of_another_form_is_told(store: ModelStoreHook) -> None:
    """A tuning reads what lies there already: that too may have been written by anybody."""
    release_run = ReleaseRun(
        release_id="digits-1", model="digits", version=1, bucket=store.bucket, spec=SPEC, stable=None
    )
    wanted = Wanted("trial-1/", ("digits_a",), LoadLevel(concurrency=1), 1, 1, 1)
    measure = PodMeasure({}, release_run, store, "tuning/", "localhost:1", lambda _: None, 1)  # type: ignore[arg-type,return-value]
    store.write("tuning/trial-1/result.json", b'["error"]')
    with pytest.raises(SlipwayError, match="not a result of a pod"):
        measure(wanted)


@pytest.mark.parametrize(
    "signature",
    [
        None,
        [],
        "y",
        {"outputs": 7},
        {"outputs": ["y"]},
        {"outputs": [{"datatype": "FP32"}]},
        {"inputs": [], "outputs": [{"name": ["y"], "datatype": "FP32", "shape": [1]}]},
        {"inputs": [], "outputs": [{"name": "\ud800", "datatype": "FP32", "shape": [1]}]},
    ],
)
def test_signature_of_another_form_is_refused(store: ModelStoreHook, signature: object) -> None:
    """Which outputs had to be compared is not known then: that is no pass, and the evidence says why."""
    release_run = one_conversion(store.bucket)
    with pytest.raises(ModelInvalidError, match=r"does not say what it made.*`signature`"):
        converting(release_run, "").judge(release_run, {**RESULT, "signature": signature})
    kept = store.read_json(evidence_key(release_run)) or {}
    assert (kept["outcome"], kept["error"]["kind"]) == ("refused", "ModelInvalidError")

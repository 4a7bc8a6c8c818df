"""From a published version to its validation report for a model of one number, on a real tritonserver."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from slipway.hooks.s3_store import ModelStoreHook
from slipway.hooks.triton import TritonHook
from slipway_core.errors import SignatureRefusedError, ValidationRefusedError, VersionConflictError
from tests.support.release.regressor import linear_model, rent
from tests.support.release.staged_answers import RENT, Release, stages_of

pytestmark = pytest.mark.timeout(600)


# --- regression ---


def test_regressor_is_held_to_its_errors_and_to_stable(store: ModelStoreHook, hook: TritonHook) -> None:
    """A regressor of a number a row passes by its mean absolute error, R², and nearness to the stable version."""
    rent(store, 1, slope=2.1)
    release = rent(store, 2, slope=2.04, stable=1).prepare().load()
    report = release.validate()
    assert (report["kind"], report["outcome"]) == ("regression", "warn")
    numbers = report["numbers"]
    assert numbers["mae"] == pytest.approx(0.04 * 10.5, rel=1e-4)
    assert numbers["r2"] == pytest.approx(1 - (0.04**2 * 143.5) / (4 * 33.25), rel=1e-4)
    assert numbers["agreement"] == 1.0
    assert report["worst"][0]["row"] == 19
    assert "Mean absolute error" in release.page


def test_regressor_that_errs_too_far_is_refused(store: ModelStoreHook, hook: TritonHook) -> None:
    """Errors above the limit, and answers far from stable's, are both told."""
    rent(store, 1, slope=2.0)
    release = rent(store, 2, slope=2.5, stable=1).prepare().load()
    with pytest.raises(
        ValidationRefusedError, match=r"mean absolute error 5\.25.* agreement with version 1 0"
    ) as caught:
        release.validate()
    assert "the mean absolute error is at most 0.5" in (caught.value.expected or "")
    assert "within 0 + 0.1 × its answer" in (caught.value.expected or "")


def test_refused_signature_leaves_its_page_too(store: ModelStoreHook, hook: TritonHook) -> None:
    """A candidate with other tensors is refused unasked; report and page show both sides."""
    rent(store, 1, slope=2.0)
    wide = {"datatype": "FP32", "shape": [-1, 3]}
    signature = {"inputs": [{"name": "area", **wide}], "outputs": [{"name": "prediction", **wide}]}
    release = Release(store, RENT, 2, 1).publish(
        {"model.onnx": linear_model(2.0, ["rows", 3])},
        signature,
        area=np.ones((4, 3), np.float32),
        label=np.ones(4),
    )
    with pytest.raises(SignatureRefusedError, match=r"input `area` was FP32\[-1, 1\] and is FP32\[-1, 3\]"):
        release.prepare().load().validate()
    assert (release.report["outcome"], release.report["stable_version"]) == ("fail", 1)
    row = next(row for row in release.report["tensors"] if row["kind"] == "input")
    assert (row["name"], row["fits"]) == ("area", False)
    assert (row["stable"]["shape"], row["candidate"]["shape"]) == ([-1, 1], [-1, 3])
    assert "<td>[-1, 1]</td><td>FP32</td><td>[-1, 3]</td>" in release.page
    (stage,) = [one for one in stages_of(release) if one.name == "validate"]
    assert (stage.outcome, "`area`" in (stage.reason or "")) == ("refused", True)


def test_gates_say_for_which_manifest_they_passed(store: ModelStoreHook, hook: TritonHook) -> None:
    """Staging and validation put the digest of the manifest's bytes into the record, and hold on to that manifest."""
    release = rent(store, 1, slope=2.04)
    release.prepare().load().validate()
    key = "models/rent/1/manifest.json"
    digest = hashlib.sha256(store.read(key) or b"").hexdigest()
    assert release.prepared["manifest_sha256"] == digest
    proved = {stage.name: stage.manifest_sha256 for stage in stages_of(release)}
    assert (proved["stage"], proved["validate"]) == (digest, digest)
    store.write(key, (store.read(key) or b"") + b"\n")
    with pytest.raises(VersionConflictError, match="has changed since it was staged"):
        release.validate()

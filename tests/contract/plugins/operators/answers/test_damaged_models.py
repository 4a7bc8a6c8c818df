"""What `gate_mutation_score` counts in process holds on a real tritonserver: a sample of its damages, one by one."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from benchmarks.gates.gated import signature_of
from benchmarks.gates.mutations import damaged
from benchmarks.gates.subject import Subject
from benchmarks.gates.subjects import digits
from slipway.hooks.s3_store import ModelStoreHook
from slipway.hooks.triton import TritonHook
from slipway_core.errors import ValidationRefusedError
from tests.support.release.staged_answers import Release

pytestmark = pytest.mark.timeout(400)

_DIGITS = """
model: digits
source: {format: onnx}
serving: {max_batch_size: 32}
"""
_SAMPLE = (
    "labels permuted",
    "last layer zeroed",
    "float16 overflow",
    "answers of other rows",
    "random answers",
)


def _release(store: ModelStoreHook, subject: Subject, content: bytes, version: int) -> Release:
    signature = signature_of(subject.model).model_dump(mode="json")
    golden = {name: np.asarray(values) for name, values in subject.golden(1).items()}
    files = {"model.onnx": content}
    return Release(store, _DIGITS, version, None if version == 1 else 1).publish(files, signature, **golden)


def test_damaged_models_are_refused_and_the_undamaged_one_is_not(
    store: ModelStoreHook, hook: TritonHook
) -> None:
    """The demo's digits, released over itself, passes; each damaged one is refused by the default gates."""
    subject = digits()
    whole = subject.model.SerializeToString()
    _release(store, subject, whole, 1)
    passed = _release(store, subject, whole, 2).prepare().load().validate()
    assert (passed["outcome"], passed["numbers"]["agreement"]) == ("pass", 1.0)
    for version, damage in enumerate(_SAMPLE, start=3):
        content = damaged(damage, subject, seed=version)
        assert content is not None
        onnx.checker.check_model(onnx.load_from_string(content))
        release = _release(store, subject, content, version).prepare().load()
        with pytest.raises(ValidationRefusedError, match="digits"):
            release.validate()

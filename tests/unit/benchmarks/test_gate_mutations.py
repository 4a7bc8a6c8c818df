"""The damages of `gate_mutation_score`: each makes a model that differs, none touches the original."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from benchmarks.gates.gated import (
    answers_of,
    changed_share,
    gate,
    in_process,
    signature_of,
    whole_answers,
)
from benchmarks.gates.mutations import MUTATIONS, damaged
from benchmarks.gates.second_outputs import damaged_output, damages, with_second_outputs
from benchmarks.gates.subject import Subject
from slipway_core.gates.validation.golden_set import golden_from_arrays
from slipway_core.gates.validation.kinds.classification import ClassificationValidation

_NUMBERS = np.random.default_rng(2)
_CENTRES = 3 * _NUMBERS.normal(size=(4, 8)).astype(np.float32)


def _subject() -> Subject:
    """Return a classifier of four clusters: scores by the nearest centre."""
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "centres"], ["near"]),
            helper.make_node("Add", ["near", "sizes"], ["sum"]),
            helper.make_node("Softmax", ["sum"], ["probabilities"], axis=1),
        ],
        "clusters",
        [value("x", TensorProto.FLOAT, ["n", 8])],
        [value("probabilities", TensorProto.FLOAT, ["n", 4])],
        [
            numpy_helper.from_array(np.ascontiguousarray(_CENTRES.T), "centres"),
            numpy_helper.from_array(-0.5 * (_CENTRES**2).sum(axis=1), "sizes"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)

    def golden(seed: int) -> Any:
        numbers = np.random.default_rng(seed)
        labels = numbers.integers(0, 4, size=120)
        x = _CENTRES[labels] + 0.3 * numbers.normal(size=(120, 8))
        return {"x": x.astype(np.float32), "label": labels}

    return Subject("clusters", model, ClassificationValidation(), golden, "x", "FP32", 4, 8)


@pytest.mark.parametrize(
    "name",
    ["labels permuted", "constant output", "float16 overflow", "last layer zeroed", "answers of other rows"],
)
def test_a_damaged_model_is_another_one_and_is_caught(name: str) -> None:
    """The damage shows in the answers, the gates refuse it, and the model it was made of stays as it was."""
    subject = _subject()
    before = subject.model.SerializeToString()
    content = damaged(name, subject, seed=5)
    assert content is not None
    assert subject.model.SerializeToString() == before
    arrays = subject.golden(1)
    stable = in_process(before)({"x": arrays["x"]}, ["probabilities"])["probabilities"]
    assert gate(subject, before, arrays, stable).caught_by == ""
    assert gate(subject, content, arrays, stable).caught_by in ("convert", "validate")


def test_every_damage_makes_a_graph_or_says_that_it_does_not_apply() -> None:
    """No mutation fails on a model that it was not made for."""
    subject = _subject()
    made = [damaged(name, subject, seed=3) for name in MUTATIONS]
    assert sum(one is not None for one in made) >= 20
    assert all(onnx.load_from_string(one).graph.node for one in made if one is not None)


def test_answers_change_where_a_user_gets_another_class() -> None:
    """Other scores with the same best class are the same answer."""
    one = np.array([[0.6, 0.4], [0.9, 0.1]])
    assert changed_share(_subject(), one, np.array([[0.9, 0.1], [0.2, 0.8]])) == 0.5


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("digit", "off by one"),
        ("name", "wrong text"),
        ("logits", "ten times"),
        ("odd", "constant"),
        ("ink", "NaN"),
        ("hidden", "rows of others"),
    ],
)
def test_a_damaged_second_output_is_caught_and_a_retrained_model_is_not(name: str, damage: str) -> None:
    """The gates name the output that was damaged, of a model that was trained anew, and let the whole one pass."""
    stable, subject = with_second_outputs(100), with_second_outputs(1)
    arrays = subject.golden(1)
    golden = golden_from_arrays(arrays, signature_of(subject.model), "label")
    ask = in_process(stable.model.SerializeToString())
    answers, whole = answers_of(stable, golden, ask), whole_answers(stable, golden, ask)
    verdict = gate(subject, subject.model.SerializeToString(), arrays, answers, stable_whole=whole)
    assert verdict.caught_by == "", verdict.reason
    assert (name, damage) in damages()
    caught = gate(subject, damaged_output(subject.model, name, damage), arrays, answers, stable_whole=whole)
    assert caught.caught_by == "validate"
    assert f"output `{name}`" in caught.reason

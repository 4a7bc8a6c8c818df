"""The parity table of the converters: what each measure calls alike, and what is said of what is not."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import convert_onnx
from slipway_core.gates.parity import parse_parity
from slipway_core.spec.conversion.parity import ParityRules
from slipway_pod.errors import PodError
from slipway_pod.parity.outputs import compare_output, require_parity
from slipway_pod.parity.rules import rule_for
from slipway_rules.parity import Rule

COMMAND = ["--source", "s3://b/m", "--golden", "s3://b/g", "--destination", "s3://b/d"]
SOURCE = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4], [0.2, 0.5, 0.3]])


def compare(source: Any, converted: Any, **rule: Any) -> dict[str, Any]:
    return compare_output("y", source, converted, Rule(**rule))


def test_tolerance_names_the_rows_that_are_off() -> None:
    """Rows beyond the tolerance are counted and shown, the worst first, with both values and classes."""
    converted = SOURCE.copy()
    converted[1, 1], converted[3, 1] = 0.75, 0.1
    entry = compare(SOURCE, converted)
    assert (entry["pass"], entry["mismatched_rows"], entry["within_share"]) == (False, 2, 0.5)
    first, second = entry["worst"]
    assert first == {
        "row": 3,
        "index": 1,
        "source": 0.5,
        "converted": 0.1,
        "source_best": 1,
        "converted_best": 2,
    }
    assert second["row"] == 1
    assert entry["max_abs_diff"] == pytest.approx(0.4)


def test_a_share_of_rows_may_be_off() -> None:
    """`within_min` lets a share of the rows be beyond the tolerance, and no more."""
    converted = SOURCE.copy()
    converted[0] += 0.1
    assert compare(SOURCE, converted, within_min=0.75)["pass"]
    assert not compare(SOURCE, converted, within_min=0.76)["pass"]


def test_cosine_looks_at_directions() -> None:
    """The cosine does not mind a vector's length, and refuses one that points elsewhere."""
    assert compare(SOURCE, SOURCE * 3, measure="cosine")["pass"]
    entry = compare(SOURCE, SOURCE[:, ::-1], measure="cosine", cosine_min=0.9)
    assert not entry["pass"]
    assert entry["cosine_min"] < 0.9


def test_top_k_counts_rows_with_the_same_best_classes() -> None:
    """One of four rows with another best class is an agreement of 75 %; of the best two, all are the same."""
    converted = SOURCE.copy()
    converted[3] = [0.1, 0.4, 0.5]
    entry = compare(SOURCE, converted, measure="top_k", agreement_min=0.8)
    assert (entry["top_1_agreement"], entry["pass"]) == (0.75, False)
    assert (entry["worst"][0]["source_best"], entry["worst"][0]["converted_best"]) == (1, 2)
    assert compare(SOURCE[[3]], converted[[3]], measure="top_k", top_k=2)["pass"]


def test_classes_that_tie_may_stand_for_each_other() -> None:
    """Where the source cannot decide between two classes, either is right."""
    source, converted = np.array([[0.4, 0.4, 0.2]]), np.array([[0.39, 0.41, 0.2]])
    assert compare(source, converted, measure="top_k")["top_1_agreement"] == 1.0


@pytest.mark.parametrize("measure", ["tolerance", "cosine", "top_k"])
def test_not_a_number_is_no_answer(measure: str) -> None:
    """A number that became not-a-number fails by every measure, and the table is still JSON."""
    converted = SOURCE.copy()
    converted[2, 0] = np.nan
    entry = compare(SOURCE, converted, measure=measure)
    assert not entry["pass"]
    assert entry["worst"][0]["row"] == 2
    json.dumps(entry, allow_nan=False)


def test_labels_must_be_equal() -> None:
    """Labels are equal or not; only top_k lets a share of them differ."""
    source, converted = np.array(["a", "b", "c", "d"]), np.array(["a", "b", "c", "x"], dtype=object)
    assert not compare(source, converted)["pass"]
    assert not compare(source, converted, measure="cosine")["pass"]
    entry = compare(source, converted, measure="top_k", agreement_min=0.75)
    assert entry["pass"]
    assert entry["worst"] == [{"row": 3, "index": 0, "source": "d", "converted": "x"}]


def test_another_shape_fails() -> None:
    """An output of another shape is not compared, and does not pass."""
    entry = compare(SOURCE, SOURCE[:, :2], measure="top_k")
    assert (entry["pass"], entry["worst"][0]["converted"]) == (False, "shape [4, 2]")
    assert not parse_parity([entry])[0].passed


@given(
    arrays.arrays(np.float32, (5, 3), elements=st.floats(width=32)),
    st.sampled_from(["tolerance", "cosine", "top_k"]),
)
def test_a_finite_model_agrees_with_itself(values: Any, measure: str) -> None:
    """Whatever the measure, finite answers agree with themselves, and the entry is one that the gate can read."""
    values = np.nan_to_num(values, posinf=1.0, neginf=-1.0)
    entry = compare(values, values.copy(), measure=measure)
    assert entry["pass"]
    (read,) = parse_parity(json.loads(json.dumps([entry], allow_nan=False)))
    assert (read.passed, read.mismatched_rows) == (True, 0)


def test_the_release_file_reaches_each_output() -> None:
    """What the release file says becomes each output's rule: the general one, with what it overrides."""
    rules = ParityRules.model_validate_json(
        '{"measure": "cosine", "cosine_min": 0.98, "outputs": {"label": {"measure": "top_k", "agreement_min": 0.9}}}'
    )
    options = convert_onnx.arguments([*COMMAND, *rules.arguments()])
    assert rule_for("other", options) == Rule(measure="cosine", cosine_min=0.98)
    label = Rule(measure="top_k", agreement_min=0.9, cosine_min=0.98)
    assert rule_for("label", options) == label


@pytest.mark.parametrize(
    "text",
    ["label", "[]", "{}", '{"output": 1}', '{"output": "y", "measure": "l2"}', '{"output": "y", "top_k": 0}'],
)
def test_rules_that_cannot_be_read(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A rule that is none ends the program with exit code 2 before anything is done."""
    with pytest.raises(SystemExit) as ended:
        convert_onnx.arguments([*COMMAND, "--output-parity", text])
    assert ended.value.code == 2
    assert "--output-parity" in capsys.readouterr().err


def test_a_refusal_names_output_limit_and_worst_rows() -> None:
    """Only outputs that fail are told, each with its own limit and its worst rows; exit code 4."""
    converted = SOURCE.copy()
    converted[3, 1] = 0.1
    options = convert_onnx.arguments([*COMMAND, "--output-parity", '{"output": "y", "abs_tolerance": 0.25}'])
    fine = compare_output("fine", SOURCE, SOURCE, Rule())
    with pytest.raises(PodError) as raised:
        require_parity([fine, compare_output("y", SOURCE, converted, rule_for("y", options))], options)
    error = raised.value
    assert (error.kind, error.exit_code) == ("ParityRefusedError", 4)
    assert error.expected == "y: a difference of at most 0.25 + 0.001 × |source| in 100 % of the rows"
    assert error.found == "y: 1 of 4 rows off, by up to 0.4 (row 3: expected 0.5, found 0.1)"
    require_parity([fine], options)

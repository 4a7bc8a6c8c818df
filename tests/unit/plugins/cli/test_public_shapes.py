"""`slipway init` on the signatures of public models: what it proposes, and whether a gate can ask what it writes."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from slipway.cli.beginning.asking import Wanted
from slipway.cli.beginning.begin import begin
from slipway.cli.beginning.proposal import proposals
from slipway.cli.checking.linting import lint_file
from slipway.cli.failures import CommandError
from slipway.cli.model_files.signature import read_signature
from slipway_core.gates.validation.golden_set import GoldenSet, golden_from_arrays
from slipway_core.gates.validation.kind import kind_of
from slipway_core.gates.validation.kinds.classification import score_classification
from slipway_core.gates.validation.kinds.detections import boxes_of, score_detections
from slipway_core.gates.validation.kinds.regression import score_regression
from slipway_core.gates.validation.kinds.segmentation import score_segmentation
from slipway_core.gates.validation.kinds.text import score_text
from slipway_core.gates.validation.kinds.vectors import score_vectors
from slipway_core.gates.validation.npz import read_arrays
from slipway_core.spec.release_file import ReleaseSpec, load_release_spec
from tests.support.cli.public_shapes import NOT_FINITE, SHAPES, Shape

SCORERS: dict[str, Any] = {
    "classification": score_classification,
    "regression": score_regression,
    "vectors": score_vectors,
    "segmentation": score_segmentation,
    "detections": score_detections,
    "text": score_text,
}


def answers_of(path: Path, spec: ReleaseSpec, golden: GoldenSet) -> dict[str, Any]:
    """Ask the model as the gate asks a server: in its requests, with the rows first in what comes back."""
    session = onnxruntime.InferenceSession(path)
    parts: dict[str, list[Any]] = {name: [] for name in spec.validation.outputs}
    for rows, inputs in golden.batches(spec.validation.batch_size):
        number = len(range(*rows.indices(golden.rows)))
        taken = {one.name: inputs[one.name].reshape(inputs[one.name].shape) for one in session.get_inputs()}
        for name, answer in zip(parts, session.run(list(parts), taken), strict=True):
            parts[name].append(golden.rows_first(name, np.asarray(answer), number))
    return {name: np.concatenate(each) for name, each in parts.items()}


def scored(path: Path, spec: ReleaseSpec, golden: GoldenSet, answers: dict[str, Any], scorer: Path) -> Any:
    """Score the answers as the gate does, or by the scorer that init has written."""
    validation: Any = spec.validation
    if validation.kind == "custom":
        found = runpy.run_path(str(scorer))["score"]({}, golden.labels, answers, answers)
        assert all(one.shape == (golden.rows,) for one in found.values())
        return found
    values = boxes_of(answers, validation) if validation.kind == "detections" else answers[validation.output]
    return SCORERS[validation.kind](golden, values, values, validation)


def made(name: str, shape: Shape, home: Path, **options: Any) -> tuple[Path, Any]:
    """Write the model, and begin it."""
    path = home / "model.onnx"
    path.write_bytes(shape.make())
    return path, begin(name, path, home, home / "golden.npz", None, **options)


@pytest.mark.parametrize("name", SHAPES)
def test_what_is_proposed_can_be_asked_and_its_own_answers_are_right(name: str, tmp_path: Path) -> None:
    """The kind is one that fits, lint passes, each golden row gets an answer, and the model's own labels are right."""
    shape = SHAPES[name]
    path, begun = made(name, shape, tmp_path, from_model=True)
    assert (begun.chosen.kind in shape.kinds, begun.chosen.output) == (True, shape.output), begun.chosen
    assert (begun.chosen.sureness == "sure") == shape.sure, begun.chosen
    release_file = tmp_path / f"{name}.yaml"
    linted = lint_file(release_file, path, tmp_path / "golden.npz")
    assert linted.error is None, linted.error
    spec = load_release_spec(release_file)
    assert bool(spec.serving.max_batch_size) == shape.takes_batches
    golden = golden_from_arrays(
        read_arrays((tmp_path / "golden.npz").read_bytes(), "golden.npz"),
        read_signature(path),
        spec.validation.label,
        labelled=kind_of(spec.validation).labels,
        row_axis=spec.golden.row_axis,
    )
    assert golden.has_labels
    assert golden.rows == begun.rows >= 8
    found = scored(path, spec, golden, answers_of(path, spec, golden), tmp_path / f"{name}-scorer.py")
    if spec.validation.kind == "custom":
        assert found["correct"].min() == found["agrees"].min() == 1
    elif spec.validation.kind == "classification":
        assert found.accuracy == found.agreement == 1


@pytest.mark.parametrize("name", SHAPES)
def test_a_model_that_is_not_run_gets_a_release_file_as_well(name: str, tmp_path: Path) -> None:
    """Where ONNX Runtime is not installed, or the model may not be run, the shapes alone are read; lint passes."""
    path, begun = made(name, SHAPES[name], tmp_path, runs=False)
    assert begun.trial.problem == "it was not run"
    linted = lint_file(tmp_path / f"{name}.yaml", path, tmp_path / "golden.npz")
    assert linted.error is None, linted.error


def test_no_sigmoid_is_a_regression(tmp_path: Path) -> None:
    """A probability has no mean absolute error that a newcomer could know: nothing of the kind is proposed."""
    for name in ("sigmoid", "multi-label", "voice"):
        _, begun = made(name, SHAPES[name], tmp_path, force=True)
        assert "mae_max" not in begun.release_path.read_text()
        assert begun.trial.problem == ""
        assert {one.kind for one in proposals(begun.file, begun.trial)} <= {"custom", "vectors"}


def test_a_kind_that_is_said_counts(tmp_path: Path) -> None:
    """A script says the kind; the next fitting output of that kind is taken."""
    _, begun = made("long-vectors", SHAPES["long-vectors"], tmp_path, wanted=Wanted(kind="classification"))
    assert (begun.chosen.kind, begun.chosen.sureness) == ("classification", "sure")


def test_answers_that_are_no_label_for_each_row_are_refused(tmp_path: Path) -> None:
    """A script that insists on a number for each row gets no file with made-up ones, and a remedy."""
    with pytest.raises(CommandError) as refused:
        made("nan", NOT_FINITE, tmp_path, from_model=True)
    assert "not finite" in str(refused.value)
    assert "--labels-from-model" in (refused.value.remedy or "")
    assert not (tmp_path / "golden.npz").exists()

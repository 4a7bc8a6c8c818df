"""The default gates over one model file, as a release asks them: the converter's checks, then validation.

The model answers through the same ONNX runtime as the sandbox's Triton, in process: a hundred loads of a server would
take an hour. `serve` sends the same requests to a real tritonserver instead, for a sample.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
import pandas as pd
from numpy.typing import NDArray

from benchmarks.gates.subject import Arrays, Subject
from slipway.quality.checkpoints import run_expectations
from slipway_core.errors import SlipwayError
from slipway_core.gates.validation.asking import answer_of, joined
from slipway_core.gates.validation.gate import require_validation, score, validation_report
from slipway_core.gates.validation.golden_set import GoldenSet, golden_from_arrays
from slipway_core.gates.validation.health import health_of, probe_of, rows_to_probe
from slipway_core.gates.validation.kind import kind_of
from slipway_core.gates.validation.kinds.vectors import cosines
from slipway_core.gates.validation.other_outputs.compare import compare_outputs
from slipway_core.gates.validation.other_outputs.result import OutputAnswers
from slipway_core.tensors import ModelSignature, TensorSpec

Array = NDArray[Any]
Ask = Callable[[Mapping[str, Array], Sequence[str]], dict[str, Array]]


@dataclass(frozen=True)
class GateVerdict:
    """What the gates said of a model: which one refused it, "" for none, and why."""

    caught_by: str
    reason: str
    answers: Array | None = None


def signature_of(model: onnx.ModelProto) -> ModelSignature:
    """Return the tensors as a server tells them: a single number is served as [1]."""
    types = {1: "FP32", 6: "INT32", 7: "INT64", 8: "BYTES", 10: "FP16", 11: "FP64"}

    def tensor(one: onnx.ValueInfoProto) -> TensorSpec:
        kind = one.type.tensor_type
        sizes = tuple(size.dim_value if size.dim_value > 0 else -1 for size in kind.shape.dim)
        return TensorSpec.model_validate(
            {"name": one.name, "datatype": types[kind.elem_type], "shape": sizes or (1,)}
        )

    return ModelSignature(
        inputs=tuple(tensor(one) for one in model.graph.input),
        outputs=tuple(tensor(one) for one in model.graph.output),
    )


def in_process(content: bytes) -> Ask:
    """Return how a model file is asked by ONNX Runtime.

    :raises Exception: whatever the runtime raises for a file that it does not take.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    ranks = {one.name: len(one.shape) for one in session.get_inputs()}

    def ask(inputs: Mapping[str, Array], outputs: Sequence[str]) -> dict[str, Array]:
        feeds = {name: values.reshape(()) if ranks[name] == 0 else values for name, values in inputs.items()}
        return dict(zip(outputs, session.run(list(outputs), feeds), strict=True))

    return ask


def answers_of(subject: Subject, golden: GoldenSet, ask: Ask) -> Array:
    """Return the answers to all golden rows, in requests of the default size."""
    validation = subject.validation
    return joined(
        [
            answer_of(golden, validation, ask(inputs, validation.outputs), rows.stop - rows.start)
            for rows, inputs in golden.batches(validation.batch_size)
        ]
    )


def whole_answers(subject: Subject, golden: GoldenSet, ask: Ask) -> OutputAnswers:
    """Return the answers to all golden rows in every output."""
    validation, names = subject.validation, [one.name for one in subject.model.graph.output]
    parts: dict[str, list[Array]] = {name: [] for name in names}
    for rows, inputs in golden.batches(validation.batch_size):
        for name, array in ask(inputs, names).items():
            parts[name].append(golden.rows_first(name, array, rows.stop - rows.start))
    found = {name: np.concatenate(each) for name, each in parts.items()}
    scored = {name: found.pop(name) for name in validation.outputs}
    return OutputAnswers(scored, found)


def gate(
    subject: Subject,
    content: bytes,
    arrays: Arrays,
    stable: Array | None,
    ask: Ask | None = None,
    stable_whole: OutputAnswers | None = None,
) -> GateVerdict:
    """Return what the gates say of a model file.

    :param stable: the stable version's answers to the same golden set.
    :param stable_whole: the same in every output; None: the outputs that are not scored are not asked for.
    :param ask: how it is asked; left out: in process.
    """
    try:
        _check(content)
        ask = in_process(content) if ask is None else ask
    except Exception as error:  # the converter refuses what its tools refuse
        return GateVerdict("convert", f"{type(error).__name__}: {str(error)[:120]}")
    validation = subject.validation
    golden = golden_from_arrays(
        arrays,
        signature_of(subject.model),
        validation.label,
        labelled=kind_of(validation).labels,
        row_axis=subject.row_axis,
    )
    found: Array | None = None
    try:
        found = answers_of(subject, golden, ask)
        others = None if stable_whole is None else whole_answers(subject, golden, ask)
        report = _report(subject, golden, found, stable, ask, (others, stable_whole))
        require_validation(report)
    except SlipwayError as error:
        return GateVerdict("validate", str(error)[:300], found)
    except Exception as error:  # an answer that is an error, as the server gives it
        return GateVerdict("validate", f"{type(error).__name__}: {str(error)[:120]}", found)
    return GateVerdict("", report["found"], found)


def _check(content: bytes) -> None:
    with TemporaryDirectory(prefix="slipway-gates-") as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(content)
        onnx.checker.check_model(path, full_check=True)


def _report(
    subject: Subject,
    golden: GoldenSet,
    found: Array,
    stable: Array | None,
    ask: Ask,
    whole: tuple[OutputAnswers | None, OutputAnswers | None],
) -> Mapping[str, Any]:
    validation = subject.validation

    def again(rows: Sequence[int]) -> dict[str, Array]:
        answered = ask(golden.take(rows), validation.outputs)
        return {name: golden.rows_first(name, one, len(rows)) for name, one in answered.items()}

    probe = probe_of(
        again,
        rows_to_probe(validation.health.probe_rows, golden.rows, golden.request_rows),
        golden.request_rows,
        validation.batch_size,
    )
    numbers = score(golden, found, stable, validation)
    return validation_report(
        model=subject.name,
        version=2,
        stable_version=None if stable is None else 1,
        created_at="",
        numbers=numbers,
        results=run_expectations(pd.DataFrame(numbers.columns), numbers.suite(), subject.name),
        health=health_of(golden, found, stable, validation, probe),
        other_outputs=() if whole[0] is None else compare_outputs(golden, whole[0], whole[1], validation),
    )


def changed_share(subject: Subject, one: Array, other: Array) -> float:
    """Return the share of the rows whose answer is another one to a user, 0 to 1.

    Another class; a number that is further away than the mean error that is allowed; a vector of another direction.
    """
    if one.shape != other.shape:
        return 1.0
    if subject.kind == "classification":
        return float((one.argmax(axis=1) != other.argmax(axis=1)).mean())
    if subject.kind == "regression":
        return float((np.abs(one - other) > (subject.validation.mae_max or 0.0)).mean())
    return float((cosines(one, other) < subject.validation.cosine_min).mean())

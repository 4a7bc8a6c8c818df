"""The validation gate: the golden set, how its answers are scored, and what is expected of the scores.

The expectations are only named here, as great-expectations suites spell them; the operator runs them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from include.model_release.errors import GoldenSetError, SpecError, ValidationRefusedError
from include.model_release.signature import ModelSignature, TensorSpec
from include.model_release.spec import Validation

Array = NDArray[Any]
WORST_EXAMPLES = 12
_CLASSES_SHOWN = 20

_NUMPY_TYPES = {
    "BOOL": "?", "UINT8": "u1", "UINT16": "u2", "UINT32": "u4", "UINT64": "u8",
    "INT8": "i1", "INT16": "i2", "INT32": "i4", "INT64": "i8", "FP16": "f2", "FP32": "f4", "FP64": "f8",
}  # fmt: skip


@dataclass(frozen=True)
class GoldenSet:
    """Inputs with known answers.

    `inputs` by name, each (rows, …) in the model's datatype; `labels` (rows,), whole numbers.
    """

    inputs: dict[str, Array]
    labels: Array

    @property
    def rows(self) -> int:
        """How many examples there are."""
        return int(self.labels.shape[0])

    def batches(self, size: int) -> Iterator[tuple[slice, dict[str, Array]]]:
        """Yield the rows' slice and the inputs, `size` rows at a time; the last batch may be smaller."""
        for start in range(0, self.rows, size):
            rows = slice(start, min(start + size, self.rows))
            yield rows, {name: values[rows] for name, values in self.inputs.items()}


@dataclass(frozen=True)
class Example:
    """One golden row that was answered wrongly, or otherwise than by the stable version."""

    row: int
    label: int
    predicted: int
    confidence: float | None
    stable: int | None


@dataclass(frozen=True)
class ValidationNumbers:
    """What the golden set showed.

    Shares are 0 to 1; `agreement` is None when there is no stable version to agree with.
    `columns` has one entry per golden row in each column: label, predicted, correct, finite, and agrees if
    known. `confusion[i][j]` counts rows of class `classes[i]` that were answered with `classes[j]`.
    """

    rows: int
    accuracy: float
    agreement: float | None
    not_finite_rows: int
    worst: tuple[Example, ...]
    columns: dict[str, list[int]]
    classes: tuple[int, ...]
    confusion: tuple[tuple[int, ...], ...]


def golden_from_arrays(arrays: Mapping[str, Array], signature: ModelSignature, label: str) -> GoldenSet:
    """Check the arrays of a golden set against the model's inputs and put them into its datatypes.

    Raises GoldenSetError that names every column that is missing, unknown or of the wrong shape or type.
    """
    wanted = {tensor.name: tensor for tensor in signature.inputs}
    problems = [f"`{name}` is missing" for name in sorted({*wanted, label} - arrays.keys())]
    problems += [f"`{name}` is no input of the model" for name in sorted(arrays.keys() - {*wanted, label})]
    labels = arrays.get(label)
    if labels is not None:
        problems += _label_problems(label, labels)
    rows = labels.shape[0] if labels is not None and labels.ndim else None
    for name in sorted(wanted.keys() & arrays.keys()):
        problems += _input_problems(arrays[name], wanted[name], rows)
    if labels is None or problems:
        raise GoldenSetError(
            "the golden set does not fit the model",
            expected=f"{_columns_in_words(signature)}, and `{label}`: whole numbers [rows]",
            found="; ".join(problems),
            remedy="Write the golden set again with one array per input and one with the labels, rows first.",
        )
    inputs = {name: _in_datatype(arrays[name], tensor) for name, tensor in wanted.items()}
    return GoldenSet(inputs, labels.astype(np.int64))


def score(golden: GoldenSet, answers: Array, stable_answers: Array | None = None) -> ValidationNumbers:
    """Score the answers to all golden rows.

    `answers` and `stable_answers` are scores (rows, classes) or classes (rows,).
    A row with a score that is not finite counts as wrong. Raises ValidationRefusedError when rows are
    missing, SpecError when the output can be no classification.
    """
    predicted, confidence, finite = _predictions(answers, golden.rows)
    correct = (predicted == golden.labels) & finite
    columns = {"label": golden.labels, "predicted": predicted, "correct": correct, "finite": finite}
    stable = None
    if stable_answers is not None:
        stable, _, _ = _predictions(stable_answers, golden.rows)
        columns["agrees"] = np.asarray(predicted == stable)
    classes, confusion = _confusion(golden.labels, predicted)
    return ValidationNumbers(
        rows=golden.rows,
        accuracy=float(correct.mean()),
        agreement=float(columns["agrees"].mean()) if "agrees" in columns else None,
        not_finite_rows=int((~finite).sum()),
        worst=_worst(golden.labels, predicted, confidence, correct, stable),
        columns={name: values.astype(int).tolist() for name, values in columns.items()},
        classes=classes,
        confusion=confusion,
    )


def suite_definition(validation: Validation, rows: int, has_stable: bool) -> list[dict[str, Any]]:
    """Return the suite on `ValidationNumbers.columns`: a list of `{"type", "kwargs", "meaning"}`."""
    suite = [
        _expectation("expect_table_row_count_to_equal", "every golden row was answered", value=rows),
        _expectation(
            "expect_column_values_to_be_in_set",
            "every score is a finite number",
            column="finite",
            value_set=[1],
        ),
        _expectation(
            "expect_column_mean_to_be_between",
            f"accuracy is at least {validation.accuracy_min:.1%}",
            column="correct",
            min_value=validation.accuracy_min,
            max_value=1.0,
        ),
    ]
    if has_stable:
        suite.append(
            _expectation(
                "expect_column_mean_to_be_between",
                f"at least {validation.agreement_min:.1%} of the rows are answered as by the stable version",
                column="agrees",
                min_value=validation.agreement_min,
                max_value=1.0,
            )
        )
    return suite


def validation_report(
    *,
    model: str,
    version: int,
    stable_version: int | None,
    created_at: str,
    numbers: ValidationNumbers,
    validation: Validation,
    results: Sequence[Mapping[str, Any]],
    signature: ModelSignature | None = None,
    not_compared: str = "",
) -> dict[str, Any]:
    """Return the report, ready for JSON and for `report_html.render_report_html`.

    `not_compared` says why a stable version that is live was not asked. `results` are the suite's expectations
    as they went: `{"type", "kwargs", "meaning", "success", "observed"}`.
    """
    failed = [
        str(result.get("meaning") or result.get("type")) for result in results if not result.get("success")
    ]
    return {
        "model": model,
        "version": version,
        "stable_version": stable_version,
        "not_compared": not_compared or None,
        "created_at": created_at,
        "outcome": "pass" if results and not failed else "refused",
        "reasons": failed if results else ["no expectation was checked"],
        "numbers": {
            "rows": numbers.rows,
            "accuracy": numbers.accuracy,
            "accuracy_min": validation.accuracy_min,
            "agreement": numbers.agreement,
            "agreement_min": validation.agreement_min,
            "not_finite_rows": numbers.not_finite_rows,
        },
        "expectations": [dict(result) for result in results],
        "confusion": {"classes": list(numbers.classes), "counts": [list(row) for row in numbers.confusion]},
        "worst": [vars(example) for example in numbers.worst],
        "signature": signature.model_dump(mode="json") if signature else None,
    }


def require_validation(report: Mapping[str, Any]) -> None:
    """Raise ValidationRefusedError, with the numbers, unless the report's outcome is a pass."""
    if report["outcome"] == "pass":
        return
    numbers = report["numbers"]
    agreement = numbers["agreement"]
    found = f"accuracy {numbers['accuracy']:.4f} over {numbers['rows']} rows"
    if agreement is not None:
        found += f", agreement with version {report['stable_version']} {agreement:.4f}"
    if numbers["not_finite_rows"]:
        found += f", {numbers['not_finite_rows']} rows with scores that are not finite"
    raise ValidationRefusedError(
        f"{report['model']} version {report['version']} did not pass validation",
        expected="; ".join(report["reasons"]),
        found=found,
        remedy="Look at the wrong answers in evidence/validation.html, train again, release a new version.",
    )


def _label_problems(name: str, labels: Array) -> list[str]:
    if labels.ndim != 1:
        return [f"`{name}` has shape {list(labels.shape)}, not [rows]"]
    if labels.dtype.kind not in "iu":
        return [f"`{name}` holds {labels.dtype}, not whole numbers"]
    return [] if labels.shape[0] else [f"`{name}` has no rows"]


def _input_problems(values: Array, tensor: TensorSpec, rows: int | None) -> list[str]:
    name = tensor.name
    fits = values.ndim == len(tensor.shape) and all(
        wanted in (-1, size) for wanted, size in zip(tensor.shape, values.shape, strict=True)
    )
    if not fits:
        return [f"`{name}` has shape {list(values.shape)}, the model takes {list(tensor.shape)}"]
    problems = []
    if rows is not None and values.shape[:1] != (rows,):
        problems.append(f"`{name}` has {values.shape[0] if values.ndim else 0} rows, the labels {rows}")
    wanted_type = _NUMPY_TYPES.get(tensor.datatype)
    is_text = values.dtype.kind in "SU"
    if (tensor.datatype == "BYTES") != is_text or not (is_text or _converts(values, wanted_type)):
        problems.append(f"`{name}` holds {values.dtype}, the model takes {tensor.datatype}")
    elif values.dtype.kind == "f" and not np.isfinite(values).all():
        problems.append(f"`{name}` holds values that are not finite")
    return problems


def _converts(values: Array, wanted: str | None) -> bool:
    # float64 to float32 is how training often leaves it; float to int would change the numbers.
    return wanted is not None and np.can_cast(values.dtype, np.dtype(wanted), casting="same_kind")


def _in_datatype(values: Array, tensor: TensorSpec) -> Array:
    if tensor.datatype == "BYTES":
        return np.asarray(
            [text.encode() if isinstance(text, str) else text for text in values.ravel().tolist()],
            dtype=object,
        ).reshape(values.shape)
    return np.ascontiguousarray(values, dtype=np.dtype(_NUMPY_TYPES[tensor.datatype]))


def _columns_in_words(signature: ModelSignature) -> str:
    return ", ".join(f"`{tensor.name}`: {tensor}" for tensor in signature.inputs)


def _predictions(answers: Array, rows: int) -> tuple[Array, Array | None, Array]:
    """Return predicted classes, the winning scores, and which rows are finite.

    There are no scores when the output is the class itself.
    """
    if answers.ndim == 0 or answers.shape[0] != rows:
        raise ValidationRefusedError(
            "the server did not answer every golden row",
            expected=f"{rows} rows",
            found=f"an output of shape {list(answers.shape)}",
            remedy="Look at the staging server's log.",
        )
    flat = answers.reshape(rows, -1)
    if answers.dtype.kind in "iu" and flat.shape[1] == 1:
        return flat[:, 0].astype(np.int64), None, np.ones(rows, dtype=bool)
    if answers.dtype.kind not in "iuf" or answers.ndim != 2 or flat.shape[1] < 2:
        raise SpecError(
            "the output named by `validation.output` is no classification",
            expected="scores [rows, classes] or whole numbers [rows]",
            found=f"{answers.dtype} {list(answers.shape)}",
            remedy="Name another output of the model under `validation.output`.",
        )
    scores = flat.astype(np.float64)
    finite: Array = np.asarray(np.isfinite(scores).all(axis=1))
    predicted = np.where(finite, np.nan_to_num(scores).argmax(axis=1), -1)
    return predicted, scores.max(axis=1), finite


def _worst(
    labels: Array, predicted: Array, confidence: Array | None, correct: Array, stable: Array | None
) -> tuple[Example, ...]:
    """Show wrong answers, the surest first, then those where the two versions differ."""
    sureness = (
        np.zeros(labels.shape[0]) if confidence is None else np.nan_to_num(confidence, posinf=0.0, neginf=0.0)
    )
    differs = np.zeros(labels.shape[0], dtype=bool) if stable is None else predicted != stable
    order = np.lexsort((-sureness, correct))
    chosen = [row for row in order.tolist() if not correct[row] or differs[row]][:WORST_EXAMPLES]
    return tuple(
        Example(
            row=row,
            label=int(labels[row]),
            predicted=int(predicted[row]),
            confidence=None
            if confidence is None or not np.isfinite(confidence[row])
            else float(confidence[row]),
            stable=None if stable is None else int(stable[row]),
        )
        for row in chosen
    )


def _confusion(labels: Array, predicted: Array) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """Count by class; with many classes only the most frequent ones, so that a person can still read it."""
    values, counts = np.unique(labels, return_counts=True)
    shown = np.sort(values[np.argsort(-counts, kind="stable")][:_CLASSES_SHOWN])
    table = tuple(
        tuple(int(((labels == wanted) & (predicted == answered)).sum()) for answered in shown)
        for wanted in shown
    )
    return tuple(int(value) for value in shown), table


def _expectation(type_: str, meaning: str, **kwargs: Any) -> dict[str, Any]:
    return {"type": type_, "kwargs": kwargs, "meaning": meaning}

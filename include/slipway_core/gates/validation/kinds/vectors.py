"""Validation of vectors, such as embeddings: the cosine to stable's and to the labels', and who is near to whom.

Users keep vectors of an earlier version in an index, so it does not do that a new version's are good among themselves:
each must be near to the stable version's, and have the same neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from slipway_core.gates.validation.golden_labels import LabelRules
from slipway_core.gates.validation.golden_set import GoldenSet
from slipway_core.gates.validation.kind import ExamplesTable, ValidationKind, validation_kind
from slipway_core.gates.validation.measured import Measure, MeasuredScores, columns_of
from slipway_core.gates.validation.scores import (
    WORST_EXAMPLES,
    Array,
    no_answers_of_this_kind,
    number,
    require_rows,
)
from slipway_core.spec.parts import Share, Text
from slipway_core.spec.validation import NotNegative


class _VectorLabels(LabelRules):
    def misfit(self, labels: Array) -> str:
        fits = (labels.ndim == 1) == (labels.dtype.kind in "iu")
        return "" if fits else f"holds {labels.dtype} of shape {list(labels.shape)}"

    def in_type(self, labels: Array) -> Array:
        return labels.astype(np.int64 if labels.ndim == 1 else np.float64)

    def placeholder(self, rows: int) -> Array:
        return np.zeros(rows, dtype=np.int64)


@validation_kind
class VectorsValidation(ValidationKind):
    """The model tells a vector a row, such as a sentence's embedding. Labels may be left out."""

    labels: ClassVar[LabelRules] = _VectorLabels(
        "whole numbers [rows] (rows that belong together) or vectors [rows, size]",
        "iuf",
        (1, 2),
        optional=True,
    )
    examples: ClassVar[ExamplesTable] = ExamplesTable(
        "The vectors furthest from the stable version's, else those furthest from their label.",
        (
            ("Golden row#", "row"),
            ("Cosine to stable's#", "cosine"),
            ("Length#", "length"),
            ("Right#", "right"),
        ),
    )
    first_limits: ClassVar[tuple[str, ...]] = (
        "cosine_min: 0.99 # a row agrees with stable's vector, or with its label, from here on",
    )

    kind: Literal["vectors"] = "vectors"
    label: Text = "label"
    """Whole numbers: rows with the same one belong together. Or vectors: the right answers. It may be missing."""
    output: Text = "embedding"
    """The output that holds a vector for each row: (rows x size)."""
    cosine_min: Annotated[float, Field(ge=-1, le=1)] = 0.99
    """A row agrees with stable's vector, or with the label's, from this cosine on."""
    abs_tolerance: NotNegative | None = None
    """Where given, each element must also be within abs + rel * |other|."""
    rel_tolerance: NotNegative | None = None
    accuracy_min: Share = 0.9
    """With vectors as labels: share of the rows that agree with theirs."""
    neighbours: Annotated[int, Field(ge=1, le=100)] = 5
    """How many of a row's nearest golden rows, by the cosine, are compared with stable's."""
    neighbour_agreement_min: Share = 0.8
    """Mean share of a row's nearest rows that are also its nearest ones by the stable version's vectors."""
    neighbour_accuracy_min: Share = 0.5
    """With whole numbers as labels: share of the rows whose nearest other row has the same label."""

    def score(self, golden: GoldenSet, answers: Array, stable_answers: Array | None) -> VectorScores:
        """Score the answers, as `score_vectors` says."""
        return score_vectors(golden, answers, stable_answers, self)


@dataclass(frozen=True, kw_only=True)
class VectorScores(MeasuredScores):
    """The columns are finite; agrees and neighbour_agreement if there is a stable version; correct or
    neighbour_accuracy if there are labels.
    """


def score_vectors(
    golden: GoldenSet, answers: Array, stable_answers: Array | None, validation: VectorsValidation
) -> VectorScores:
    """Score the vectors of all golden rows (rows, size).

    :raises ValidationRefusedError: rows are missing.
    :raises SpecError: the output cannot be vectors.
    """
    found = _vectors(answers, golden.rows)
    finite = np.isfinite(found).all(axis=1)
    measures: list[Measure] = []
    cosines = None
    if golden.has_labels:
        measures.append(_against_labels(golden.labels, found, validation))
    if stable_answers is not None:
        stable = _vectors(stable_answers, golden.rows)
        agrees, cosines = _agrees(found, stable, validation)
        measures.append(
            Measure(
                column="agrees",
                caption="Agreement with the stable version",
                values=agrees.astype(float),
                least=validation.agreement_min,
                meaning=f"at least {validation.agreement_min:.1%} of the vectors have a cosine of "
                f"{validation.cosine_min:g} or more to the stable version's",
            )
        )
        if golden.rows > 2:
            measures.append(_neighbour_agreement(found, stable, validation))
    return VectorScores(
        rows=golden.rows,
        agreement=next((float(np.mean(one.values)) for one in measures if one.column == "agrees"), None),
        columns=columns_of(measures, finite),
        worst=_worst(found, cosines, measures),
        measures=tuple(measures),
        validation=validation,
        not_finite_rows=int((~finite).sum()),
    )


def _vectors(answers: Array, rows: int) -> Array:
    require_rows(answers, rows)
    # [rows, 1, 1, size] is a vector a row as well.
    is_flat = answers.ndim > 2 and sum(size != 1 for size in answers.shape[1:]) == 1
    flat = answers.reshape(rows, -1) if is_flat else answers
    if flat.dtype.kind not in "iuf" or flat.ndim != 2 or flat.shape[1] < 2:
        raise no_answers_of_this_kind("vectors", "a vector for each row, [rows, size]", answers)
    return flat.astype(np.float64)


def _against_labels(labels: Array, found: Array, asked: VectorsValidation) -> Measure:
    if labels.ndim == 2:
        correct, _ = _agrees(found, labels, asked)
        return Measure(
            column="correct",
            caption="Accuracy against the labels",
            values=correct.astype(float),
            least=asked.accuracy_min,
            meaning=f"at least {asked.accuracy_min:.1%} of the vectors have a cosine of {asked.cosine_min:g} or more "
            "to the label's",
        )
    nearest = _nearest(found, 1)
    same = (labels[nearest[:, 0]] == labels).astype(float)
    values, counts = np.unique(labels, return_counts=True)
    same[np.isin(labels, values[counts < 2])] = np.nan  # a row without another of its kind says nothing
    return Measure(
        column="neighbour_accuracy",
        caption="Nearest row of the same label",
        values=same,
        least=asked.neighbour_accuracy_min,
        meaning=f"of at least {asked.neighbour_accuracy_min:.1%} of the rows the nearest other row has the same label",
    )


def _neighbour_agreement(found: Array, stable: Array, asked: VectorsValidation) -> Measure:
    count = min(asked.neighbours, found.shape[0] - 2)
    mine, theirs = _nearest(found, count), _nearest(stable, count)
    shares = [np.isin(one, other).mean() for one, other in zip(mine, theirs, strict=True)]
    return Measure(
        column="neighbour_agreement",
        caption=f"Same {count} nearest rows as with the stable version",
        values=np.asarray(shares),
        least=asked.neighbour_agreement_min,
        meaning=f"at least {asked.neighbour_agreement_min:.1%} of each row's {count} nearest rows are the same as by "
        "the stable version's vectors",
    )


def cosines(one: Array, other: Array) -> Array:
    """Return the cosine of each pair of rows; 0 where a row has no direction, or is not finite."""
    with np.errstate(all="ignore"):
        found = (one * other).sum(axis=1) / (np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1))
    return np.asarray(np.nan_to_num(found, nan=0.0, posinf=0.0, neginf=0.0))


def _agrees(found: Array, other: Array, asked: VectorsValidation) -> tuple[Array, Array]:
    if found.shape != other.shape:
        return np.zeros(found.shape[0], dtype=bool), np.zeros(found.shape[0])
    near = cosines(found, other)
    agrees = near >= asked.cosine_min
    if asked.abs_tolerance is not None or asked.rel_tolerance is not None:
        allowed = (asked.abs_tolerance or 0.0) + (asked.rel_tolerance or 0.0) * np.abs(other)
        with np.errstate(invalid="ignore"):
            agrees = agrees & (np.abs(found - other) <= allowed).all(axis=1)
    return agrees, near


def _nearest(vectors: Array, count: int) -> Array:
    """Return each row's nearest other rows by the cosine; a row that is not finite has no direction."""
    with np.errstate(all="ignore"):
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        unit = np.nan_to_num(vectors / lengths, nan=0.0, posinf=0.0, neginf=0.0)
    near = unit @ unit.T
    np.fill_diagonal(near, -np.inf)
    return np.argsort(-near, axis=1, kind="stable")[:, :count]


def _worst(found: Array, near: Array | None, measures: list[Measure]) -> tuple[dict[str, Any], ...]:
    """Show the rows that are furthest from stable's vector, else from what the label says."""
    by = near if near is not None else np.asarray(measures[0].values) if measures else np.ones(found.shape[0])
    order = np.argsort(np.nan_to_num(by, nan=1.0), kind="stable")[:WORST_EXAMPLES].tolist()
    labels = next((one for one in measures if one.column in ("correct", "neighbour_accuracy")), None)
    return tuple(
        {
            "row": row,
            "cosine": None if near is None else number(near[row]),
            "length": number(np.linalg.norm(found[row])),
            "right": None if labels is None else number(labels.values[row]),
        }
        for row in order
    )

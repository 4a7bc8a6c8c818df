"""Validation of a ranker: normalised discounted cumulative gain, and the first documents that stable ranks first too.

NDCG is that of Järvelin and Kekäläinen (2002): relevance over the binary logarithm of the place plus one, divided by
that of the best order.
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


class _RelevanceLabels(LabelRules):
    def placeholder(self, rows: int) -> Array:
        return np.zeros(rows, dtype=np.int64)


@validation_kind
class RankingValidation(ValidationKind):
    """The model scores documents for a question. Labels may be left out."""

    labels: ClassVar[LabelRules] = _RelevanceLabels(
        "relevance [rows], or [rows, documents] with NaN behind the last document",
        "iuf",
        (1, 2),
        optional=True,
        padded=True,
    )
    examples: ClassVar[ExamplesTable] = ExamplesTable(
        "The questions with the least gain, else those with another order than the stable version's.",
        (("Question#", "row"), ("NDCG#", "ndcg"), ("First documents as stable#", "agrees")),
    )
    first_limits: ClassVar[tuple[str, ...]] = ("ndcg_min: 0.5 # of the first 10 documents",)

    kind: Literal["ranking"] = "ranking"
    label: Text = "label"
    """How relevant each document is, 0 or more: (rows x documents), or (rows) with `group`. It may be missing."""
    output: Text = "scores"
    """The output that holds a score for each document: (rows x documents), or (rows) with `group`."""
    group: Text | None = None
    """The array of the golden set that says which rows belong to one question: each row is a document then."""
    top_k: Annotated[int, Field(ge=1, le=1000)] = 10
    """How many of the first documents count."""
    ndcg_min: Share = 0.5
    """Mean normalised discounted cumulative gain of the first `top_k` documents."""

    def score(self, golden: GoldenSet, answers: Array, stable_answers: Array | None) -> RankingScores:
        """Score the answers, as `score_ranking` says."""
        return score_ranking(golden, answers, stable_answers, self)

    @property
    def grouped_by(self) -> str | None:
        """Return `group`."""
        return self.group


@dataclass(frozen=True, kw_only=True)
class RankingScores(MeasuredScores):
    """A row of the table is a question. The columns are finite, ndcg if there are labels, agrees if there is a stable
    version.
    """


def score_ranking(
    golden: GoldenSet, answers: Array, stable_answers: Array | None, validation: RankingValidation
) -> RankingScores:
    """Score the order of each question's documents.

    :raises ValidationRefusedError: rows are missing.
    :raises SpecError: the output cannot be scores.
    """
    questions = _questions(golden)
    found = _scores(answers, golden, questions)
    finite = np.asarray([bool(np.isfinite(one).all()) for one in found])
    measures: list[Measure] = []
    if golden.has_labels:
        wanted = _lists(golden.labels, questions)
        measures.append(
            Measure(
                column="ndcg",
                caption=f"NDCG of the first {validation.top_k}",
                values=np.asarray(
                    [
                        ndcg(one[np.isfinite(label)], label[np.isfinite(label)], validation.top_k)
                        for one, label in zip(found, wanted, strict=True)
                    ]
                ),
                least=validation.ndcg_min,
                meaning=f"the mean NDCG of the first {validation.top_k} documents is at least "
                f"{validation.ndcg_min:.1%}",
            )
        )
    if stable_answers is not None:
        theirs = _scores(stable_answers, golden, questions)
        shares = [_same_first(one, other, validation.top_k) for one, other in zip(found, theirs, strict=True)]
        measures.append(
            Measure(
                column="agrees",
                caption=f"The stable version's first {validation.top_k} documents",
                values=np.asarray(shares),
                least=validation.agreement_min,
                meaning=f"at least {validation.agreement_min:.1%} of the stable version's first {validation.top_k} "
                "documents are among the candidate's, and in the same order",
            )
        )
    agrees = next((one.values for one in measures if one.column == "agrees"), None)
    return RankingScores(
        rows=len(found),
        agreement=None if agrees is None else float(np.mean(agrees)),
        columns=columns_of(measures, finite),
        worst=_worst(measures),
        measures=tuple(measures),
        validation=validation,
        not_finite_rows=int((~finite).sum()),
        facts={"golden_rows": golden.rows},
    )


def ndcg(scores: Array, relevance: Array, top_k: int) -> float:
    """Return the gain of the order by `scores` over that of the best order; NaN where nothing is relevant.

    Documents with the same score come in the worst order: a model that tells none from another has put none first.
    """
    if not len(relevance) or relevance.max(initial=0.0) <= 0:
        return float("nan")
    order = np.lexsort((relevance, -np.nan_to_num(scores, nan=-np.inf)))
    discounts = 1.0 / np.log2(np.arange(2, len(relevance) + 2))
    discounts[top_k:] = 0.0
    return float((relevance[order] * discounts).sum() / (np.sort(relevance)[::-1] * discounts).sum())


def _same_first(scores: Array, others: Array, top_k: int) -> float:
    """Return how far two orders are alike: the mean share of the first 1, 2, … documents that are in both.

    That is the average overlap of the first documents, in which those at the top count most (Webber et al. 2010).
    Documents that `scores` does not tell apart come in the reverse of the others' order.
    """
    first, second = (-np.nan_to_num(one, nan=-np.inf) for one in (scores, others))
    mine, theirs = np.lexsort((-second, first))[:top_k], np.argsort(second, kind="stable")[:top_k]
    depths = range(1, min(len(mine), len(theirs)) + 1)
    return float(
        np.mean([len(np.intersect1d(mine[:depth], theirs[:depth])) / depth for depth in depths] or [1.0])
    )


def _questions(golden: GoldenSet) -> list[Array] | None:
    """Return the rows of each question; None if each row is a question of its own."""
    if golden.groups is None:
        return None
    values, places = np.unique(golden.groups, return_inverse=True)
    return [np.flatnonzero(places == place) for place in range(len(values))]


def _lists(values: Array, questions: list[Array] | None) -> list[Array]:
    if questions is None:
        return [np.atleast_1d(one) for one in values]
    flat = values.reshape(len(values), -1)[:, 0]
    return [flat[rows] for rows in questions]


def _scores(answers: Array, golden: GoldenSet, questions: list[Array] | None) -> list[Array]:
    require_rows(answers, golden.rows)
    wanted = (1,) if questions is not None else (2,)
    flat = answers[..., 0] if answers.ndim == wanted[0] + 1 and answers.shape[-1] == 1 else answers
    fits = flat.dtype.kind in "iuf" and flat.ndim in wanted
    if fits and golden.has_labels and questions is None:
        fits = flat.shape == golden.labels.shape
    if not fits:
        expected = (
            "a score for each row, [rows]"
            if questions is not None
            else "scores [rows, documents] as the labels"
        )
        raise no_answers_of_this_kind("ranking", expected, answers)
    return _lists(flat.astype(np.float64), questions)


def _worst(measures: list[Measure]) -> tuple[dict[str, Any], ...]:
    """Show the questions with the least gain, else those with another order than stable's."""
    by = {one.column: one.values for one in measures}
    shown = by.get("ndcg", by.get("agrees"))
    if shown is None:
        return ()
    order = np.argsort(np.nan_to_num(shown, nan=1.0), kind="stable")[:WORST_EXAMPLES].tolist()
    return tuple(
        {"row": row, **{name: number(by[name][row]) if name in by else None for name in ("ndcg", "agrees")}}
        for row in order
        if shown[row] < 1
    )

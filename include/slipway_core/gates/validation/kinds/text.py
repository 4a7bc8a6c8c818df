"""Validation of a model that writes text: similarity to golden answers, and to what the stable version writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from slipway_core.gates.validation.golden_labels import LabelRules
from slipway_core.gates.validation.golden_set import GoldenSet
from slipway_core.gates.validation.kind import ExamplesTable, PageFigure, ValidationKind, validation_kind
from slipway_core.gates.validation.scores import (
    WORST_EXAMPLES,
    Array,
    ValidationScores,
    always,
    every_row,
    mean_between,
    no_answers_of_this_kind,
    require_rows,
)
from slipway_core.gates.validation.text_similarity import TextMatch, similarity
from slipway_core.spec.parts import Share, Text

_SHOWN_CHARACTERS = 400
_MATCHES: dict[TextMatch, str] = {
    "exact": "are given byte for byte",
    "normalized": "are given, without regard to case and white space",
    "contains": "stand in the answer, without regard to case and white space",
    "prefix": "are given up to the first other word",
    "token_f1": "are given, by the F1 score of the words",
}


class _TextLabels(LabelRules):
    def in_type(self, labels: Array) -> Array:
        texts = [
            text.decode(errors="replace") if isinstance(text, bytes) else text for text in labels.tolist()
        ]
        return np.asarray(texts, dtype=object)

    def placeholder(self, rows: int) -> Array:
        return np.full(rows, "", dtype="U1")


@validation_kind
class TextValidation(ValidationKind):
    """The model writes a text a row. The label's array has texts."""

    labels: ClassVar[LabelRules] = _TextLabels("texts", "SU")
    examples: ClassVar[ExamplesTable] = ExamplesTable(
        "The answers least like the golden ones, then those least like the stable version's.",
        (
            ("Golden row#", "row"),
            ("Asked", "asked"),
            ("Golden answer", "label"),
            ("Answered", "predicted"),
            ("Score#", "score"),
        ),
        stable_is_number=False,
    )
    page_figures: ClassVar[tuple[PageFigure, ...]] = (
        PageFigure("score", "Likeness to the golden answers ({match})", "score"),
    )
    first_limits: ClassVar[tuple[str, ...]] = ("score_min: 0.9 # mean score of the rows",)
    asked_again: ClassVar[bool] = False

    kind: Literal["text"] = "text"
    output: Text = "text_output"
    """The output that holds a text for each row: (rows) or (rows x 1)."""
    match: TextMatch = "normalized"
    """What a row scores, 0 to 1. `exact`: the golden answer, byte for byte. `normalized`: without regard to case,
    white space and Unicode form. `contains`: the golden answer stands in it, normalised. `prefix`: the share of the
    golden answer's words up to the first other one. `token_f1`: the F1 score of the words, in any order.
    """
    score_min: Share = 0.9
    """Mean score over the golden set; of `exact`, `normalized` and `contains` it is the share of the rows."""
    agreement_match: TextMatch = "normalized"
    """How the candidate's answers are compared with stable's. Both must decode greedily, or nothing is compared."""
    responses: Literal["join", "last"] = "join"
    """What a decoupled model's responses make: a text in pieces, or a text that the last one has in whole."""

    def score(self, golden: GoldenSet, answers: Array, stable_answers: Array | None) -> TextScores:
        """Score the answers, as `score_text` says."""
        return score_text(golden, answers, stable_answers, self)

    def gather(self, responses: Sequence[Sequence[Array]]) -> Array:
        """Return a text for each request: its responses' joined, or the last one; None if it has no response.

        :raises SpecError: a response has several texts.
        """
        return np.asarray([_gathered(arrays, self.responses) for arrays in responses], dtype=object)


@dataclass(frozen=True, kw_only=True)
class TextScores(ValidationScores):
    """The columns are answered, score, and agrees if known; `score` is their mean, 0 to 1."""

    score: float
    unanswered_rows: int
    validation: TextValidation

    def suite(self) -> list[dict[str, Any]]:
        """Expect a text for each row, and similarity to the golden answers and to those of a stable version."""
        asked = self.validation
        meaning = f"at least {asked.score_min:.1%} of the golden answers {_MATCHES[asked.match]}"
        suite = [
            every_row(self.rows),
            always("answered", "every golden row got a text"),
            mean_between("score", meaning, least=asked.score_min, most=1.0),
        ]
        if self.agreement is not None:
            words = _MATCHES[asked.agreement_match]
            meaning = f"at least {asked.agreement_min:.1%} of the stable version's answers {words}"
            suite.append(mean_between("agrees", meaning, least=asked.agreement_min, most=1.0))
        return suite

    def figures(self) -> dict[str, Any]:
        """Return the similarity to the golden answers and to stable's."""
        return {
            "rows": self.rows,
            "score": self.score,
            "score_min": self.validation.score_min,
            "match": self.validation.match,
            "agreement": self.agreement,
            "agreement_min": self.validation.agreement_min,
            "agreement_match": self.validation.agreement_match,
            "unanswered_rows": self.unanswered_rows,
        }

    def words(self) -> str:
        """Say how like the answers are."""
        words = f"score {self.score:.4f} ({self.validation.match}) over {self.rows} rows"
        return f"{words}, {self.unanswered_rows} without an answer" if self.unanswered_rows else words


def score_text(
    golden: GoldenSet, answers: Array, stable_answers: Array | None, validation: TextValidation
) -> TextScores:
    """Score the answers to all golden rows: UTF-8 bytes, (rows,) or (rows, 1), None for a row without an answer.

    A row without an answer scores 0.

    :raises ValidationRefusedError: rows are missing.
    :raises SpecError: the output cannot be text.
    """
    answered = _texts(answers, golden.rows)
    score = [
        _similarity(label, text, validation.match)
        for label, text in zip(golden.labels, answered, strict=True)
    ]
    columns: dict[str, list[Any]] = {"answered": [int(text is not None) for text in answered], "score": score}
    stable = None if stable_answers is None else _texts(stable_answers, golden.rows)
    if stable is not None:
        columns["agrees"] = [
            _similarity(theirs, mine, validation.agreement_match)
            for theirs, mine in zip(stable, answered, strict=True)
        ]
    return TextScores(
        rows=golden.rows,
        agreement=float(np.mean(columns["agrees"])) if "agrees" in columns else None,
        columns=columns,
        worst=_worst(golden, answered, stable, columns),
        score=float(np.mean(score)),
        unanswered_rows=answered.count(None),
        validation=validation,
    )


def _texts(answers: Array, rows: int) -> list[str | None]:
    require_rows(answers, rows)
    if answers.dtype.kind not in "OSU" or answers.shape not in ((rows,), (rows, 1)):
        raise no_answers_of_this_kind("text", "a text for each row: BYTES [rows] or [rows, 1]", answers)
    return [_text(value) for value in answers.reshape(rows).tolist()]


def _text(value: bytes | str | None) -> str | None:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _similarity(expected: str | None, answered: str | None, match: TextMatch) -> float:
    return 0.0 if expected is None or answered is None else similarity(expected, answered, match)


def _worst(
    golden: GoldenSet,
    answered: list[str | None],
    stable: list[str | None] | None,
    columns: dict[str, list[Any]],
) -> tuple[dict[str, Any], ...]:
    """Show the answers least similar to the golden ones, then those least similar to stable's."""
    score, agrees = columns["score"], columns.get("agrees", [1.0] * golden.rows)
    order = sorted(range(golden.rows), key=lambda row: (score[row], agrees[row]))
    asked = next((values for values in golden.inputs.values() if values.dtype == object), None)
    return tuple(
        {
            "row": row,
            "asked": None
            if asked is None
            else _shown(_text(np.asarray(asked[row], dtype=object).reshape(-1)[0])),
            "label": _shown(str(golden.labels[row])),
            "predicted": _shown(answered[row]),
            "score": score[row],
            "stable": None if stable is None else _shown(stable[row]),
        }
        for row in order
        if score[row] < 1 or agrees[row] < 1
    )[:WORST_EXAMPLES]


def _shown(text: str | None) -> str | None:
    return text if text is None or len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


def _gathered(arrays: Sequence[Array], responses: Literal["join", "last"]) -> bytes | None:
    pieces: list[bytes] = []
    for array in arrays:
        if array.dtype.kind not in "OS" or array.size > 1:
            raise no_answers_of_this_kind("text", "one text a response: BYTES [1] or [1, 1]", array)
        pieces += array.reshape(-1).tolist()
    if not arrays:
        return None
    return b"".join(pieces if responses == "join" else pieces[-1:])

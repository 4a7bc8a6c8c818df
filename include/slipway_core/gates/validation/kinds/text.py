"""Validation of a model that writes text: similarity to golden answers, and to what the stable version writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from slipway_core.gates.validation.golden_set import GoldenSet
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
from slipway_core.gates.validation.text_similarity import similarity
from slipway_core.spec.validation import TextMatch, TextValidation

_SHOWN_CHARACTERS = 400
_MATCHES: dict[TextMatch, str] = {
    "exact": "are given byte for byte",
    "normalized": "are given, without regard to case and white space",
    "contains": "stand in the answer, without regard to case and white space",
    "prefix": "are given up to the first other word",
    "token_f1": "are given, by the F1 score of the words",
}


@dataclass(frozen=True, kw_only=True)
class TextScores(ValidationScores):
    """The columns are answered, score, and agrees if known; `score` is their mean, 0 to 1."""

    kind: ClassVar[str] = "text"
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
        told = f"score {self.score:.4f} ({self.validation.match}) over {self.rows} rows"
        return f"{told}, {self.unanswered_rows} without an answer" if self.unanswered_rows else told


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

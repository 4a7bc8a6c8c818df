"""Validation of a model that writes text: how alike two texts are, and what the golden set shows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from slipway_core.errors import SpecError
from slipway_core.gates.validation.golden_set import GoldenSet
from slipway_core.gates.validation.kinds.text import TextScores, TextValidation, score_text
from slipway_core.gates.validation.text_similarity import TextMatch, similarity

_MATCHES: list[TextMatch] = ["exact", "normalized", "contains", "prefix", "token_f1"]
_TEXTS = st.lists(st.sampled_from(["a", "B", "c", "é", "\n"]), max_size=6).map(" ".join)


@pytest.mark.parametrize(
    ("match", "expected", "answered", "score"),
    [
        ("exact", "Yes", "Yes", 1),
        ("exact", "Yes", "yes", 0),
        ("normalized", "Straße  1", " STRASSE 1\n", 1),
        ("normalized", "ﬁne", "fine", 1),
        ("normalized", "yes", "yes.", 0),
        ("contains", "four", "It is FOUR, I think.", 1),
        ("contains", "in two", "in a two", 0),
        ("contains", "", "anything", 0),
        ("prefix", "a b c d", "A b x d", 0.5),
        ("prefix", "a b", "a b c d", 1),
        ("prefix", "a b c d", "a b", 0.5),
        ("token_f1", "a a b", "b a", 0.8),
        ("token_f1", "a b", "c", 0),
        ("token_f1", "", "", 1),
    ],
)
def test_likeness_by_hand(match: TextMatch, expected: str, answered: str, score: float) -> None:
    """Each way to match gives what a person would count."""
    assert similarity(expected, answered, match) == pytest.approx(score)


@given(_TEXTS, _TEXTS, st.sampled_from(_MATCHES))
def test_likeness_is_a_share_and_whole_for_the_same_text(one: str, other: str, match: TextMatch) -> None:
    """Likeness lies between 0 and 1, is 1 for a text and itself, and no way is stricter than `exact`."""
    assert 0 <= similarity(one, other, match) <= 1
    assert similarity(one, one, match) == 1
    assert similarity(one, other, "exact") <= similarity(one, other, match)


def scored(
    labels: list[str], answers: NDArray[Any], stable: NDArray[Any] | None = None, **asked: Any
) -> TextScores:
    """Score answers to golden texts whose prompts are `q0`, `q1` and so on."""
    prompts = np.array([[f"q{row}".encode()] for row in range(len(labels))], dtype=object)
    golden = GoldenSet({"limit": np.zeros(len(labels)), "prompt": prompts}, np.array(labels, dtype=object))
    return score_text(golden, answers, stable, TextValidation(**asked))


def texts(*values: str | None) -> NDArray[Any]:
    """Answers as a server gives them."""
    return np.array([None if value is None else value.encode() for value in values], dtype=object)


def test_score_and_agreement_are_means_over_the_rows() -> None:
    """The score is against the golden answers, agreement against stable's, each by its own way to match."""
    numbers = scored(
        ["a b", "c d"], texts("a b", "c x"), texts("a b", "c y"), match="prefix", agreement_match="token_f1"
    )
    assert (numbers.score, numbers.agreement) == (0.75, 0.75)
    assert numbers.columns == {"answered": [1, 1], "score": [1.0, 0.5], "agrees": [1.0, 0.5]}
    (example,) = numbers.worst
    assert example == {
        "row": 1,
        "asked": "q1",
        "label": "c d",
        "predicted": "c x",
        "score": 0.5,
        "stable": "c y",
    }
    assert [item["kwargs"].get("column") for item in numbers.suite()] == [None, "answered", "score", "agrees"]


def test_a_row_without_an_answer_scores_nothing() -> None:
    """A row without a text is counted, shown and expected not to be; it also agrees with nobody."""
    numbers = scored(["a", "b"], texts("a", None), texts(None, None))
    assert (numbers.score, numbers.agreement, numbers.unanswered_rows) == (0.5, 0.0, 1)
    assert numbers.columns["answered"] == [1, 0]
    assert numbers.words() == "score 0.5000 (normalized) over 2 rows, 1 without an answer"


def test_long_texts_are_cut_in_the_examples() -> None:
    """The report shows the beginning of a text, not megabytes of it."""
    (example,) = scored(["a"], texts("b" * 10_000)).worst
    assert len(example["predicted"]) == 401


def test_bytes_that_are_no_text_are_shown_all_the_same() -> None:
    """An answer that is not UTF-8 is wrong, not an error of the gate."""
    numbers = scored(["a"], np.array([b"\xff"], dtype=object))
    assert numbers.worst[0]["predicted"] == "\ufffd"


@pytest.mark.parametrize("answers", [np.zeros((2, 1)), np.array([[b"a", b"b"]] * 2, dtype=object)])
def test_an_output_that_is_no_text_is_a_fault_of_the_release_file(answers: NDArray[Any]) -> None:
    """Numbers, and several texts a row, are not what a text model answers."""
    with pytest.raises(SpecError, match=r"`validation\.output` is no text.*another `validation\.kind`"):
        scored(["a", "b"], answers)

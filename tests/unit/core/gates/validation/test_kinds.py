"""Vectors, detections, segmentation and ranking: each kind's figures, with labels, with stable, with neither."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.metrics import ndcg_score

from slipway_core.errors import SpecError
from slipway_core.gates.validation.asking import answer_of, joined
from slipway_core.gates.validation.gate import score
from slipway_core.gates.validation.golden_set import GoldenSet
from slipway_core.gates.validation.kinds.detections import DetectionsValidation, average_precision, iou
from slipway_core.gates.validation.kinds.ranking import RankingValidation, ndcg
from slipway_core.gates.validation.kinds.segmentation import SegmentationValidation
from slipway_core.gates.validation.kinds.vectors import VectorsValidation
from slipway_core.gates.validation.scores import MEAN

_NUMBERS = np.random.default_rng(7)
_VECTORS = np.repeat(np.eye(4), 10, axis=0) + 0.05 * _NUMBERS.normal(size=(40, 4))
_GROUPS = np.repeat(np.arange(4), 10)


def _figures(golden: GoldenSet, answers: Any, stable: Any, validation: Any) -> dict[str, Any]:
    return score(golden, answers, stable, validation).figures()


def _unlabelled(rows: int) -> GoldenSet:
    return GoldenSet({}, np.zeros(0), unlabelled_rows=rows)


def test_the_same_vectors_agree_and_have_the_same_neighbours() -> None:
    """A version that answers as stable does has every figure at 1, and its neighbours have its label."""
    found = _figures(GoldenSet({}, _GROUPS), _VECTORS, _VECTORS.copy(), VectorsValidation())
    assert (found["agreement"], found["neighbour_agreement"], found["neighbour_accuracy"]) == (1.0, 1.0, 1.0)


@pytest.mark.parametrize(
    "damaged", [np.zeros_like(_VECTORS), _VECTORS[::-1], _VECTORS * np.nan, _VECTORS + 5.0]
)
def test_damaged_vectors_do_not_agree(damaged: Any) -> None:
    """Vectors of zeros, of other rows, without numbers or all in one direction are told from stable's."""
    found = _figures(_unlabelled(40), damaged, _VECTORS, VectorsValidation())
    assert found["agreement"] < 0.5
    assert found["accuracy" if "accuracy" in found else "agreement"] < 0.9


def test_turned_vectors_keep_their_neighbours_and_still_disagree() -> None:
    """An index keeps stable's vectors: another space is another answer, however good it is by itself."""
    turned = _VECTORS @ np.roll(np.eye(4), 1, axis=0)
    found = _figures(_unlabelled(40), turned, _VECTORS, VectorsValidation())
    assert (found["neighbour_agreement"], found["agreement"]) == (1.0, 0.0)


def test_vectors_as_labels_are_right_answers() -> None:
    """Each row is held against the label's vector, by the cosine and by the tolerance where there is one."""
    golden = GoldenSet({}, _VECTORS)
    assert _figures(golden, 2 * _VECTORS, None, VectorsValidation())["correct"] == 1.0
    strict = VectorsValidation(abs_tolerance=0.01)
    assert _figures(golden, 2 * _VECTORS, None, strict)["correct"] == 0.0


def test_vectors_are_wide() -> None:
    """One number a row is no vector."""
    with pytest.raises(SpecError, match="no vectors"):
        score(_unlabelled(3), np.zeros((3, 1)), None, VectorsValidation())


_BOXES = np.array(
    [
        [[0, 0, 10, 10, 0.9, 1], [20, 20, 30, 30, 0.8, 2], [np.nan] * 6],
        [[5, 5, 15, 15, 0.7, 1], [np.nan] * 6, [np.nan] * 6],
    ]
)
_LABELS = np.array([[[0, 0, 10, 10, 1], [20, 20, 30, 30, 2]], [[5, 5, 15, 15, 1], [np.nan] * 5]], dtype=float)


def test_found_objects_are_those_of_the_labels() -> None:
    """Boxes in their place, of the right class, have a mean average precision of 1."""
    found = _figures(GoldenSet({}, _LABELS), _BOXES, _BOXES, DetectionsValidation())
    assert (found["map"], found["found"], found["agreement"], found["objects"]) == (1.0, 1.0, 1.0, 3)


def test_boxes_of_another_class_or_place_are_not_found() -> None:
    """Permuted classes and moved boxes have an average precision of 0, and do not agree with stable."""
    permuted, moved = _BOXES.copy(), _BOXES.copy()
    permuted[:, :, 5] = 3 - permuted[:, :, 5]
    moved[:, :, :4] += 8
    for damaged in (permuted, moved):
        found = _figures(GoldenSet({}, _LABELS), damaged, _BOXES, DetectionsValidation())
        assert (found["map"], found["agreement"]) == (0.0, 0.0)


def test_average_precision_is_the_area_under_precision_over_recall() -> None:
    """Of four wanted objects three are found, the second box being wrong: 1/4 + 2/3·1/4… made falling."""
    hits = np.array([True, False, True, True])
    assert average_precision(np.array([0.9, 0.8, 0.7, 0.6]), hits, 4) == pytest.approx(0.25 + 0.5 * 0.75)


def test_boxes_may_come_in_three_outputs_and_other_forms() -> None:
    """Boxes, scores and classes are put together; a centre and a size become two corners; lists are filled up."""
    asked = DetectionsValidation(
        output="boxes", scores_output="scores", classes_output="classes", box_format="cxcywh"
    )
    arrays = {
        "boxes": np.array([[[5.0, 5.0, 10.0, 10.0]]]),
        "scores": np.array([[0.5]]),
        "classes": np.array([[2]]),
    }
    golden = GoldenSet({}, _LABELS)
    one = answer_of(golden, asked, arrays, 1)
    assert one.tolist() == [[[0.0, 0.0, 10.0, 10.0, 0.5, 2.0]]]
    two = joined([one, np.zeros((1, 3, 6))])
    assert two.shape == (2, 3, 6)
    assert np.isnan(two[0, 1:]).all()
    assert iou(np.array([[0.0, 0, 10, 10]]), np.array([[5.0, 0, 15, 10]])).item() == pytest.approx(1 / 3)


def test_masks_are_held_against_labels_and_stable() -> None:
    """Scores by class become classes; what is ignored does not count."""
    labels = np.zeros((2, 4, 4), dtype=int)
    labels[:, :, 2:] = 1
    scores = np.stack([1.0 - labels, labels.astype(float)], axis=1)
    golden = GoldenSet({}, labels)
    found = _figures(golden, scores, labels, SegmentationValidation())
    assert (found["iou"], found["pixel_accuracy"], found["agreement"]) == (1.0, 1.0, 1.0)
    swapped = _figures(golden, 1 - labels, labels, SegmentationValidation())
    assert (swapped["iou"], swapped["agreement"]) == (0.0, 0.0)
    half = labels.copy()
    half[:, :2] = 255
    ignored = _figures(GoldenSet({}, half), labels, None, SegmentationValidation(ignore_label=255))
    assert ignored["iou"] == 1.0


def test_gain_is_that_of_the_library() -> None:
    """NDCG is what scikit-learn makes of the same scores."""
    relevance, scores = _NUMBERS.integers(0, 4, size=12), _NUMBERS.normal(size=12)
    assert ndcg(scores, relevance.astype(float), 5) == pytest.approx(ndcg_score([relevance], [scores], k=5))


def test_questions_may_be_rows_or_groups_of_rows() -> None:
    """Scores of all documents in a row, or a row for each document and the question it belongs to: the same figures."""
    labels, scores = np.array([[2.0, 0, 1], [0, 1, np.nan]]), np.array([[3.0, 1, 2], [1, 2, 9]])
    wide = _figures(GoldenSet({}, labels), scores, scores, RankingValidation())
    groups = np.array([7, 7, 7, 9, 9])
    flat = labels[np.isfinite(labels)]
    long = GoldenSet({}, flat, groups=groups)
    narrow = _figures(long, np.array([3.0, 1, 2, 1, 2]), None, RankingValidation(group="question"))
    assert (wide["ndcg"], wide["agreement"]) == (1.0, 1.0)
    assert (narrow["ndcg"], narrow["rows"], narrow["golden_rows"]) == (1.0, 2, 5)
    turned = _figures(GoldenSet({}, labels), -scores, scores, RankingValidation())
    assert turned["ndcg"] < 1.0
    assert turned["agreement"] < 0.9


def test_pixels_that_are_not_looked_at_are_no_right_ones() -> None:
    """A row of ignored pixels has no figure; where all rows are, nothing was compared, and no limit is met."""
    labels = np.full((4, 2, 2), 255)
    asked = SegmentationValidation(ignore_label=255)
    nothing = score(GoldenSet({}, labels), np.zeros((4, 2, 2), int), None, asked)
    assert (nothing.figures()["iou"], nothing.columns["iou"]) == (None, [None] * 4)
    labels = labels.copy()
    labels[3] = 1
    wrong = score(GoldenSet({}, labels), np.zeros((4, 2, 2), int), None, asked).figures()
    assert (wrong["iou"], wrong["pixel_accuracy"]) == (0.0, 0.0)


def test_masks_without_a_pixel_agree_with_nothing() -> None:
    """Empty answers of both versions are no agreement."""
    empty = np.zeros((4, 0, 0), int)
    assert score(_unlabelled(4), empty, empty, SegmentationValidation()).columns["agrees"] == [None] * 4


def test_a_detector_that_finds_nothing_does_not_agree_where_there_is_nothing() -> None:
    """Nineteen of twenty images show nothing: what the versions have in common there is no object."""
    stable = np.full((20, 1, 6), np.nan)
    stable[7] = [0, 0, 10, 10, 0.9, 1]
    blind = (
        np.tile([0.0, 0, 10, 10, 0.01, 1], (20, 1, 1)) * np.linspace(0.5, 1, 20)[:, np.newaxis, np.newaxis]
    )
    found = score(_unlabelled(20), blind, stable, DetectionsValidation())
    assert found.agreement == 0.0
    assert found.columns["agrees"].count(None) == 19
    assert score(_unlabelled(20), stable, stable, DetectionsValidation()).agreement == 1.0
    nowhere = score(_unlabelled(20), blind, blind, DetectionsValidation())
    assert (nowhere.agreement, [one["type"] for one in nowhere.suite() if one["type"] == MEAN]) == (None, [])


def test_documents_that_a_ranker_does_not_tell_apart_are_not_ranked() -> None:
    """Golden sets often have the best document first: the same score for all must not be that order."""
    relevance = np.tile([3.0, 2.0, 1.0, 0.0], (20, 1))
    stable = np.tile([0.9, 0.6, 0.3, 0.1], (20, 1))
    constant = np.arange(20.0)[:, np.newaxis] * np.ones(4)
    found = _figures(GoldenSet({}, relevance), constant, stable, RankingValidation(top_k=2))
    assert found["ndcg"] < 0.3
    assert found["agreement"] == 0.0
    same = _figures(GoldenSet({}, relevance), stable, stable, RankingValidation(top_k=2))
    assert (same["ndcg"], same["agreement"]) == (1.0, 1.0)


def test_documents_that_both_versions_rank_alike_agree() -> None:
    """What stable does not tell apart either is no difference."""
    scores = np.array([[0.5, 0.5, 0.9, 0.1]])
    assert _figures(_unlabelled(1), scores, scores.copy(), RankingValidation())["agreement"] == 1.0

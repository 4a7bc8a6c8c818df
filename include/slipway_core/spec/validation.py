"""The release file's `validation`: what the golden set must show on staging, by the kind of the model's answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from slipway_core.spec.parts import (
    Count,
    FileName,
    ImageReference,
    Seconds,
    Share,
    SpecPart,
    Text,
)
from slipway_core.spec.pods.settings import PodSettings
from slipway_core.spec.suites.expectations import SUITE_LIMIT, Expectation
from slipway_rules.scoring import FIGURE_NAME, NAMES_LIMIT

NotNegative = Annotated[float, Field(ge=0)]
TextMatch = Literal["exact", "normalized", "contains", "prefix", "token_f1"]
Policy = Literal["fail", "warn", "off"]
FigureName = Annotated[str, Field(pattern=f"^{FIGURE_NAME.pattern}$")]

# A whole float is rounded to one of 256 steps, in layer after layer: probabilities then move by hundredths.
_SCALED_BY_REQUEST = 0.05


class OutputHealth(SpecPart):
    """What is asked of every answer, whatever its kind: `fail` refuses the version, `warn` is told, `off` is not asked.

    Text has no numbers: of texts only `constant` is asked.
    """

    finite: Policy = "fail"
    """No NaN and no infinity."""
    constant: Policy = "fail"
    """Different inputs do not all get the same answer; asked where there are 8 rows or more."""
    saturation: Policy = "warn"
    """Fewer than 99 % of the numbers are at a limit: the largest of float16, or a probability of exactly 0 or 1."""
    probability_sums: Policy = "fail"
    """Scores that lie between 0 and 1 and sum to 1 do so in every row; asked where most rows, or stable's, do."""
    empty: Policy = "fail"
    """No answer has a size of 0."""
    deterministic: Policy = "fail"
    """The same request gets the same answer twice, within the tolerances."""
    batch_invariant: Policy = "fail"
    """A row is answered alone as in a batch, within the tolerances; asked where a request may have several rows."""
    probe_rows: Annotated[int, Field(ge=1, le=64)] = 8
    """So many golden rows are asked again, for the last two."""
    abs_tolerance: NotNegative = 1e-3
    rel_tolerance: NotNegative = 1e-2
    batch_abs_tolerance: NotNegative | None = None
    """Instead of `abs_tolerance` for `batch_invariant`. Left out, as that one; 0.05 where `conversion` makes int8 of
    the model and scales each request anew, for then a row's answer depends on its neighbours.
    """

    def of_scaled_requests(self) -> Self:
        """Return it for a model whose rows are rounded by the request that they come in."""
        said = self.batch_abs_tolerance is not None
        return self if said else self.filled(batch_abs_tolerance=_SCALED_BY_REQUEST)


class OtherOutputs(SpecPart):
    """What is asked of the outputs that are not scored: they are held against stable's answers to the golden rows.

    A relation that stable's outputs have to each other, such as a class that is the one with the highest score, must
    still hold; so must what an output has to do with the golden labels, and the form of its numbers. Else it must have
    to do with stable's from row to row, at nearly the same size.
    """

    policy: Policy = "fail"
    """Of an output that surely is no longer what it was; `off`: none is looked at."""
    ignore: Annotated[tuple[Text, ...], Field(max_length=64)] = ()
    """Outputs that are not looked at. Page, approval and record name them."""
    agreement_min: Share | None = None
    """Share of the rows with stable's class or text, below which it is told; left out: `agreement_min` above."""


class _Validation(SpecPart):
    """What every kind has. The label's array has one value for each row of the golden set."""

    label: Text = "label"
    """The array of the golden set with the right answers."""
    agreement_min: Share = 0.9
    """Share of golden rows that must be answered as the stable version answers them; 0: any."""
    batch_size: Count = 32
    """Golden rows per request; left out, no more than `serving.max_batch_size`. A decoupled model gets one."""
    timeout_s: Seconds = 60
    """Limit for a request; of a decoupled model, until its last response."""
    confidence: Annotated[float, Field(ge=0.5, lt=1)] = 0.95
    """Of the interval beside each figure. A limit inside it is not decided by so few rows: `inconclusive`."""
    on_inconclusive: Literal["warn", "refuse"] = "warn"
    """What follows then. `warn`: the figure itself decides, and report and page say that it is not sure. `refuse`: the
    stage ends as `inconclusive`, and the release with it.
    """
    health: OutputHealth = OutputHealth()
    other_outputs: OtherOutputs = OtherOutputs()
    slice_accuracy_min: Share | None = None
    """Share of the rows of each slice (`golden.slices`) that must be answered right; a slice that is surely below it
    fails the version. Left out: it is told alone.
    """
    slice_agreement_min: Share | None = None
    """The same of the rows that must be answered as by the stable version."""
    expectations: Annotated[tuple[Expectation, ...], Field(max_length=SUITE_LIMIT)] = ()
    """What else is expected of the answers' table, as great-expectations writes it: one row for each golden row."""
    suite: FileName | None = None
    """A file beside the release file with more of them: a suite as great-expectations writes it to JSON."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """Return the outputs that are asked for."""
        return (str(getattr(self, "output", "")),)


class ClassificationValidation(_Validation):
    """The model tells classes. The label's array has whole numbers."""

    kind: Literal["classification"] = "classification"
    output: Text = "probabilities"
    """The output that holds scores by class (rows x classes), or the predicted class itself (rows)."""
    accuracy_min: Share = 0.9
    accuracy_drop_max: Share = 0.02
    """How much lower than stable's the accuracy may be, on the same rows. What is surely lower, by the interval of the
    rows' differences, is refused although it reaches `accuracy_min`; 1: any.
    """
    class_recall_min: Share = 0.5
    """Share of the rows of each class that must be answered with it, where the stable version surely reaches it and the
    rows are enough to tell; 0: any.
    """


class RegressionValidation(_Validation):
    """The model tells a number a row. The label's array has numbers."""

    kind: Literal["regression"] = "regression"
    output: Text = "prediction"
    """The output that holds a number for each row: (rows) or (rows x 1)."""
    mae_max: NotNegative | None = None
    """Mean absolute error, in the label's unit."""
    rmse_max: NotNegative | None = None
    """Root of the mean squared error, in the label's unit: large errors count for more."""
    r2_min: Annotated[float, Field(le=1)] | None = None
    """Share of the label's variance that is explained: 1 - squared errors / squared deviations from the mean."""
    abs_tolerance: NotNegative = 0.0
    """A row agrees with stable when |candidate - stable| <= abs + rel * |stable|."""
    rel_tolerance: NotNegative = 0.05

    @model_validator(mode="after")
    def _has_a_limit(self) -> Self:
        if self.mae_max is None and self.rmse_max is None and self.r2_min is None:
            raise ValueError("`kind: regression` needs a limit: `mae_max`, `rmse_max` or `r2_min`")
        return self


class TextValidation(_Validation):
    """The model writes a text a row. The label's array has texts."""

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
    """How stable's answers are held against the candidate's. Both must decode greedily, or nothing is compared."""
    responses: Literal["join", "last"] = "join"
    """What a decoupled model's responses make: a text in pieces, or a text that the last one has in whole."""


class VectorsValidation(_Validation):
    """The model tells a vector a row, such as a sentence's embedding. Labels may be left out."""

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


class DetectionsValidation(_Validation):
    """The model finds objects in images: boxes with a score and a class. Labels may be left out."""

    kind: Literal["detections"] = "detections"
    label: Text = "label"
    """Boxes (rows x boxes x 5): x1, y1, x2, y2, class; shorter lists end with NaN. It may be missing."""
    output: Text = "detections"
    """The output that holds (rows x boxes x 6): box, score, class; or the boxes alone (rows x boxes x 4)."""
    scores_output: Text | None = None
    """Where `output` holds the boxes alone: the output with their scores (rows x boxes)."""
    classes_output: Text | None = None
    """… and the output with their classes; left out: all boxes are of class 0."""
    box_format: Literal["xyxy", "xywh", "cxcywh"] = "xyxy"
    """What four numbers say of a box: two corners, a corner and the size, or the centre and the size."""
    score_min: Share = 0.25
    """Boxes with a lower score count as not found; of the mean average precision, those below 0.05."""
    iou_min: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Two boxes are the same object from this intersection over union on."""
    map_min: Share = 0.5
    """Mean over the classes of the average precision: the area under precision over recall."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """Return the outputs that are asked for."""
        return tuple(name for name in (self.output, self.scores_output, self.classes_output) if name)


class SegmentationValidation(_Validation):
    """The model tells the class of each pixel. Labels may be left out."""

    kind: Literal["segmentation"] = "segmentation"
    label: Text = "label"
    """The class of each pixel (rows x height x width). It may be missing."""
    output: Text = "masks"
    """The output that holds scores (rows x classes x height x width), classes (rows x height x width), or the
    probability of one class (rows x 1 x height x width).
    """
    ignore_label: int | None = None
    """Pixels with this label are not looked at, such as 255."""
    iou_min: Share = 0.5
    """Mean over the rows of the mean intersection over union of the classes that label or answer show."""


class RankingValidation(_Validation):
    """The model scores documents for a question. Labels may be left out."""

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


class FigureLimit(SpecPart):
    """What a figure of the scorer must be: at least `min`, at most `max`, or both."""

    min: float | None = None
    max: float | None = None
    against_stable: bool = False
    """The figure compares with the stable version: it is asked only where one is live."""

    @model_validator(mode="after")
    def _has_a_limit(self) -> Self:
        if self.min is None and self.max is None:
            raise ValueError("a figure needs `min` or `max`")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"`min: {self.min:g}` is above `max: {self.max:g}`")
        return self


class Scoring(PodSettings):
    """The pod in which the scorer runs."""

    image: ImageReference = "slipway/score:0.1.0"
    """NumPy and the S3 client; an image of your own, built on it, may hold more."""
    timeout_s: Annotated[int, Field(ge=1, le=3600)] = 300
    """How long the scorer may take, its bootstrap included."""


class CustomValidation(_Validation):
    """The model's answers are scored by a program of the user's own, in a pod. Labels may be left out."""

    kind: Literal["custom"] = "custom"
    label: Text = "label"
    """What the scorer is given as labels: any array with the rows first. It may be missing."""
    output: Text
    """The output that the scorer is given, and that output health looks at."""
    more_outputs: tuple[Text, ...] = ()
    """Further outputs that the scorer is given."""
    scorer: FileName
    """A Python file beside the release file, with a function `score(inputs, labels, answers, stable)`."""
    figures: dict[FigureName, FigureLimit] = Field(min_length=1, max_length=NAMES_LIMIT)
    """By name: the limits of the means of the scores by row, and of what the scorer's `figures(scores)` returns."""
    scoring: Scoring = Scoring()

    @property
    def outputs(self) -> tuple[str, ...]:
        """Return the outputs that are asked for."""
        return (self.output, *self.more_outputs)


def _kind_of(value: Any) -> Any:
    """Tell the classes apart by `kind`; a file that names none means classification."""
    if isinstance(value, Mapping):
        return value.get("kind", "classification")
    return getattr(value, "kind", None)


Validation = Annotated[
    Annotated[ClassificationValidation, Tag("classification")]
    | Annotated[RegressionValidation, Tag("regression")]
    | Annotated[TextValidation, Tag("text")]
    | Annotated[VectorsValidation, Tag("vectors")]
    | Annotated[DetectionsValidation, Tag("detections")]
    | Annotated[SegmentationValidation, Tag("segmentation")]
    | Annotated[RankingValidation, Tag("ranking")]
    | Annotated[CustomValidation, Tag("custom")],
    Discriminator(_kind_of),
]
"""What the golden set must show, by kind."""

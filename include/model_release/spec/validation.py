"""The release file's `validation`: what the golden set must show on staging, by the kind of the model's answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from include.model_release.spec.parts import Count, Seconds, Share, SpecPart, Text

NotNegative = Annotated[float, Field(ge=0)]
TextMatch = Literal["exact", "normalized", "contains", "prefix", "token_f1"]


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


class ClassificationValidation(_Validation):
    """The model tells classes. The label's array has whole numbers."""

    kind: Literal["classification"] = "classification"
    output: Text = "probabilities"
    """The output that holds scores by class (rows x classes), or the predicted class itself (rows)."""
    accuracy_min: Share = 0.9


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


def _kind_of(value: Any) -> Any:
    """Tell the classes apart by `kind`; a file that names none means classification."""
    if isinstance(value, Mapping):
        return value.get("kind", "classification")
    return getattr(value, "kind", None)


Validation = Annotated[
    Annotated[ClassificationValidation, Tag("classification")]
    | Annotated[RegressionValidation, Tag("regression")]
    | Annotated[TextValidation, Tag("text")],
    Discriminator(_kind_of),
]
"""What the golden set must show, by kind."""

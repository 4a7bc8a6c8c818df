"""Validation by a scorer of the user's own: its figures, their intervals, and the limits of the release file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from slipway_core.errors import SpecError
from slipway_core.gates.interval import Interval
from slipway_core.gates.validation.golden_labels import LabelRules
from slipway_core.gates.validation.golden_set import GoldenSet
from slipway_core.gates.validation.kind import ExamplesTable, ValidationKind, validation_kind
from slipway_core.gates.validation.scores import (
    WORST_EXAMPLES,
    Array,
    ValidationScores,
    every_row,
    mean,
    mean_between,
    number,
)
from slipway_core.gates.validation.scoring.returned import FigureName, Returned, ReturnedFigure
from slipway_core.spec.parts import FileName, ImageReference, SpecPart, Text
from slipway_core.spec.pods.settings import PodSettings
from slipway_core.written_numbers import amount
from slipway_core.written_numbers import number as written
from slipway_rules.scoring import NAMES_LIMIT

_AGREES = "agrees"


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


@validation_kind
class CustomValidation(ValidationKind):
    """The model's answers are scored by a program of the user's own, in a pod. Labels may be left out."""

    labels: ClassVar[LabelRules] = LabelRules(
        "numbers or texts [rows, …]", "biufSU", (1, 2, 3, 4, 5), optional=True, padded=True, scored_as=None
    )
    examples: ClassVar[ExamplesTable] = ExamplesTable(
        "The rows with the worst of the first score that has a limit.",
        (("Golden row#", "row"), ("Label", "label"), ("Figure", "figure"), ("Score#", "score")),
    )

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

    def score(self, golden: GoldenSet, answers: Array, stable_answers: Array | None) -> CustomScores:
        """Raise SpecError: a pod scores these answers, by the scorer."""
        raise SpecError(
            "answers of `validation.kind: custom` are scored by its scorer, in a pod",
            expected="another `validation.kind`, which needs no pod",
            remedy="Ask for the answers to be scored by the stage `validate`.",
        )


@dataclass(frozen=True, kw_only=True)
class CustomScores(ValidationScores):
    """The columns are the scores by row, and each further figure in every row.

    :ivar found: every figure by name: the means of the scores, and those that the scorer reckoned.
    :ivar asked: the limits that are asked of this version.
    :ivar compared: whether the stable version was asked as well.
    """

    found: Mapping[str, float | None]
    asked: Mapping[str, FigureLimit]
    bootstrapped: Mapping[str, Interval | None]
    compared: bool
    validation: CustomValidation

    def suite(self) -> list[dict[str, Any]]:
        """Expect each figure within its limits; one that the scorer did not return is not."""
        suite = [every_row(self.rows)]
        suite += [
            mean_between(name, f"`{name}` is {_limit_in_words(limit)}", least=limit.min, most=limit.max)
            for name, limit in self.asked.items()
        ]
        if self.compared and _AGREES in self.found:
            least = self.validation.agreement_min
            meaning = f"at least {least:.1%} of the rows are answered as by the stable version"
            suite.append(mean_between(_AGREES, meaning, least=least, most=1.0))
        return suite

    def figures(self) -> dict[str, Any]:
        """Return every figure beside its limits."""
        figures: dict[str, Any] = {"rows": self.rows, "agreement": self.agreement}
        if self.agreement is not None:
            figures["agreement_min"] = self.validation.agreement_min
        # A score that is called as one of these does not take its place.
        return {**{name: value for name, value in self.found.items() if name != _AGREES}, **figures}

    def words(self) -> str:
        """Say each figure that has a limit."""
        figures = [
            f"{name} {written(value, 4)}" if (value := self.found.get(name)) is not None else f"no {name}"
            for name in self.asked
        ]
        return f"{', '.join(figures)} over {self.rows} rows"

    def details(self) -> dict[str, Any]:
        """Return the figures for the page, those with limits first."""
        names = [*self.asked, *(name for name in self.found if name not in self.asked)]
        return {
            "scored": [
                {
                    "figure": name,
                    "value": self.found.get(name),
                    "limit": _limit_in_words(self.asked[name]) if name in self.asked else None,
                }
                for name in names
                if name != _AGREES
            ]
        }

    def intervals(self) -> Mapping[str, Interval | None]:
        """Return the intervals of the figures that are no means; None: too few samples."""
        return self.bootstrapped


def custom_scores(
    golden: GoldenSet, returned: Returned, validation: CustomValidation, *, compared: bool
) -> CustomScores:
    """Return what a scorer returned as scores.

    :param compared: whether the stable version was asked as well.
    """
    found = {name: mean(values) for name, values in returned.scores.items()}
    found |= {name: figure.value for name, figure in returned.figures.items()}
    columns: dict[str, list[Any]] = {
        name: [number(value) for value in values] for name, values in returned.scores.items()
    }
    columns |= {name: [figure.value] * golden.rows for name, figure in returned.figures.items()}
    asked = {
        name: limit for name, limit in validation.figures.items() if compared or not limit.against_stable
    }
    return CustomScores(
        rows=golden.rows,
        agreement=found.get(_AGREES) if compared else None,
        columns=columns,
        worst=_worst(golden, returned, asked),
        validation=validation,
        found=found,
        asked=asked,
        compared=compared,
        bootstrapped={name: _interval(figure) for name, figure in returned.figures.items()},
    )


def _interval(figure: ReturnedFigure) -> Interval | None:
    if figure.low is None or figure.high is None:
        return None
    return Interval(figure.low, figure.high, "bootstrap")


def _worst(
    golden: GoldenSet, returned: Returned, asked: Mapping[str, FigureLimit]
) -> tuple[dict[str, Any], ...]:
    """Show the rows with the worst of the first score that has a limit."""
    name = next((one for one in asked if one in returned.scores), None)
    if name is None:
        return ()
    values = returned.scores[name]
    order = np.argsort(values if asked[name].min is not None else -values, kind="stable")
    plain = golden.has_labels and golden.labels.ndim == 1
    return tuple(
        {
            "row": row,
            "label": str(golden.labels[row])[:80] if plain else None,
            "figure": name,
            "score": number(values[row]),
        }
        for row in order[:WORST_EXAMPLES].tolist()
    )


def _limit_in_words(limit: FigureLimit) -> str:
    limits = [
        f"{words} {amount(value)}"
        for words, value in (("at least", limit.min), ("at most", limit.max))
        if value is not None
    ]
    return " and ".join(limits)

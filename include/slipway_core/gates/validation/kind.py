"""What a kind of answers is: the keys of `validation` in the release file, and all that follows from them.

To add one, copy a file of `slipway_core.gates.validation.kinds`; docs/development.md says the rest.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from slipway_core.errors import SpecError, ValidationRefusedError
from slipway_core.gates.validation.golden_labels import LabelRules
from slipway_core.gates.validation.golden_set import GoldenSet
from slipway_core.gates.validation.scores import Array, ValidationScores
from slipway_core.spec.validation import Validation


@dataclass(frozen=True)
class ExamplesTable:
    """The page's table of single answers, the scores' `worst`.

    :ivar order: in which order they are, in words.
    :ivar columns: heading and key of each; a heading that ends with # is one of numbers.
    :ivar stable_is_number: whether the stable version's answer, the column behind these, is a number.
    """

    order: str
    columns: tuple[tuple[str, str], ...]
    stable_is_number: bool = True


@dataclass(frozen=True)
class PageFigure:
    """A figure on the page that the scores do not caption themselves, by its name in the report's `numbers`.

    :ivar caption: what people call it; `{KEY}` stands for another of the `numbers`.
    :ivar column: that of the answers' table whose mean it is.
    :ivar limit: the limit's name in `numbers`; None: of a share, its own name and `_min`.
    :ivar words: on which side of the limit it must be; "": it is a share, 0 to 1.
    :ivar is_root: whether it is the root of the column's mean.
    """

    name: str
    caption: str
    column: str
    limit: str | None = None
    words: Literal["", "at least", "at most"] = ""
    is_root: bool = False


class ValidationKind(Validation, ABC):
    """A kind of answers. A subclass has the keys that only this kind has, and how the answers are scored."""

    required: ClassVar[tuple[str, ...]] = ("labels", "examples")
    labels: ClassVar[LabelRules]
    """What the right answers in the golden set are."""
    examples: ClassVar[ExamplesTable]
    page_figures: ClassVar[tuple[PageFigure, ...]] = ()
    """For the page: agreement aside, and those aside that the scores caption in their details."""
    first_limits: ClassVar[tuple[str, ...]] = ()
    """Lines below `validation:` that `slipway init` writes, each with a comment."""
    pads_answers: ClassVar[bool] = False
    """Whether NaN fills up the answer to a row, so that NaN in it is not a broken answer."""
    asked_again: ClassVar[bool] = True
    """Whether some golden rows are asked again, to see that answers depend on nothing else: not of texts."""

    @abstractmethod
    def score(self, golden: GoldenSet, answers: Array, stable_answers: Array | None) -> ValidationScores:
        """Score the answers to all golden rows, against the labels and against the stable version's.

        :param answers: rows first.
        :param stable_answers: None if there is no stable version to compare with.
        :raises ValidationRefusedError: rows are missing.
        :raises SpecError: the output is not of this kind.
        :raises GoldenSetError: the labels cannot show what is asked for.
        """

    def answer(self, arrays: Mapping[str, Array]) -> Array:
        """Return what one request was answered with, out of an array for each of `outputs`, rows first."""
        return arrays[self.output]

    def gather(self, responses: Sequence[Sequence[Array]]) -> Array:
        """Return one answer for each request out of its responses, as a decoupled model sends them.

        :param responses: of each request the arrays of `output`, in the order of their arrival. The last one counts,
            which has the request's rows.
        :raises ValidationRefusedError: a request has no response.
        :raises SpecError: a response is not of this kind.
        """
        empty = [number for number, arrays in enumerate(responses) if not arrays]
        if empty:
            raise ValidationRefusedError(
                "the server did not answer every golden row",
                expected=f"a response with `{self.output}` to each request",
                found=f"none to {len(empty)} of {len(responses)}, the first of them number {empty[0]}",
                remedy="Look at the staging server's log.",
            )
        return np.concatenate([arrays[-1] for arrays in responses])


validation_kind = Validation.registry.register
"""Adds a kind of answers: the decorator of its class."""


def kind_of(validation: Validation) -> ValidationKind:
    """Return the release file's `validation` as the kind that it is.

    :raises SpecError: it is no kind that answers can be scored by.
    """
    if not isinstance(validation, ValidationKind):
        raise SpecError(
            "these answers cannot be scored",
            expected=f"`validation.kind` of {', '.join(Validation.registry.names())}",
            found=type(validation).__name__,
            remedy="Take one of these kinds.",
        )
    return validation

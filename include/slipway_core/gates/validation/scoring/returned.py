"""What a scorer's pod returned: read as what somebody else wrote."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from slipway_core.documents.document_form import first_problem
from slipway_core.errors import GoldenSetError, UserError
from slipway_core.gates.validation.npz import read_arrays
from slipway_core.gates.validation.scores import Array
from slipway_core.value_types import Sha256
from slipway_rules.scoring import FIGURE_NAME, NAMES_LIMIT, SCORES_FILE, SCORES_LIMIT_BYTES

FigureName = Annotated[str, Field(pattern=f"^{FIGURE_NAME.pattern}$")]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class ReturnedFigure(_Part):
    """A figure that is no mean over the rows, and its interval by the bootstrap; None: too few samples."""

    value: float | None
    low: float | None = None
    high: float | None = None
    samples: Annotated[int, Field(ge=0)] = 0

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError(f"an interval from {self.low:g} to {self.high:g}")
        return self


class _Scores(_Part):
    sha256: Sha256


class _Result(_Part):
    rows: Annotated[int, Field(ge=1)]
    given_sha256: Sha256
    figures: Annotated[dict[FigureName, ReturnedFigure], Field(max_length=NAMES_LIMIT)]
    scores: _Scores


@dataclass(frozen=True)
class Returned:
    """The scores by row, NaN where a row has none; further figures by name; and for what they were made."""

    scores: Mapping[str, Array]
    figures: Mapping[str, ReturnedFigure]
    given_sha256: str


def read_returned(result: Mapping[str, Any], scores: bytes, rows: int) -> Returned:
    """Return what a scorer's pod returned for a golden set of so many rows.

    :param result: its `result.json`.
    :param scores: its `scores.npz`.
    :raises UserError: it is of another form than the pod's program writes.
    """
    try:
        read = _Result.model_validate(result)
        arrays = read_arrays(scores, SCORES_FILE, limit_bytes=SCORES_LIMIT_BYTES)
    except ValidationError as error:
        raise _other_form(first_problem(error)) from error
    except GoldenSetError as error:
        raise _other_form(error.found or error.what) from error
    if read.rows != rows or read.scores.sha256 != hashlib.sha256(scores).hexdigest():
        raise _other_form(f"{read.rows} rows, or scores of another run")
    for name, values in arrays.items():
        if values.shape != (rows,) or values.dtype.kind != "f" or not FIGURE_NAME.fullmatch(name):
            raise _other_form(f"{name[:80]!r}: {values.dtype} of shape {list(values.shape)}")
        if np.isinf(values).any():
            raise _other_form(f"{name!r}: an infinite score")
    if not 1 <= len(arrays) <= NAMES_LIMIT or arrays.keys() & read.figures.keys():
        raise _other_form(f"{len(arrays)} scores, or a figure with the name of one")
    return Returned(arrays, read.figures, read.given_sha256)


def _other_form(found: str) -> UserError:
    return UserError(
        "what the scorer's pod returned has another form than it should",
        expected="result.json and scores.npz as score_answers.py writes them",
        found=found,
        remedy="See which image ran, and who writes to the release's evidence.",
    )

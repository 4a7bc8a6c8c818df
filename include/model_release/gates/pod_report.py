"""The result.json of a gate's pod, read into a typed report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from include.model_release.document_form import first_problem
from include.model_release.errors import SlipwayError

M = TypeVar("M", bound=BaseModel)


def parse_report(model: type[M], value: Mapping[str, Any] | str | bytes, *, pod: str, expected: str) -> M:
    """Return the report that a pod wrote.

    :param value: result.json, parsed or as it lies in the bucket.
    :param pod: what the error calls the pod and its image.
    :param expected: the fields that the report has.
    :raises SlipwayError: it is not such a report. The fault is the pod's.
    """
    try:
        if isinstance(value, str | bytes):
            return model.model_validate_json(value)
        return model.model_validate(value)
    except ValidationError as error:
        raise SlipwayError(
            f"the {pod}'s result.json cannot be read",
            expected=expected,
            found=first_problem(error),
            remedy=f"Use a {pod} image that fits this release of the project.",
        ) from error

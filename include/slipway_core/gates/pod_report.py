"""The result.json of a gate's pod, read into a typed report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from slipway_core.documents.document_form import first_problem
from slipway_core.errors import SlipwayError

M = TypeVar("M", bound=BaseModel)
RESULT_LIMIT_BYTES = 64 << 20
"""A pod may write what it likes: a larger result is not read."""


def pod_result(value: object, uri: str) -> Mapping[str, Any]:
    """Return a pod's result.json, of which no more is known than whether it tells of an error.

    :param value: its JSON value.
    :raises SlipwayError: it has another form. The fault is the pod's.
    """
    if isinstance(value, dict) and isinstance(value.get("error", ""), dict | None):
        return value
    raise SlipwayError(
        f"{uri} is not a result of a pod of this project",
        expected="a mapping whose `error` is null or a mapping",
        found=f"{str(value)[:200]!r}",
        remedy="Use an image that fits this release of the project; see who writes to the release's evidence.",
    )


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

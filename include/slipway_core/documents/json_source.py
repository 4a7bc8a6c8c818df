"""JSON from outside: invalid JSON raises one of the project's own errors."""

from __future__ import annotations

import json
from typing import Any

from slipway_core.errors import UserError

_FOUND_LIMIT = 200


def parse_json(content: bytes | str, name: str) -> Any:
    """Return the JSON value in `content`; `name` is what an error calls it.

    Raises UserError for what is no JSON, is not UTF-8, is nested too deeply or has a number of thousands of digits.
    """
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise UserError(
            f"{name} cannot be read",
            expected="JSON",
            found=str(error)[:_FOUND_LIMIT],
            remedy="Find out who writes it; the last write may have been cut off.",
        ) from error

"""What was in front of a person who decided something: addresses, with the digests of what lay there then."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from slipway_core.value_types import Sha256

SHOWN_LIMIT = 30


class Shown(BaseModel):
    """A page, a verdict or an event as a person could see it: `address` is its `s3://` address."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    address: Annotated[str, Field(min_length=1, max_length=2000)]
    sha256: Sha256


def nothing_shown(value: object) -> bool:
    """Return whether nothing was in front of the person; then a document does not mention it."""
    return not value


# JSON has lists in place of tuples.
ShownThen = Annotated[tuple[Shown, ...], Field(strict=False, max_length=SHOWN_LIMIT)]

"""The release file's `retention`: which published versions keep their files when old ones are deleted."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from slipway_core.spec.parts import SpecPart


class Retention(SpecPart):
    """Which versions `repository_gc` keeps. What is live, was live before it, is pinned or is named anywhere is always
    kept; evidence and records are never deleted.
    """

    keep_promoted: Annotated[int, Field(ge=1, le=1000)] = 5
    """How many of the newest promoted versions that were not rolled back are kept."""
    keep_days: Annotated[int, Field(ge=1, le=3650)] = 30
    """How many days each version is kept after it was published, was last live, or its record was last written."""

"""The release file's `rollout.mirror_comparison`: copies of users' requests, asked of both versions.

It takes place while the candidate is shown at 0 percent, before its first percent of users.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from slipway_core.spec.parts import Count, ImageReference, Percent, Share, Text
from slipway_core.spec.pods.settings import PodSettings


class MirrorComparison(PodSettings):
    """The pod that takes what the router mirrors, sends it to stable and candidate, and compares the answers.

    `timeout_s` is how long it waits for requests. Stable answers the mirrored share of its requests twice.
    """

    image: ImageReference = "slipway/mirror-comparison:0.1.0"
    requests: Count = 200
    """Requests to compare; fewer than these are `inconclusive`, unless they are enough to refuse."""
    required: bool = False
    """Whether an inconclusive comparison refuses the version; otherwise it is recorded and the release continues."""
    output: Text | None = None
    """The output that shows the class, among those that users ask for; default: `validation.output`."""
    abs_tolerance: Annotated[float, Field(ge=0)] | None = None
    """Default: that of `conversion.parity`. An element is equal when |a - b| <= abs + rel * |a|, a stable's."""
    rel_tolerance: Annotated[float, Field(ge=0)] | None = None
    """Default: that of `conversion.parity`."""
    agreement_min: Share | None = None
    """Share of rows that must get the same class as from stable; default: `validation.agreement_min` of
    `kind: classification`, else 0: any.
    """
    error_percent_max: Percent = 0.0
    """Requests on which the candidate may fail where stable answers."""
    differ_percent_max: Percent | None = None
    """Answers that may differ beyond the tolerances; null: any number, as they are only evidence."""
    concurrency: Annotated[int, Field(ge=1, le=64)] = 4
    """Requests in flight to both versions at a time, which limits the load added to stable."""

"""The release file's `revalidation`: whether and how what is live is looked at again, day by day."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from slipway_core.spec.parts import Seconds, Share, SpecPart

GOLDEN_ROWS_LIMIT = 1000
"""So many of the golden set's first rows have their answers kept at a release."""

_OWN_PREFIXES = ("models/", "records/", "operations/", "staging/", "work/", "incoming/")


def _prefix(text: str) -> str:
    if not text.endswith("/") or text.startswith(("/", *_OWN_PREFIXES)) or "//" in text or len(text) > 500:
        raise ValueError(
            "must be a prefix of the bucket that ends with a slash, such as recorded/digits/, and none of Slipway's own"
        )
    return text


OnDrift = Literal["notify", "roll_back"]


class Revalidation(SpecPart):
    """What `model_revalidation` asks of the version that is live, and what follows where it is not as it was."""

    enabled: bool = True
    """False: `model_revalidation` skips the model, and says so."""
    on_drift: OnDrift = "notify"
    """`roll_back`: what is live and not what was released any more is also left for the version before it, where that
    one is good; by `model_rollback`, once for each finding."""
    golden_rows: Annotated[int, Field(ge=1, le=GOLDEN_ROWS_LIMIT)] = 256
    """How many of the golden set's first rows are sent to the live version, one request after the other."""
    agreement_min: Share = 0.99
    """Share of these rows that must be answered as when the version was released."""
    latency_ratio_max: Annotated[float, Field(ge=1, le=1000)] = 3.0
    """How many times the median latency of the version's first check the median may be…"""
    latency_slack_ms: Annotated[float, Field(ge=0, le=3_600_000)] = 50.0
    """… or how far above it, whichever is more."""
    config_reads: Annotated[int, Field(ge=1, le=100)] = 5
    """How often the live servers' configuration is read, each time over a new connection: behind a load
    balancer another server may answer."""
    timeout_s: Seconds = 30
    """Limit for one request to the live version."""
    recorded_requests: Annotated[str, AfterValidator(_prefix)] | None = None
    """The prefix in the bucket below which requests of users are recorded, as `.npz` files with an array for each
    input, rows first. Default: inputs are not compared."""
    input_distance_max: Share = 0.25
    """How far an input's values may be from the golden set's: the Kolmogorov-Smirnov statistic."""
    unchecked_runs: Annotated[int, Field(ge=1, le=100)] = 3
    """After so many runs in a row in which something could not be checked, that becomes a separate finding."""

"""The release file's `rollout.metrics`: where the judge's numbers come from."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field

from slipway_core.kind_registry import KindRegistry
from slipway_core.spec.chosen_part import ChosenPart

DEFAULT_UNANSWERED_AFTER_S = 30.0


class Metrics(ChosenPart):
    """What every source has; the sources lie in `slipway_core.metrics.sources`."""

    registry: ClassVar[KindRegistry[Any]] = KindRegistry(
        "metrics source",
        folder="slipway_core.metrics.sources",
        base="slipway_core.metrics.source_kind:MetricsSourceKind",
        name_attribute="source",
        group="slipway.metrics_sources",
    )
    chosen_by: ClassVar[str] = "source"
    default_choice: ClassVar[str] = "scrape"
    sees_users_only: ClassVar[bool] = False
    """Whether requests to a revision's own URL are never counted, regardless of the release file."""
    # A subclass narrows it to its own name.
    source: str
    timeout_s: Annotated[float, Field(gt=0, le=120)] = 10.0
    """How long one reading may take in total."""
    unanswered_after_s: Annotated[float, Field(ge=1, le=3600)] = DEFAULT_UNANSWERED_AFTER_S
    """An HTTP request that is active for longer counts as unanswered: more than the slowest good answer takes."""

    @property
    def grpc_blindness(self) -> str | None:
        """Return why gRPC errors would clearly not be counted, and what to do; None: they are, or it is not known."""
        return None

    @property
    def counts_stream_errors(self) -> bool:
        """Return whether errors inside streams are counted, as the release file has it."""
        return False

    def in_words(self) -> str:
        """Return the source as it stands in the release file."""
        return f"`{self.source}`"

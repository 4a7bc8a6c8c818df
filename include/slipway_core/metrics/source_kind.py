"""What a metrics source is in the release file: its keys, and what it sees.

What reads it lies in `slipway.metrics.sources`, under the same name. To add one, copy a file of each folder;
docs/development.md says the rest.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from slipway_core.errors import SpecError
from slipway_core.metrics.visibility import Visibility
from slipway_core.spec.rollout.metrics import Metrics


class MetricsSourceKind(Metrics, ABC):
    """A metrics source. A subclass has the keys that only this source has."""

    @abstractmethod
    def sees(self) -> Visibility:
        """Return what the source sees, as its keys have it."""


metrics_source_kind = Metrics.registry.register
"""Adds a metrics source: the decorator of its class."""


def visibility_of(metrics: Metrics) -> Visibility:
    """Return what the release file's metrics source sees.

    :raises SpecError: it is no source that anything is known of.
    """
    if not isinstance(metrics, MetricsSourceKind):
        raise SpecError(
            "what this metrics source sees is not known",
            expected=f"`rollout.metrics.source` of {', '.join(Metrics.registry.names())}",
            found=type(metrics).__name__,
            remedy="Take one of these sources.",
        )
    return metrics.sees()

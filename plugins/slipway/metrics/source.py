"""Where the judge's numbers come from: one protocol, and the source that a release asks for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import ClassVar, Protocol, Self, runtime_checkable

from slipway.metrics.connection import DEFAULT_METRICS_CONN_ID
from slipway_core.kind_registry import KindRegistry
from slipway_core.metrics.samples import Reading
from slipway_core.spec.release_file import ReleaseSpec


class MetricsSource(Protocol):
    """What can be read of revisions under live traffic.

    `interval_s` is how often reading makes sense, and `lag_s` how old the newest data may be, in seconds.
    """

    interval_s: float
    lag_s: float

    def read(self, revisions: Iterable[str]) -> Mapping[str, Reading]:
        """One reading of each revision. It blocks, within its own limit: call it in a thread.

        :raises MetricsUnavailableError: the source is down, slow, refuses, or gives what is partial, stale or
            no count. It never gives a reading without counts for want of an answer.
        """


@runtime_checkable
class StreamCounting(Protocol):
    """A source that can tell streams from other requests."""

    def streams_seen(self, namespace: str, inference_service: str) -> int:
        """Return how many streams users have begun at an InferenceService. It blocks, as `read` does.

        :raises MetricsUnavailableError: the source cannot tell now.
        """


class MetricsReader(ABC):
    """A metrics source that can be read: it is made of a release file and of an Airflow connection."""

    required: ClassVar[tuple[str, ...]] = ("name", "interval_s")
    name: ClassVar[str]
    """What `rollout.metrics.source` calls it."""
    interval_s: float
    lag_s: float

    @classmethod
    @abstractmethod
    def of(cls, spec: ReleaseSpec, metrics_conn_id: str) -> Self:
        """Return the source of a release, behind the connection, which is looked up.

        :raises UserError: the connection cannot be used.
        """

    @abstractmethod
    def read(self, revisions: Iterable[str]) -> Mapping[str, Reading]:
        """Return one reading of each revision, as `MetricsSource` says."""


READERS: KindRegistry[MetricsReader] = KindRegistry(
    "reader of a metrics source",
    folder="slipway.metrics.sources",
    base="slipway.metrics.source:MetricsReader",
    name_attribute="name",
    group="slipway.metrics_readers",
)


def metrics_source(spec: ReleaseSpec, metrics_conn_id: str = DEFAULT_METRICS_CONN_ID) -> MetricsSource:
    """The source that the release file names, behind the connection.

    It looks the connection up, so make it where `BaseHook.get_connection` may be called.

    :raises UserError: the connection cannot be used.
    :raises UnknownKindError: nothing reads this source.
    """
    return READERS.get(spec.rollout.metrics.source).of(spec, metrics_conn_id)

"""Samples as Prometheus reads them: by its own client library, each time in a registry of their own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from prometheus_client import CollectorRegistry, write_to_textfile
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from slipway_core.monitoring.families import FAMILIES, Family, Sample

_UNITS = ("seconds", "ratio")


class _Samples(Collector):
    """The samples as the library wants them: those of a family together."""

    def __init__(self, samples: Iterable[Sample]) -> None:
        self._by_family: dict[str, list[Sample]] = {}
        for sample in samples:
            self._by_family.setdefault(sample.family.name, []).append(sample)

    def collect(self) -> Iterator[Metric]:
        """Yield each family that has samples."""
        for family in FAMILIES:
            found = self._by_family.get(family.name)
            if found:
                metric = _metric(family)
                for sample in found:
                    metric.add_metric(list(sample.labels.values()), sample.value)
                yield metric


def exposed(samples: Iterable[Sample], accept: str) -> tuple[bytes, str]:
    """Return the text of the samples and its content type.

    :param accept: what the client takes, as its header says: OpenMetrics where it is named, else Prometheus' text.
    """
    encode, content_type = choose_encoder(accept)
    return encode(_registry(samples)), content_type


def write_textfile(path: Path, samples: Iterable[Sample]) -> None:
    """Write the samples for node_exporter's textfile collector; whoever reads it sees the old file or the new one."""
    write_to_textfile(str(path), _registry(samples))


def _registry(samples: Iterable[Sample]) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(_Samples(samples))
    return registry


def _metric(family: Family) -> CounterMetricFamily | GaugeMetricFamily:
    unit = next((unit for unit in _UNITS if family.name.endswith(f"_{unit}")), "")
    kind = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
    return kind(family.name, family.help_text, labels=list(family.labels), unit=unit)

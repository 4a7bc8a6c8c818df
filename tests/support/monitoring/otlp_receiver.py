"""A server that takes metrics over OpenTelemetry's protocol (OTLP, HTTP), as a collector does."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric

from tests.support.http_server import QuietHandler, http_server

Tags = frozenset[tuple[str, str]]


@dataclass
class OtlpReceiver:
    """What has arrived: for each metric and its tags the newest value; of a histogram the sum of its values."""

    port: int
    values: dict[tuple[str, Tags], float] = field(default_factory=dict)

    def value(self, name: str, **tags: str) -> float | None:
        """Return the newest value of a metric with exactly these tags; None: none has arrived."""
        return self.values.get((name, frozenset(tags.items())))

    def take(self, body: bytes) -> None:
        """Read what an exporter sends."""
        request = ExportMetricsServiceRequest.FromString(body)
        for resource in request.resource_metrics:
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    self._take(metric)

    def _take(self, metric: Metric) -> None:
        kind = metric.WhichOneof("data")
        for point in getattr(metric, kind).data_points:
            tags = frozenset((one.key, one.value.string_value) for one in point.attributes)
            if kind in ("histogram", "exponential_histogram"):
                value = point.sum
            else:
                value = float(getattr(point, point.WhichOneof("value")))
            self.values[metric.name, tags] = value


@contextmanager
def running_otlp_receiver() -> Iterator[OtlpReceiver]:
    """A receiver on loopback, while the context lasts."""

    class Handler(QuietHandler):
        def respond(self) -> None:
            body = self.body()
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            receiver.take(body)
            answer = ExportMetricsServiceResponse().SerializeToString()
            self.answer(200, answer, "application/x-protobuf")

    with http_server(Handler) as port:
        receiver = OtlpReceiver(port)
        yield receiver

"""A double of Prometheus's HTTP API that answers plain selectors, and the hook on it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from slipway.metrics.sources.prometheus import PrometheusMetricsHook
from slipway_core.metrics.queries import QuerySet
from tests.support.plugins.http_double import Answer, HttpRequest, metrics_server

NOW = 10_000.0


def series(name: str, *values: tuple[float, str], **labels: str) -> dict[str, Any]:
    """A series as the API shows it: values are (seconds ago, value)."""
    samples = [[NOW - ago, value] for ago, value in values]
    return {"metric": {"__name__": name, **labels}, "values": samples}


@dataclass
class Prometheus:
    """Answers queries with the series whose name they begin with and whose labels they hold."""

    series: list[dict[str, Any]] = field(default_factory=list)
    more: dict[str, Any] = field(default_factory=dict)
    asked: list[Mapping[str, str]] = field(default_factory=list)
    is_of: Callable[[dict[str, Any], str], bool] | None = None

    def __call__(self, asked: HttpRequest) -> Answer:
        assert (asked.method, asked.path) == ("POST", "/api/v1/query")
        query, is_of = asked.form["query"], self.is_of or self._is_of
        self.asked.append(asked.form)
        if query == "time()":
            data: dict[str, Any] = {"resultType": "scalar", "result": [NOW, str(NOW)]}
        else:
            data = {"resultType": "matrix", "result": [one for one in self.series if is_of(one, query)]}
        return Answer(body=json.dumps({"status": "success", "data": data, **self.more}))

    @staticmethod
    def _is_of(one: dict[str, Any], query: str) -> bool:
        wanted = dict(part.split("=") for part in query[query.index("{") + 1 : query.index("}")].split(","))
        return query.startswith(one["metric"]["__name__"] + "{") and all(
            f'"{one["metric"].get(label)}"' == value for label, value in wanted.items()
        )


Connect = Callable[..., PrometheusMetricsHook]


@contextmanager
def connected(
    prometheus: Prometheus, monkeypatch: pytest.MonkeyPatch, queries: QuerySet
) -> Iterator[Connect]:
    """What makes the hook on that Prometheus, or on what answers in its place."""
    asked = queries
    with metrics_server() as server:

        def make(
            answer: Callable[[HttpRequest], Answer] | None = None,
            queries: QuerySet = asked,
            timeout_s: float = 10.0,
            **fields: Any,
        ) -> PrometheusMetricsHook:
            server.answer = answer or prometheus
            connection = {"conn_type": "http", "host": server.url, "password": "s3cret-token", **fields}
            monkeypatch.setenv("AIRFLOW_CONN_PROMETHEUS", json.dumps(connection))
            return PrometheusMetricsHook(
                "prometheus",
                queries,
                {"namespace": "models", "model": "digits", "inference_service": "digits"},
                lookback_s=60,
                staleness_s=45,
                timeout_s=timeout_s,
            )

        yield make

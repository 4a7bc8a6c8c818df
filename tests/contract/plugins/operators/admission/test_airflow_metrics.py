"""Airflow's own metrics of a release, sent by Airflow's exporter to a server that takes OpenTelemetry's protocol."""

from __future__ import annotations

import atexit
import socket
from collections.abc import Callable, Iterator

import pytest
from airflow.sdk._shared.observability.metrics.base_stats_logger import NoStatsLogger
from airflow.sdk._shared.observability.metrics.otel_logger import flush_otel_metrics
from airflow.sdk.observability import stats
from airflow.sdk.observability.metrics import stats_utils

from slipway.airflow_stats import AirflowStats
from slipway.hooks.s3_store import ModelStoreHook
from slipway.release_record import record as record_module
from slipway_sandbox.host.ports import LOOPBACK
from tests.support.monitoring.otlp_receiver import OtlpReceiver, running_otlp_receiver
from tests.support.release.admission import Admit, conclude, record

ENDPOINT = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"


def begin_as_a_task_does() -> None:
    """Make Airflow's metrics as its task runner makes them, by the options of `[metrics]`."""
    stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=True)


@pytest.fixture
def exported_to(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Has Airflow's metrics sent to an address; they are off again afterwards."""

    def export(endpoint: str) -> None:
        monkeypatch.setenv("AIRFLOW__METRICS__OTEL_ON", "True")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
        monkeypatch.setenv(ENDPOINT, endpoint)
        # What is sent is sent by the flush below.
        monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "3600000")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "2")
        begin_as_a_task_does()

    yield export
    stats.initialize(factory=NoStatsLogger, export_legacy_names=True)
    # Airflow's exporter would send once more when the process ends, to a collector that is gone by then.
    atexit.unregister(flush_otel_metrics)


@pytest.fixture
def collector(exported_to: Callable[[str], None]) -> Iterator[OtlpReceiver]:
    """A collector to which Airflow's metrics are sent."""
    with running_otlp_receiver() as receiver:
        exported_to(f"http://{LOOPBACK}:{receiver.port}/v1/metrics")
        yield receiver


def test_a_collector_is_told_of_a_release(
    landed: ModelStoreHook, admit: Admit, collector: OtlpReceiver
) -> None:
    """It was started, it ended, and with which outcome: by the operators' own way to their record."""
    assert not conclude(admit())
    assert record(landed).state().outcome == "cancelled"
    flush_otel_metrics()
    assert collector.value("airflow.slipway.releases_started", model="digits") == 1
    assert collector.value("airflow.slipway.releases", model="digits", outcome="cancelled") == 1
    assert collector.value("airflow.slipway.candidate_weight_observed_ratio", model="digits") == 0
    took_ms = collector.value("airflow.slipway.release_duration_ms", model="digits", outcome="cancelled")
    assert took_ms is not None
    assert 0 <= took_ms < 300_000


def test_a_conclusion_that_is_run_again_is_not_counted_again(
    landed: ModelStoreHook, admit: Admit, collector: OtlpReceiver
) -> None:
    """The record has its end already."""
    release_run = admit()
    conclude(release_run)
    conclude(release_run)
    flush_otel_metrics()
    assert collector.value("airflow.slipway.releases", model="digits", outcome="cancelled") == 1


def test_the_record_knows_when_the_version_landed(landed: ModelStoreHook, admit: Admit) -> None:
    """Lead time counts from the moment at which `ready.json` was written."""
    admit()
    (ready,) = landed.entries("incoming/digits/2/ready.json")
    assert record(landed).state().landed_at == ready.written_at


def test_a_collector_that_is_away_holds_nothing_up(
    landed: ModelStoreHook,
    admit: Admit,
    exported_to: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The release is concluded as it would be without one."""
    with socket.socket() as taken:
        taken.bind((LOOPBACK, 0))
        exported_to(f"http://{LOOPBACK}:{taken.getsockname()[1]}/v1/metrics")
        monkeypatch.setattr(record_module, "AIRFLOW_STATS", AirflowStats(limit_s=30))
        conclude(admit())
    assert record(landed).state().outcome == "cancelled"

"""Before the first percent of a model that is asked over streams."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import pytest

from slipway.release_run import ReleaseRun
from slipway.traffic.streams import preflight
from slipway.traffic.streams.preflight import require_streams_read
from slipway_core.errors import GoldenSetError, StoreUnavailableError, StreamsUnreadError
from slipway_core.metrics.sources.prometheus import PrometheusMetrics
from tests.support.canary.streamed_versions import DECOUPLED, VersionsDouble, WayDouble, with_streaming


class Stable(ThreadingHTTPServer):
    """The users' URL, behind which stable answers `/generate_stream` with these events."""

    events = b'data: {"y": 1}\n\n'
    asked = 0


class _Handler(BaseHTTPRequestHandler):
    server: Stable

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked += 1
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Content-Length", str(len(self.server.events)))
        self.end_headers()
        self.wfile.write(self.server.events)

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@pytest.fixture
def stable() -> Iterator[Stable]:
    """A server of the test's own."""
    server = Stable(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch, stable: Stable) -> SimpleNamespace:
    """The InferenceService as it is observed, in Knative mode."""
    observed = SimpleNamespace(dialect="Knative", url="http://digits.example")
    monkeypatch.setattr(preflight, "observe_service", lambda service: observed)
    way = WayDouble(f"http://127.0.0.1:{stable.server_address[1]}")
    monkeypatch.setattr(preflight, "IngressHook", lambda: way)
    return observed


def refuse(release_run: ReleaseRun, versions: VersionsDouble | None = None) -> str:
    """Return why the canary is refused; "" where it is not."""
    parts: Any = SimpleNamespace(
        release_run=release_run,
        registry=versions or VersionsDouble(v3={"digits": DECOUPLED}),
        service=None,
    )
    try:
        require_streams_read(parts)
    except StreamsUnreadError as error:
        return str(error)
    return ""


def by_events(release_run: ReleaseRun) -> ReleaseRun:
    return with_streaming(release_run, protocol="generate_stream", timeout_s=1.0)


def test_a_stable_version_that_answers_lets_the_canary_begin(
    release_run: ReleaseRun, seen: SimpleNamespace, stable: Stable
) -> None:
    """One good answer of the version that has all users shows that the way works."""
    assert refuse(by_events(release_run)) == ""
    assert stable.asked == 1


def test_a_stable_version_that_does_not_answer_holds_it_back(
    release_run: ReleaseRun, seen: SimpleNamespace, stable: Stable
) -> None:
    """Three golden requests are tried; the error names the last fault and the connection."""
    stable.events = b'data: {"error": "no such tensor"}\n\n'
    told = refuse(by_events(release_run))
    assert "no such tensor" in told
    assert "slipway_ingress" in told
    assert stable.asked == 3


def test_a_protocol_that_nobody_speaks_there_holds_it_back(
    release_run: ReleaseRun, seen: SimpleNamespace
) -> None:
    """A decoupled model is asked by gRPC, unless the release file says that HTTP is what its service takes."""
    assert "by grpc at http://digits.example" in refuse(with_streaming(release_run, timeout_s=0.5))


def test_standard_mode_holds_it_back(release_run: ReleaseRun, seen: SimpleNamespace) -> None:
    """Stable has no URL of its own there; Knative mode has, or the router's own log is read."""
    seen.dialect = "Standard"
    told = refuse(release_run)
    assert "Standard mode" in told
    assert "Knative mode" in told
    assert "answers_read_by: metrics" in told


def test_metrics_that_may_count_probes_hold_it_back(release_run: ReleaseRun, seen: SimpleNamespace) -> None:
    """Streamed golden requests are no users, and Prometheus' queries may not tell."""
    rollout = release_run.spec.rollout
    metrics = PrometheusMetrics(source="prometheus", queries="knative")
    spec = release_run.spec.model_copy(update={"rollout": rollout.model_copy(update={"metrics": metrics})})
    assert "metrics_see_users_only" in refuse(release_run.model_copy(update={"spec": spec}))


def test_a_golden_set_that_cannot_be_read_holds_it_back(
    release_run: ReleaseRun, seen: SimpleNamespace
) -> None:
    """The refusal names what is wrong with it."""
    versions = VersionsDouble(v3={"digits": DECOUPLED})
    versions.golden_error = GoldenSetError("the golden set is no npz", remedy="write it by numpy.savez")
    told = refuse(release_run, versions)
    assert "no npz" in told
    assert "numpy.savez" in told


def test_a_store_that_is_away_is_tried_again(release_run: ReleaseRun, seen: SimpleNamespace) -> None:
    """It refuses nothing, and permits nothing."""
    versions = VersionsDouble(v3={"digits": DECOUPLED})
    versions.away = True
    with pytest.raises(StoreUnavailableError):
        refuse(release_run, versions)


def test_a_service_without_a_url_holds_it_back(release_run: ReleaseRun, seen: SimpleNamespace) -> None:
    """Nobody can be asked there."""
    seen.url = None
    assert "names no URL" in refuse(release_run)


def test_a_model_of_single_responses_is_not_looked_at(release_run: ReleaseRun, seen: SimpleNamespace) -> None:
    """Whatever its service is deployed as."""
    seen.dialect = "Standard"
    assert refuse(release_run, VersionsDouble()) == ""

"""Both metrics sources before the real programs: they agree, and say so when there is nothing to see."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from slipway.metrics.source import MetricsSource, metrics_source
from slipway_core.errors import MetricsUnavailableError
from slipway_core.metrics.samples import Reading, Sample, Window, reading_delta, window_between
from slipway_core.spec.release_file import parse_release_spec
from tests.support.monitoring.prometheus import SCRAPE_INTERVAL_S, Prometheus, StartPrometheus
from tests.support.monitoring.served_revisions import CANDIDATE, STABLE, ServedRevisions, Traffic
from tests.support.serving.clients import ask_http
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(600)

REVISIONS = (STABLE, CANDIDATE)
WINDOW_S = 20.0


@pytest.fixture(scope="module")
def prometheus(served: ServedRevisions, start_prometheus: StartPrometheus) -> Prometheus:
    """A Prometheus that has seen the router and both Tritons."""
    server = start_prometheus(served.scrape_configs)
    for revision in REVISIONS:
        server.wait_for_series(f'envoy_cluster_membership_total{{envoy_cluster_name="{revision}|http"}}')
        server.wait_for_series(f'nv_inference_request_success{{pod=~"{revision}-.+"}}')
    return server


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes a source as a release does: what the release file says, behind a connection."""

    def make(port: int, metrics: str = "{}") -> MetricsSource:
        connection = {"conn_type": "http", "host": "127.0.0.1", "port": port}
        monkeypatch.setenv("AIRFLOW_CONN_SLIPWAY_METRICS", json.dumps(connection))
        text = f"model: table\nsource: {{}}\nrollout: {{metrics: {metrics}}}\n"
        return metrics_source(parse_release_spec(text, "table.yaml"))

    return make


ENVOY = "{source: prometheus, queries: envoy, staleness_s: 5, lookback_s: 30}"
TRITON = "{source: prometheus, queries: triton, staleness_s: 5, lookback_s: 30}"


def between(before: Mapping[str, Reading], after: Mapping[str, Reading]) -> Window:
    window = window_between(before, after, stable=STABLE, candidate=CANDIDATE)
    assert window is not None
    return window


def samples(window: Window) -> Iterator[Sample]:
    yield from (window.stable, window.candidate)


def settled(source: MetricsSource) -> dict[str, Reading]:
    """A reading after which nothing more comes, once nobody asks: two scrapes in a row have shown the same."""
    found = [dict(source.read(REVISIONS))]

    def is_settled() -> bool:
        found.append(dict(source.read(REVISIONS)))
        before, after = found[0], found[-1]
        # Envoy's histograms come with its next flush, a second later.
        if any(after[name].at < before[name].at + 3 * SCRAPE_INTERVAL_S for name in REVISIONS):
            return False
        if any(after[name].totals() != before[name].totals() for name in REVISIONS):
            del found[:-1]
            return False
        return True

    wait_until(is_settled, "the counts to settle")
    return found[-1]


def test_both_sources_agree(served: ServedRevisions, prometheus: Prometheus, source: Any) -> None:
    """Over the same traffic both count alike: within one scrape's counts at any moment, exactly once it is over."""
    scrape, asked = source(served.admin_port), source(prometheus.port, ENVOY)
    first = settled(scrape), settled(asked)
    with Traffic(served.ingress_port) as traffic:
        wait_until(lambda: traffic.answers["good"] > 50, "traffic")
        begun = scrape.read(REVISIONS), asked.read(REVISIONS)
        ends = begun[0][STABLE].at + WINDOW_S
        wait_until(lambda: asked.read(REVISIONS)[STABLE].at >= ends, "the end of the window", WINDOW_S + 10)
        ended = scrape.read(REVISIONS), asked.read(REVISIONS)
    windows = [between(before, after) for before, after in zip(begun, ended, strict=True)]
    for window in windows:
        assert window.seconds >= WINDOW_S - SCRAPE_INTERVAL_S
    for by_scrape, by_prometheus in zip(*map(samples, windows), strict=True):
        # Both edges of Prometheus's window lie up to one scrape before those of the other.
        per_scrape = by_scrape.requests / windows[0].seconds * SCRAPE_INTERVAL_S
        assert by_scrape.requests > 100
        assert abs(by_scrape.requests - by_prometheus.requests) <= per_scrape + 10

    total = sum(traffic.answers.values())
    last = settled(scrape), settled(asked)
    whole = [between(before, after) for before, after in zip(first, last, strict=True)]
    for by_scrape, by_prometheus in zip(*map(samples, whole), strict=True):
        assert by_scrape == by_prometheus
        assert by_scrape.unanswered == 0
        assert sum(by_scrape.latency_buckets.values()) == by_scrape.requests
    assert sum(sample.requests for sample in samples(whole[0])) == total
    assert sum(sample.errors for sample in samples(whole[0])) == traffic.answers["bad"] > 0


def test_the_same_scrape_is_not_a_new_window(prometheus: Prometheus, source: Any) -> None:
    """Asked again at once, Prometheus has nothing new, and no window without requests comes of it."""
    asked = source(prometheus.port, ENVOY)

    def is_the_same() -> bool:
        first, again = asked.read(REVISIONS), asked.read(REVISIONS)
        return window_between(first, again, stable=STABLE, candidate=CANDIDATE) is None

    # A scrape may fall between the two.
    wait_until(is_the_same, "two readings of one scrape")


def test_triton_counts_what_reaches_it(served: ServedRevisions, prometheus: Prometheus, source: Any) -> None:
    """Its own counters hold every request; an error that a Python backend answers is a success to them."""
    asked = source(prometheus.port, TRITON)
    before = settled(asked)
    with Traffic(served.ingress_port) as traffic:
        wait_until(lambda: traffic.answers["bad"] >= 3, "some failures")
    total = sum(traffic.answers.values())
    after = settled(asked)
    counted = [reading_delta(before[revision], after[revision]) for revision in REVISIONS]
    assert sum(sample.requests for sample in counted) == total
    assert [sample.errors for sample in counted] == [0, 0]


def test_a_revision_without_requests_is_known(
    served: ServedRevisions, prometheus: Prometheus, source: Any
) -> None:
    """A revision that is routed and was never asked has no requests; one that is not there is unknown."""
    for one in (source(served.admin_port), source(prometheus.port, ENVOY)):
        with pytest.raises(MetricsUnavailableError, match="'table-predictor-00003'"):
            one.read([STABLE, "table-predictor-00003"])


def test_a_query_that_fails_is_told_in_prometheus_own_words(prometheus: Prometheus, source: Any) -> None:
    """What Prometheus says of a query that it cannot run is in the error."""
    metrics = (
        "{source: prometheus, queries: envoy, overrides: "
        "{requests: 'envoy_cluster_upstream_rq{envoy_cluster_name=~\"({revision}\"}'}}"
    )
    with pytest.raises(MetricsUnavailableError, match=r"bad_data: .*missing closing"):
        source(prometheus.port, metrics).read(REVISIONS)


def test_a_prometheus_that_was_killed_is_no_source(
    served: ServedRevisions, start_prometheus: StartPrometheus, source: Any
) -> None:
    """It is away: every reading fails until it is back, and then counts go on where they were."""
    server = start_prometheus(served.scrape_configs)
    server.wait_for_series(f'envoy_cluster_membership_total{{envoy_cluster_name="{CANDIDATE}|http"}}')
    asked = source(server.port, ENVOY)
    before = asked.read(REVISIONS)
    assert server.process.running is not None
    server.process.running.kill()
    server.process.running.wait(60)
    with pytest.raises(MetricsUnavailableError, match="did not answer"):
        asked.read(REVISIONS)
    server.process.start()
    after: dict[str, Reading] = {}

    def is_back() -> bool:
        try:
            after.update(asked.read(REVISIONS))
        except MetricsUnavailableError:
            return False
        return window_between(before, after, stable=STABLE, candidate=CANDIDATE) is not None

    wait_until(is_back, "Prometheus to be back")
    assert between(before, after).stable.requests == 0


def test_a_target_that_stops_is_stale_and_one_that_restarts_is_reset(
    served: ServedRevisions, prometheus: Prometheus, source: Any
) -> None:
    """The router is gone: stale, not silent. It is back and counts from 0: only what is new is counted."""
    asked = source(prometheus.port, ENVOY)
    with Traffic(served.ingress_port) as traffic:
        wait_until(lambda: traffic.answers["good"] >= 50, "some traffic")
    before = settled(asked)
    assert before[STABLE].totals().requests > 5
    served.envoy.end()

    def is_stale() -> bool:
        try:
            asked.read(REVISIONS)
        except MetricsUnavailableError as error:
            return "s old" in str(error)
        return False

    wait_until(is_stale, "the data to be stale")
    served.envoy.start()
    wait_until(lambda: _answers(served.ingress_port), "the router to be back")
    asked_since = 1
    known = before
    sums = dict.fromkeys(REVISIONS, 0)

    def is_counted() -> bool:
        nonlocal known
        try:
            found = asked.read(REVISIONS)
        except MetricsUnavailableError:
            return False
        remembered = {revision: found[revision].remembering(known[revision]) for revision in REVISIONS}
        for revision in REVISIONS:
            sums[revision] += reading_delta(known[revision], remembered[revision]).requests
        known = remembered
        return sum(sums.values()) >= asked_since

    wait_until(is_counted, "the first requests after the restart")
    for _ in range(5):
        ask_http(served.ingress_port)
        asked_since += 1
    wait_until(is_counted, "the requests after the restart")
    assert sum(sums.values()) == asked_since


def _answers(port: int) -> bool:
    try:
        return ask_http(port)[0] == 200
    except OSError:
        return False

"""The Grafana dashboard: its form, and every query of it on a real Prometheus that has scraped all metrics."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from itertools import combinations
from typing import Any

import pytest

from slipway.monitoring.exposition import exposed
from slipway_core.monitoring.families import FAMILIES
from slipway_core.monitoring.samples import samples
from slipway_sandbox.host.ports import LOOPBACK
from tests.support.http_server import QuietHandler, http_server
from tests.support.monitoring.manifests import DASHBOARD, rule_files, rules
from tests.support.monitoring.prometheus import Prometheus, StartPrometheus
from tests.support.monitoring.seen import every_metric
from tests.support.waiting import wait_until

PANELS: list[dict[str, Any]] = DASHBOARD["panels"]
SHOWN = [panel for panel in PANELS if panel["type"] != "row"]
QUERIES = [(panel["title"], target["expr"]) for panel in SHOWN for target in panel["targets"]]
ANNOTATIONS = [(one["name"], one["expr"]) for one in DASHBOARD["annotations"]["list"]]
# What Grafana puts in the place of its variables.
VARIABLES = {"$__range": "1h", "$__interval": "1m", "$model": ".*"}


def filled(expr: str) -> str:
    """Return a query as Grafana sends it."""
    for name, value in VARIABLES.items():
        expr = expr.replace(name, value)
    assert "$" not in expr
    return expr


@pytest.fixture(scope="module")
def target() -> Iterator[str]:
    """The address of a server that tells of everything that there is to count."""

    class Handler(QuietHandler):
        def respond(self) -> None:
            seen = replace(every_metric(), read_at=datetime.now(UTC))
            content, content_type = exposed(samples(seen), self.headers.get("accept", ""))
            self.answer(200, content, content_type)

    with http_server(Handler) as port:
        yield f"{LOOPBACK}:{port}"


@pytest.fixture(scope="module")
def prometheus(
    target: str, start_prometheus: StartPrometheus, tmp_path_factory: pytest.TempPathFactory
) -> Prometheus:
    """A Prometheus with the alert rules, that has scraped it some times."""
    found = start_prometheus(
        [{"job_name": "slipway", "static_configs": [{"targets": [target]}]}],
        rules=rule_files(tmp_path_factory.mktemp("rules")),
    )
    found.wait_for_series("count_over_time(slipway_models[1m]) >= 3")
    return found


@pytest.mark.parametrize(("title", "expr"), QUERIES)
def test_a_panel_shows_what_there_is(prometheus: Prometheus, title: str, expr: str) -> None:
    """Prometheus takes each query, and gives series; one by model tells of digits."""
    found = prometheus.query(filled(expr))
    assert found, f"{title} is empty: {expr}"
    models = {one["metric"].get("model") for one in found}
    assert "digits" in models or models == {None}


@pytest.mark.parametrize(("name", "expr"), ANNOTATIONS)
def test_prometheus_takes_the_query_of_an_annotation(prometheus: Prometheus, name: str, expr: str) -> None:
    """It marks changes; where there was none it is empty."""
    assert prometheus.query(filled(expr)) == []


def test_the_list_of_models_is_what_there_is(prometheus: Prometheus) -> None:
    """The dashboard's variable asks for it; a model that cannot be read is in it, too."""
    (variable,) = [one for one in DASHBOARD["templating"]["list"] if one["name"] == "model"]
    asked = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["definition"])
    assert asked is not None
    metric, label = asked.groups()
    assert prometheus.ask(f"label/{label}/values?match[]={metric}") == ["broken", "digits", "magika"]


def test_prometheus_loads_the_rules_and_evaluates_them(prometheus: Prometheus) -> None:
    """None ends with an error, and what they record is there."""

    def loaded() -> list[dict[str, Any]]:
        return [rule for group in prometheus.ask("rules")["groups"] for rule in group["rules"]]

    wait_until(lambda: all(rule["health"] == "ok" for rule in loaded()), "the rules to be evaluated")
    assert len(loaded()) == len(rules())
    prometheus.wait_for_series('slipway:live_version_age_seconds{model="digits"}')


def test_no_panel_lies_over_another() -> None:
    """Each has a place of its own on Grafana's grid of 24 columns, and a number of its own."""
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)
    places = [(panel["title"], panel["gridPos"]) for panel in PANELS]
    assert all(place["x"] + place["w"] <= 24 for _, place in places)
    for (one, a), (other, b) in combinations(places, 2):
        beside = a["x"] + a["w"] <= b["x"] or b["x"] + b["w"] <= a["x"]
        below = a["y"] + a["h"] <= b["y"] or b["y"] + b["h"] <= a["y"]
        assert beside or below, f"{one} and {other}"


def test_the_dashboard_can_be_provisioned() -> None:
    """No id of another Grafana, no data source by name: whoever loads it chooses one."""
    assert DASHBOARD["id"] is None
    assert (DASHBOARD["uid"], DASHBOARD["title"]) == ("slipway-releases", "Slipway")
    assert DASHBOARD["schemaVersion"] >= 36
    assert "__inputs" not in DASHBOARD
    sources = [panel["datasource"] for panel in SHOWN]
    sources += [target["datasource"] for panel in SHOWN for target in panel["targets"]]
    assert all(source == {"type": "prometheus", "uid": "${datasource}"} for source in sources)
    names = [variable["name"] for variable in DASHBOARD["templating"]["list"]]
    assert names == ["datasource", "model"]


def test_a_dashboard_asks_for_metrics_that_there_are() -> None:
    """Every name is one that Slipway exports, or Prometheus' own; most of what is exported is shown."""
    named = {name for _, expr in QUERIES + ANNOTATIONS for name in re.findall(r"\bslipway_\w+", expr)}
    known = {family.name for family in FAMILIES}
    assert named <= known
    assert len(named) > len(known) / 2

"""The release file's metrics: where they are read, and what must be said for it."""

from __future__ import annotations

import pytest

from slipway_core.spec.release_file import (
    ReleaseSpec,
    parse_release_spec,
)
from tests.support.spec.refusals import MINIMAL, refusal


def test_metrics_are_scraped_unless_told_otherwise() -> None:
    """Without a word the router's endpoints are read directly."""
    assert parse_release_spec(MINIMAL, "digits.yaml").rollout.metrics.source == "scrape"


def test_a_selector_may_be_one_or_several() -> None:
    """One selector is written as text, several as a list, none as an empty list."""
    metrics = (
        "{source: prometheus, queries: istio, overrides: {requests: 'a{r=\"{revision}\"}', "
        "errors: ['b{r=\"{revision}\"}', 'c{r=\"{revision}\"}'], latency: []}}"
    )
    spec = parse_release_spec(MINIMAL + f"rollout: {{metrics: {metrics}}}\n", "digits.yaml")
    overrides = spec.rollout.metrics.overrides
    assert overrides.requests == ('a{r="{revision}"}',)
    assert overrides.errors == ('b{r="{revision}"}', 'c{r="{revision}"}')
    assert overrides.latency == ()
    assert overrides.watched is None
    assert ReleaseSpec.model_validate_json(spec.model_dump_json()) == spec


_OWN = "requests: 'a{r=\"{revision}\"}', errors: 'b{r=\"{revision}\"}'"


@pytest.mark.parametrize(
    ("metrics", "what"),
    [
        ("{queries: istio}", "unknown key `rollout.metrics.queries`"),
        (f"{{overrides: {{{_OWN}}}}}", "unknown key `rollout.metrics.overrides`"),
        ("{lookback_s: 90}", "unknown key `rollout.metrics.lookback_s`"),
        ("{source: prometheus}", "needs `queries`, or `overrides`"),
        ("{source: prometheus, queries: istio, overrides: {requests: []}}", "must have queries"),
        ("{source: prometheus, queries: linkerd}", "one of knative, knative_otel, istio"),
        ("{source: prometheus, queries: istio, lookback_s: 30, staleness_s: 31}", "not queried"),
        (
            f"{{source: prometheus, overrides: {{{_OWN}, latency: 'c{{r=\"{{revision}}\"}}'}}}}",
            "needs `latency_unit`",
        ),
        (
            "{source: prometheus, queries: istio, overrides: {errors: 'b{r=\"{revison}\"}'}}",
            "{inference_service}, {model}, {namespace}, {revision}; {revison} is not",
        ),
        (
            "{source: prometheus, queries: istio, overrides: {requests: 'sum(a{r=\"{revision}\"})'}}",
            "a plain selector",
        ),
        (
            "{source: prometheus, queries: istio, overrides: {request: 'a{r=\"{revision}\"}'}}",
            "Did you mean `rollout.metrics.overrides.requests`?",
        ),
    ],
)
def test_metrics_that_cannot_be_read_are_refused(metrics: str, what: str) -> None:
    """A source that lacks its queries, queries without their source, and wrong selectors are explained."""
    assert what in str(refusal(MINIMAL + f"rollout: {{metrics: {metrics}}}\n"))

"""`source: prometheus`: a Prometheus, or what answers as one does, is asked for raw counters."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from slipway_core.metrics.queries import KINDS, QUERY_SETS, QuerySet
from slipway_core.metrics.source_kind import MetricsSourceKind, metrics_source_kind
from slipway_core.metrics.visibility import UNKNOWN, Visibility
from slipway_core.selectors import check_selector
from slipway_core.spec.parts import SpecPart

DEFAULT_LOOKBACK_S = 60
# Query sets that count HTTP statuses alone: to them a gRPC error is an answer with 200.
BLIND_TO_GRPC = frozenset({"knative", "knative_otel", "envoy_gateway", "triton"})


def _one_or_several(value: object) -> object:
    # `requests: a_total{…}` is what people write; some counts are the sum of two.
    if isinstance(value, str):
        return (value,)
    return tuple(value) if isinstance(value, list) else value


def _selector_of_revision(text: str) -> str:
    check_selector(text)
    return text


def _selector(text: str) -> str:
    check_selector(text, about_revision=False)
    return text


_OneOrSeveral = BeforeValidator(_one_or_several, json_schema_input_type=str | tuple[str, ...])
RevisionSelectors = Annotated[
    tuple[Annotated[str, AfterValidator(_selector_of_revision)], ...], _OneOrSeveral
]
WatchSelectors = Annotated[tuple[Annotated[str, AfterValidator(_selector)], ...], _OneOrSeveral]


class MetricsOverrides(SpecPart):
    """Selectors that replace those of the query set; several of one kind are added up, none (`[]`) asks none.

    Plain selectors, with {revision}, {namespace}, {model} and {inference_service} inside label values:
    `python -m slipway_core.metrics` prints what they become.
    """

    requests: RevisionSelectors | None = None
    errors: RevisionSelectors | None = None
    latency: RevisionSelectors | None = None
    """Cumulative buckets, with the label `le` in `latency_unit`."""
    begun: RevisionSelectors | None = None
    """Attempts as they begin; with `active`: then requests that are never answered are seen."""
    retried: RevisionSelectors | None = None
    """Attempts that were tried again, among those that began."""
    active: RevisionSelectors | None = None
    """The gauge of what has begun and is not over."""
    watched: WatchSelectors | None = None
    """Fresh and above 0 while the source sees the revision: then a counter that is lacking is 0."""


@metrics_source_kind
class PrometheusMetrics(MetricsSourceKind):
    """Raw samples over Prometheus' HTTP API, by the selectors of a query set or of one's own."""

    source: Literal["prometheus"] = "prometheus"
    queries: Literal["knative", "knative_otel", "istio", "envoy_gateway", "triton", "envoy"] | None = None
    """The query set; null leaves all to `overrides`."""
    overrides: MetricsOverrides = MetricsOverrides()
    latency_unit: Literal["ms", "s"] | None = None
    """The unit of the label `le`; null takes the query set's."""
    lookback_s: Annotated[int, Field(ge=2, le=3600)] = DEFAULT_LOOKBACK_S
    """How far back samples are asked for: at least two scrape intervals."""
    staleness_s: Annotated[int, Field(ge=1, le=3600)] = 45
    """Data older than this are no data: more than a scrape interval."""

    @model_validator(mode="after")
    def _parts_agree(self) -> Self:
        own = self.overrides
        if self.queries is None and not (own.requests and own.errors):
            raise ValueError(
                "`source: prometheus` needs `queries`, or `overrides` with `requests` and `errors`"
            )
        if own.requests == () or own.errors == ():
            raise ValueError(
                "`requests` and `errors` must have queries; only `latency`, `watched`, `begun`, `retried` and `active` "
                "may be `[]`"
            )
        if self.queries is None and own.latency and self.latency_unit is None:
            raise ValueError("`overrides.latency` without `queries` needs `latency_unit`: `ms` or `s`")
        if self.staleness_s > self.lookback_s:
            raise ValueError(
                f"`staleness_s: {self.staleness_s}` is more than `lookback_s: {self.lookback_s}`: samples that "
                "old are not queried"
            )
        return self

    @property
    def grpc_blindness(self) -> str | None:
        """Say so of a query set that counts HTTP statuses alone, without selectors of the file's own."""
        if self.queries not in BLIND_TO_GRPC or self.overrides.errors:
            return None
        return (
            f"`metrics.queries: {self.queries}` counts HTTP statuses, and a gRPC error comes with 200. Use `istio`, "
            "`envoy` or `source: scrape`, or name selectors that count gRPC statuses under `metrics.overrides.errors`"
        )

    @property
    def counts_stream_errors(self) -> bool:
        """Return whether the file has selectors of errors of its own."""
        return bool(self.overrides.errors)

    def in_words(self) -> str:
        """Return the source and its query set."""
        return super().in_words() + (f", `{self.queries}`" if self.queries else "")

    def query_set(self) -> QuerySet:
        """Return the query set that is asked for, the file's own selectors laid over it."""
        base = QUERY_SETS[self.queries] if self.queries else QuerySet("The release file's own.", (), ())
        given = {kind: value for kind in KINDS if (value := getattr(self.overrides, kind)) is not None}
        changed = replace(base, latency_unit=self.latency_unit or base.latency_unit, **given)
        return replace(changed, sees=_seen(changed, base, {*given}))

    def sees(self) -> Visibility:
        """Return what the query set sees."""
        return self.query_set().sees


def _seen(queries: QuerySet, base: QuerySet, given: set[str]) -> Visibility:
    """Return what a set sees of which some kinds were replaced: of selectors that people wrote nobody can tell."""
    sees, own = base.sees, {*given} & {"requests", "errors"}
    if own:
        sees = replace(sees, http_errors=None, grpc_errors=None, stream_errors=None)
    if own | ({*given} & {"begun", "active"}) or queries.sees == UNKNOWN:
        can = bool(queries.begun and queries.active)
        sees = replace(sees, given_up=can or (None if own else False), hanging=can)
    return replace(sees, latency=bool(queries.latency)) if "latency" in given or own else sees

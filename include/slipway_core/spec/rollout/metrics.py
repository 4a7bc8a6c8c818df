"""The release file's `rollout.metrics`: where the judge's numbers come from."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from slipway_core.selectors import check_selector
from slipway_core.spec.parts import SpecPart

DEFAULT_LOOKBACK_S = 60
# Query sets that count HTTP statuses alone: to them a gRPC error is an answer with 200.
BLIND_TO_GRPC = frozenset({"knative", "knative_otel", "envoy_gateway", "triton"})
DEFAULT_UNANSWERED_AFTER_S = 30.0


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


class Metrics(SpecPart):
    """Where the judge's numbers come from."""

    source: Literal["scrape", "prometheus"] = "scrape"
    """`scrape` reads the exposition endpoints of Envoy routers itself; `prometheus` asks a Prometheus."""
    queries: Literal["knative", "knative_otel", "istio", "envoy_gateway", "triton", "envoy"] | None = None
    """The query set; null leaves all to `overrides`."""
    overrides: MetricsOverrides = MetricsOverrides()
    latency_unit: Literal["ms", "s"] | None = None
    """The unit of the label `le`; null takes the query set's."""
    lookback_s: Annotated[int, Field(ge=2, le=3600)] = DEFAULT_LOOKBACK_S
    """How far back samples are asked for: at least two scrape intervals."""
    staleness_s: Annotated[int, Field(ge=1, le=3600)] = 45
    """Data older than this are no data: more than a scrape interval."""
    timeout_s: Annotated[float, Field(gt=0, le=120)] = 10.0
    """How long one reading may take in all."""
    unanswered_after_s: Annotated[float, Field(ge=1, le=3600)] = DEFAULT_UNANSWERED_AFTER_S
    """An HTTP request that is active for longer counts as unanswered: more than the slowest good answer takes."""

    @model_validator(mode="after")
    def _parts_agree(self) -> Self:
        # By value: a file that was written out whole names every key.
        asked = [
            name
            for name in ("queries", "overrides", "latency_unit", "lookback_s", "staleness_s")
            if getattr(self, name) != type(self).model_fields[name].default
        ]
        if self.source == "scrape" and asked:
            raise ValueError(f"`{asked[0]}` needs `source: prometheus`")
        if self.source == "scrape":
            return self
        own = self.overrides
        if self.queries is None and not (own.requests and own.errors):
            raise ValueError(
                "`source: prometheus` needs `queries`, or `overrides` with `requests` and `errors`"
            )
        if own.requests == () or own.errors == ():
            raise ValueError(
                "`requests` and `errors` must be asked for; only `latency`, `watched`, `begun`, `retried` and `active` "
                "may be `[]`"
            )
        if self.queries is None and own.latency and self.latency_unit is None:
            raise ValueError("`overrides.latency` without `queries` needs `latency_unit`: `ms` or `s`")
        if self.staleness_s > self.lookback_s:
            raise ValueError(
                f"`staleness_s: {self.staleness_s}` is more than `lookback_s: {self.lookback_s}`: samples that "
                "old are not even asked for"
            )
        return self

    @property
    def is_blind_to_grpc(self) -> bool:
        """Whether nothing counts gRPC errors: a query set that sees none, without selectors of the file's own."""
        return self.source == "prometheus" and self.queries in BLIND_TO_GRPC and not self.overrides.errors

"""The evidence of a canary: what its record says, in one document that is enough to judge it again.

The document is JSON: which version, by which policy, and a list of runs, oldest first. A canary that was begun again
(its task died and was run again) has a judge without memory, so each run is its own fold, and only the last one
led to the end.

    {"kind": "canary_evidence", "format_version": 1,
     "model", "version", "release_id", "outcome", "reason", "until",
     "storage_uri", "stable_storage_uri",
     "policy": AnalysisPolicy.to_dict(), "planned": [{"weight", "bake_s"}],
     "exposure": {"candidate_requests", "candidate_errors", "first_bad_at", "weight_0_at",
                  "seconds_from_first_bad_answer_to_weight_0"},
     "runs": [{"number", "superseded", "began_at", "ended_at",
               "weights": [{"at", "weight"}], "steps": […], "windows": […], "decisions": […],
               "totals": {…}, "recomputed": {"agrees", "first_difference"}}]}

A window has a `source`: `users`; `replay` for golden requests that were replayed where users sent too little; `stream`
for golden requests that were streamed to a model which is asked over streams. Totals keep them apart:
`candidate_requests` are users', `replayed_requests` and `streamed_requests` are not.

`no_data` marks a window in which the metrics source could not be read; `no_data_windows` counts these.

Times are ISO 8601 in UTC, percents 0 to 100, latencies ms. What is not known is null.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    ModelWrapValidatorHandler,
    PlainSerializer,
    PlainValidator,
    PrivateAttr,
    StrictBool,
    StrictFloat,
    StrictInt,
    model_serializer,
    model_validator,
)

from slipway_core.canary.latency import quantile_ms
from slipway_core.canary.verdict import Status
from slipway_core.documents.document_form import format_errors
from slipway_core.metrics.samples import Sample, Source
from slipway_core.spec.rollout.analysis import AnalysisPolicy
from slipway_core.value_types import UtcTime

FORMAT_VERSION: Literal[1] = 1
# The document and the windows of its last run, under the evidence of a release.
DOCUMENT_FILE, WINDOWS_FILE = "canary.json", "canary.jsonl"
_QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}

Number = StrictInt | StrictFloat
Time = Annotated[UtcTime, PlainSerializer(lambda at: at.isoformat())]
Samples = Annotated[Sample, PlainValidator(Sample.from_dict)]
Policy = Annotated[
    AnalysisPolicy,
    PlainValidator(lambda of: of if isinstance(of, AnalysisPolicy) else AnalysisPolicy.from_mapping(of)),
    PlainSerializer(AnalysisPolicy.to_dict),
]


class _Part(BaseModel):
    # DAG files are parsed often, and none of them makes a page.
    model_config = ConfigDict(frozen=True, defer_build=True)


class _Recorded(_Part):
    """A part that the judge wrote into the record: read as values here, written again as it was recorded."""

    _recorded: Mapping[str, Any] = PrivateAttr()

    @model_validator(mode="wrap")
    @classmethod
    def _keep(cls, value: Any, read: ModelWrapValidatorHandler[Self]) -> Self:
        part = read(value)
        if part is not value:
            part._recorded = value
        return part

    @model_serializer
    def _as_recorded(self) -> dict[str, Any]:
        return dict(self._recorded)

    @property
    def recorded(self) -> Mapping[str, Any]:
        """The part as JSON."""
        return self._recorded


class Sums(_Recorded):
    """Sums over windows of both revisions."""

    seconds: Number = 0
    windows: StrictInt = 0
    stable_requests: StrictInt = 0
    stable_errors: StrictInt = 0
    candidate_requests: StrictInt = 0
    candidate_errors: StrictInt = 0
    replayed_windows: StrictInt = 0
    replayed_requests: StrictInt = 0
    replayed_errors: StrictInt = 0
    stable_replayed_requests: StrictInt = 0
    stable_replayed_errors: StrictInt = 0
    streamed_windows: StrictInt = 0
    streamed_requests: StrictInt = 0
    streamed_errors: StrictInt = 0
    stable_streamed_requests: StrictInt = 0
    stable_streamed_errors: StrictInt = 0


class RunSums(Sums):
    """The sums of a run; `windows` are users' here, and `no_data_windows` those without data."""

    no_data_windows: StrictInt = 0


class Statistics(_Recorded):
    """What a verdict rests on, as far as a reader of the evidence is shown it."""

    evidence: Mapping[str, Number]
    total_evidence: Number
    threshold: Number
    no_worse: Number
    no_worse_threshold: Number
    correlation: Number
    bake_s: Number
    step: Sums
    canary: Sums


class Window(_Recorded):
    """The samples of both revisions over the same seconds."""

    seconds: Number
    stable: Samples
    candidate: Samples
    source: Source = "users"


class Latencies(_Part):
    """Quantiles of a sample in ms, None if unknown; `beyond` names those above the histogram's last bound."""

    p50: Number | None
    p90: Number | None
    p99: Number | None
    beyond: list[str]

    @classmethod
    def of(cls, sample: Sample) -> Latencies:
        """Return the latencies of a sample."""
        found = {name: quantile_ms(sample.latency_buckets, level) for name, level in _QUANTILES.items()}
        beyond = [name for name, value in found.items() if value is not None and value[1]]
        p50, p90, p99 = (None if value is None else value[0] for value in found.values())
        return cls(p50=p50, p90=p90, p99=p99, beyond=beyond)


class SeenSample(_Part):
    """What a reader wants to know of a sample: rates and latencies."""

    error_percent: Number | None
    requests_per_second: Number | None
    latency_ms: Latencies

    @classmethod
    def of(cls, sample: Sample, seconds: float) -> SeenSample:
        """Return what was seen of a revision in a window of so many seconds."""
        return cls(
            error_percent=share_percent(sample.errors, sample.requests),
            requests_per_second=sample.requests / seconds if seconds else None,
            latency_ms=Latencies.of(sample),
        )


class Seen(_Part):
    """What was seen of both revisions in a window."""

    stable: SeenSample
    candidate: SeenSample


class JudgedWindow(_Part):
    """A window and the verdict after it; `window` is None and `seen` unset where nothing was seen.

    `not_seen` is what the metrics source cannot see, in words; unset where nothing is known to be unseen.
    """

    number: StrictInt
    step: StrictInt
    weight: StrictInt
    began_at: Time
    at: Time
    source: Source = "users"
    no_data: StrictBool
    status: Status
    reason: str
    statistics: Statistics
    window: Window | None
    seen: Seen | None = None
    not_seen: list[str] | None = None


class CanaryStep(_Part):
    """A step that was begun; what did not come about is None."""

    number: StrictInt
    weight: StrictInt
    bake_s: Number | None
    intended_at: Time
    observed_at: Time | None
    finished_at: Time | None
    verdict: Status | None
    reason: str | None
    seconds: Number | None
    totals: Sums | None
    no_data_windows: StrictInt


class PlannedStep(_Part):
    """A step of the release file."""

    weight: StrictInt
    bake_s: Number


class ObservedWeight(_Part):
    """The candidate's percent of the traffic as it was seen at a time."""

    at: Time
    weight: StrictInt


class Decision(_Part):
    """What was decided or done: of which kind, by whom, in words, and for which reason."""

    at: Time
    kind: str
    by: str | None
    words: str
    reason: str | None


class Recomputed(_Part):
    """Whether every verdict came out again from the windows, or the number of the first that did not."""

    agrees: StrictBool
    first_difference: StrictInt | None


class CanaryRun(_Part):
    """A canary from its first step to its end, or until it was begun again (`superseded`)."""

    number: StrictInt
    superseded: StrictBool
    began_at: Time
    ended_at: Time
    weights: list[ObservedWeight]
    steps: list[CanaryStep]
    windows: list[JudgedWindow]
    decisions: list[Decision]
    totals: RunSums
    recomputed: Recomputed


class Exposure(_Part):
    """What users met, from the canary's start until weight 0 was seen; None if it is not known."""

    candidate_requests: StrictInt | None
    candidate_errors: StrictInt | None
    first_bad_at: Time | None
    weight_0_at: Time | None
    seconds_from_first_bad_answer_to_weight_0: Number | None


class CanaryEvidence(_Part):
    """The whole document."""

    kind: Literal["canary_evidence"] = "canary_evidence"
    format_version: Literal[1] = FORMAT_VERSION
    model: str
    version: StrictInt
    release_id: str
    outcome: str
    reason: str | None
    until: Time
    storage_uri: str | None
    stable_storage_uri: str | None
    policy: Policy
    planned: list[PlannedStep]
    exposure: Exposure
    runs: list[CanaryRun]

    @classmethod
    @format_errors("the evidence of the canary")
    def from_document(cls, document: Mapping[str, Any]) -> CanaryEvidence:
        """Return what a document says.

        :raises UserError: for a document of another form.
        """
        return cls.model_validate(document)

    def to_document(self) -> dict[str, Any]:
        """Return the document, ready for JSON."""
        return self.model_dump(exclude_unset=True)


def earlier_windows_file(number: int) -> str:
    """Return where the recording of the earlier run `number` belongs."""
    return f"canary-run-{number}.jsonl"


def share_percent(part: int, whole: int) -> float | None:
    """Return `part` of `whole` in percent; None if the whole is nothing."""
    return 100.0 * part / whole if whole else None

"""The metrics that Prometheus is given: name, kind, labels and meaning of each.

Names follow Prometheus' conventions: base units (seconds, ratios from 0 to 1), `_total` for what only grows, and
moments as `_timestamp_seconds` in place of ages, which would stand still where nobody writes them. A label has few
values: the models, and words of this project. A version is a value, not a label, so that a new one makes no new series.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Kind = Literal["gauge", "counter"]


@dataclass(frozen=True)
class Family:
    """A metric: `help_text` is its help text, `when` says when a model has a series of it."""

    name: str
    kind: Kind
    help_text: str
    labels: tuple[str, ...] = ("model",)
    when: str = "always"

    def of(self, value: float, **labels: str) -> Sample:
        """Return a sample.

        :param labels: one value for each of its labels.
        """
        return Sample(self, float(value), {name: labels[name] for name in self.labels})


@dataclass(frozen=True)
class Sample:
    """One value of a metric."""

    family: Family
    value: float
    labels: Mapping[str, str]


_LIVE = "a version is live"
_OVER = "a release is over"
_OPEN = "a release is under way"
_WEIGHT = "a release under way has set a weight"
_WATCHED = "a canary is watched"
_FROZEN = "a freeze is in force"

MODELS = Family("slipway_models", "gauge", "Models that have a document.", ())
READ_AT = Family(
    "slipway_read_timestamp_seconds", "gauge", "When all of this was read from the object store.", ()
)
READABLE = Family("slipway_model_readable", "gauge", "Whether the model's document could be read.")

LIVE_VERSION = Family("slipway_live_version", "gauge", "The version that has all users.", when=_LIVE)
LIVE_SINCE = Family(
    "slipway_live_since_timestamp_seconds", "gauge", "Since when the live version has all users.", when=_LIVE
)
RELEASES = Family(
    "slipway_releases_total", "counter", "Releases that ended, by outcome.", ("model", "outcome")
)
IN_FLIGHT = Family("slipway_releases_in_flight", "gauge", "Releases that are under way: 0 or 1.")
LAST_OUTCOME = Family(
    "slipway_last_release_outcome",
    "gauge",
    "How the last release ended: 1 for its outcome.",
    ("model", "outcome"),
    _OVER,
)
LAST_FINISHED = Family(
    "slipway_last_release_finished_timestamp_seconds", "gauge", "When the last release ended.", when=_OVER
)
LEAD_TIME = Family(
    "slipway_last_lead_time_seconds",
    "gauge",
    "From upload to promotion, for the version that was promoted last.",
    when="a version was promoted whose landing is known",
)
RECOVERY = Family(
    "slipway_last_time_to_recover_seconds",
    "gauge",
    "Until weight 0 was seen in the last rollback, since the first bad answer or since the decision.",
    ("model", "since"),
    "a release was rolled back",
)

CANDIDATE_VERSION = Family(
    "slipway_candidate_version", "gauge", "The version that is being released.", when=_OPEN
)
STAGE = Family(
    "slipway_release_stage",
    "gauge",
    "The stage of the release: 1 for the present one.",
    ("model", "stage"),
    _OPEN,
)
STARTED = Family("slipway_release_started_timestamp_seconds", "gauge", "When the release began.", when=_OPEN)
UPDATED = Family(
    "slipway_release_updated_timestamp_seconds",
    "gauge",
    "When the release last wrote in its record.",
    when=_OPEN,
)
WAITS = Family(
    "slipway_release_waits",
    "gauge",
    "Whether the release waits: for a person's approval, for a person's resume, or on a freeze or closed window.",
    ("model", "reason"),
    _OPEN,
)
ROLLING_BACK = Family(
    "slipway_rollback_under_way", "gauge", "Whether the release is being rolled back.", when=_OPEN
)
VERDICT = Family(
    "slipway_release_verdict",
    "gauge",
    "What the judge said last: 1 for its verdict.",
    ("model", "verdict"),
    "a window of the release was judged",
)
INTENDED = Family(
    "slipway_candidate_weight_intended_ratio",
    "gauge",
    "The candidate's share of the traffic, as requested.",
    when=_WEIGHT,
)
OBSERVED = Family(
    "slipway_candidate_weight_observed_ratio",
    "gauge",
    "The candidate's share of the traffic, as seen.",
    when=_WEIGHT,
)

WATCH_WRITTEN = Family(
    "slipway_watch_written_timestamp_seconds",
    "gauge",
    "When the watch of the canary wrote last.",
    when=_WATCHED,
)
WATCH_WINDOW = Family(
    "slipway_watch_window_seconds", "gauge", "How long a window of the watch is.", when=_WATCHED
)
EVIDENCE = Family(
    "slipway_evidence", "gauge", "The judge's evidence against the candidate, 1 at the start.", when=_WATCHED
)
EVIDENCE_THRESHOLD = Family(
    "slipway_evidence_threshold", "gauge", "The evidence at which the candidate fails.", when=_WATCHED
)
CANDIDATE_REQUESTS = Family(
    "slipway_candidate_requests_total",
    "counter",
    "Users' requests that the candidate was sent since its canary began.",
    when=_WATCHED,
)
CANDIDATE_ERRORS = Family(
    "slipway_candidate_errors_total",
    "counter",
    "Users' requests among them that failed.",
    when=_WATCHED,
)
EXPOSURE = Family(
    "slipway_candidate_exposure_ratio",
    "gauge",
    "How much of what users may meet of the candidate they have met.",
    when="a canary is watched, and the release file has a limit",
)
WINDOW_ERRORS = Family(
    "slipway_window_error_ratio",
    "gauge",
    "Share of failed requests in the last window.",
    ("model", "revision"),
    _WATCHED,
)
WINDOW_LATENCY = Family(
    "slipway_window_latency_seconds",
    "gauge",
    "Latency in the last window.",
    ("model", "revision", "quantile"),
    "a canary is watched, and the metrics source knows latencies",
)

FREEZES = Family("slipway_freezes", "gauge", "Freezes in force; of every model under the name _all.")
FREEZE_SINCE = Family(
    "slipway_freeze_since_timestamp_seconds", "gauge", "Since when the oldest of them is.", when=_FROZEN
)
FREEZE_UNTIL = Family(
    "slipway_freeze_until_timestamp_seconds", "gauge", "Until when the last of them is.", when=_FROZEN
)
FINDINGS = Family(
    "slipway_open_findings", "gauge", "Open findings of revalidation, by check.", ("model", "check")
)
FINDING_OPENED = Family(
    "slipway_finding_opened_timestamp_seconds",
    "gauge",
    "When the oldest of them was opened.",
    ("model", "check"),
    "a finding is open",
)

FAMILIES = (
    MODELS,
    READ_AT,
    READABLE,
    LIVE_VERSION,
    LIVE_SINCE,
    RELEASES,
    IN_FLIGHT,
    LAST_OUTCOME,
    LAST_FINISHED,
    LEAD_TIME,
    RECOVERY,
    CANDIDATE_VERSION,
    STAGE,
    STARTED,
    UPDATED,
    WAITS,
    ROLLING_BACK,
    VERDICT,
    INTENDED,
    OBSERVED,
    WATCH_WRITTEN,
    WATCH_WINDOW,
    EVIDENCE,
    EVIDENCE_THRESHOLD,
    CANDIDATE_REQUESTS,
    CANDIDATE_ERRORS,
    EXPOSURE,
    WINDOW_ERRORS,
    WINDOW_LATENCY,
    FREEZES,
    FREEZE_SINCE,
    FREEZE_UNTIL,
    FINDINGS,
    FINDING_OPENED,
)

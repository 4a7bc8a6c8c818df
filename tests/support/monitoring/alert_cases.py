"""For each alert what must make it fire, and what must not: series as promtool writes them, a value each minute."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

DIGITS = {"model": "digits"}


@dataclass(frozen=True)
class Case:
    """What is seen, and whether the alert fires then.

    :param description: what happens, in words.
    :param series: each with its values, an `interval` apart.
    :param at: when it is looked: `30m`.
    :param fires: with these labels; None: it does not.
    :param shown: the value as the alert's text has it; "" where it has none.
    """

    alert: str
    description: str
    series: dict[str, str]
    at: str
    fires: dict[str, str] | None = None
    shown: str = ""
    interval: str = "1m"

    def to_promtool(self, rule: dict[str, Any]) -> dict[str, Any]:
        """Return the case as a test of promtool's; it compares labels and texts of an alert that fires.

        :param rule: the alert.
        """
        expected = []
        if self.fires is not None:
            texts = {name: self._filled(text) for name, text in rule["annotations"].items()}
            expected = [{"exp_labels": {**rule["labels"], **self.fires}, "exp_annotations": texts}]
        return {
            "name": f"{self.alert}: {self.description}",
            "interval": self.interval,
            "input_series": [{"series": one, "values": values} for one, values in self.series.items()],
            "alert_rule_test": [{"eval_time": self.at, "alertname": self.alert, "exp_alerts": expected}],
        }

    def _filled(self, text: str) -> str:
        labels = self.fires or {}
        text = re.sub(r"{{ \$labels\.(\w+) }}", lambda found: labels[found[1]], text)
        return re.sub(r"{{ \$value[^}]*}}", lambda _: self.shown, text)


def _model(name: str, **labels: str) -> str:
    pairs = ",".join(f'{key}="{value}"' for key, value in {**DIGITS, **labels}.items())
    return f"{name}{{{pairs}}}"


_UP = 'up{job="slipway",instance="airflow:8080"}'
_READ = "slipway_read_timestamp_seconds"
_OBSERVED = _model("slipway_candidate_weight_observed_ratio")
_INTENDED = _model("slipway_candidate_weight_intended_ratio")
_BACK = _model("slipway_rollback_under_way")
_WRITTEN = _model("slipway_watch_written_timestamp_seconds")
_WINDOW = _model("slipway_watch_window_seconds")
_CANARY = _model("slipway_release_stage", stage="canary")
_UPDATED = _model("slipway_release_updated_timestamp_seconds")
_ERRORS = _model("slipway_window_error_ratio", revision="candidate")
_SINCE = _model("slipway_live_since_timestamp_seconds")
_FREEZE = _model("slipway_freeze_since_timestamp_seconds")


def _ended(outcome: str) -> str:
    return _model("slipway_releases_total", outcome=outcome)


def _waits(reason: str) -> str:
    return _model("slipway_release_waits", reason=reason)


CASES = (
    Case(
        "SlipwayMetricsTargetDown",
        "the only target is down",
        {_UP: "1x5 0x20"},
        "15m",
        {},
    ),
    Case("SlipwayMetricsTargetDown", "nothing is scraped at all", {}, "10m", {}),
    Case(
        "SlipwayMetricsTargetDown",
        "one of two API servers answers",
        {_UP: "0x20", 'up{job="slipway",instance="another:8080"}': "1x20"},
        "15m",
    ),
    Case("SlipwayNumbersOld", "the text file is not written any more", {_READ: "0x40"}, "30m", {}, "30m 0s"),
    Case("SlipwayNumbersOld", "it is written each minute", {_READ: "0+60x40"}, "30m"),
    Case(
        "SlipwayModelUnreadable",
        "its document cannot be read",
        {_model("slipway_model_readable"): "1 0x30"},
        "20m",
        DIGITS,
    ),
    Case(
        "SlipwayModelUnreadable",
        "it could not be read for a moment",
        {_model("slipway_model_readable"): "1x5 0x5 1x30"},
        "20m",
    ),
    Case(
        "SlipwayCandidateUnwatched",
        "the watch has written nothing for ten minutes",
        {_OBSERVED: "0.25x40", _CANARY: "1x40", _BACK: "0x40", _WRITTEN: "600x40", _WINDOW: "30x40"},
        "25m",
        DIGITS,
        "25%",
    ),
    Case(
        "SlipwayCandidateUnwatched",
        "nothing was ever written by a watch",
        {_OBSERVED: "0.25x40", _CANARY: "1x40", _BACK: "0x40"},
        "10m",
        DIGITS,
        "25%",
    ),
    Case(
        "SlipwayCandidateUnwatched",
        "the watch writes each minute",
        {_OBSERVED: "0.25x40", _CANARY: "1x40", _BACK: "0x40", _WRITTEN: "0+60x40", _WINDOW: "30x40"},
        "25m",
    ),
    Case(
        "SlipwayCandidateUnwatched",
        "windows of ten minutes are written when they end",
        {_OBSERVED: "0.25x60", _CANARY: "1x60", _BACK: "0x60", _WRITTEN: "600x60", _WINDOW: "600x60"},
        "25m",
    ),
    Case(
        "SlipwayCandidateUnwatched",
        "a candidate without users needs no watch",
        {_OBSERVED: "0x40", _CANARY: "1x40", _BACK: "0x40"},
        "25m",
    ),
    Case(
        "SlipwayUsersOnRolledBackCandidate",
        "the traffic stays on the candidate",
        {_OBSERVED: "0.5x20", _BACK: "0x5 1x20"},
        "12m",
        DIGITS,
        "50%",
    ),
    Case(
        "SlipwayUsersOnRolledBackCandidate",
        "the traffic has left within a minute",
        {_OBSERVED: "0.5x6 0x20", _BACK: "0x5 1x20"},
        "12m",
    ),
    Case("SlipwayRollbackNotDone", "it has no end", {_BACK: "1x40"}, "20m", DIGITS),
    Case("SlipwayRollbackNotDone", "it ends after five minutes", {_BACK: "1x5 0x40"}, "20m"),
    Case(
        "SlipwayWayBackUsed", "one more was rolled back", {_ended("rolled_back"): "2x10 3x20"}, "15m", DIGITS
    ),
    Case("SlipwayWayBackUsed", "that was an hour ago", {_ended("rolled_back"): "2x10 3x90"}, "80m"),
    Case(
        "SlipwayWayBackUsed",
        "another one was promoted",
        {_ended("rolled_back"): "2x30", _ended("promoted"): "1x10 2x20"},
        "15m",
    ),
    Case("SlipwayReleaseFailed", "one more failed", {_ended("failed"): "0x10 1x20"}, "15m", DIGITS),
    Case("SlipwayReleaseFailed", "a gate has refused one", {_ended("refused"): "0x10 1x20"}, "15m"),
    Case(
        "SlipwayReleaseStuck", "nothing for more than an hour", {_UPDATED: "0x90"}, "70m", DIGITS, "1h 10m 0s"
    ),
    Case(
        "SlipwayReleaseStuck",
        "it waits for an approval",
        {_UPDATED: "0x90", _waits("approval"): "1x90", _waits("hold"): "0x90"},
        "70m",
    ),
    Case("SlipwayReleaseStuck", "a long step is watched", {_UPDATED: "0x90", _WRITTEN: "0+60x90"}, "70m"),
    Case("SlipwayReleaseStuck", "it writes every half hour", {_UPDATED: "0x29 1800x29 3600x40"}, "70m"),
    Case(
        "SlipwayWeightNotReached",
        "50 % was asked for and 5 % is seen",
        {_INTENDED: "0.5x60", _OBSERVED: "0.05x60"},
        "40m",
        DIGITS,
        "45%",
    ),
    Case(
        "SlipwayWeightNotReached",
        "it was reached after ten minutes",
        {_INTENDED: "0.5x60", _OBSERVED: "0.05x10 0.5x60"},
        "40m",
    ),
    Case(
        "SlipwayCanaryWithoutNumbers",
        "no window has requests",
        {_WINDOW: "30x30", _ERRORS: "0.01x5 _x30"},
        "25m",
        DIGITS,
    ),
    Case("SlipwayCanaryWithoutNumbers", "windows have requests", {_WINDOW: "30x30", _ERRORS: "0x30"}, "25m"),
    Case(
        "SlipwayReleaseWaitsForPerson",
        "nobody has approved for five hours",
        {_waits("approval"): "1x400"},
        "300m",
        {**DIGITS, "reason": "approval"},
    ),
    Case(
        "SlipwayReleaseWaitsForPerson",
        "somebody approved after three hours",
        {_waits("approval"): "1x180 0x400"},
        "300m",
    ),
    Case(
        "SlipwayReleaseWaitsForPerson", "it waits on a freeze, for nobody", {_waits("hold"): "1x400"}, "300m"
    ),
    Case(
        "SlipwayFreezeForgotten", "more than a week", {_FREEZE: "0x220"}, "192h", DIGITS, "8d 0h 0m 0s", "1h"
    ),
    Case("SlipwayFreezeForgotten", "some days", {_FREEZE: "0x220"}, "120h", interval="1h"),
    Case(
        "SlipwayFindingOpen",
        "nobody has closed it",
        {_model("slipway_open_findings", check="inputs"): "0x5 1x100"},
        "90m",
        {**DIGITS, "check": "inputs"},
    ),
    Case(
        "SlipwayFindingOpen",
        "the next run found it gone",
        {_model("slipway_open_findings", check="inputs"): "0x5 1x30 0x100"},
        "90m",
    ),
    Case("SlipwayLiveVersionOld", "a hundred days", {_SINCE: "0x110"}, "100d", DIGITS, "100d 0h 0m 0s", "1d"),
    Case("SlipwayLiveVersionOld", "a month", {_SINCE: "0x110"}, "30d", interval="1d"),
)

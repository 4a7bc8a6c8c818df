"""What Prometheus answers, taken apart: raw samples of each series."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slipway_core.errors import MetricsUnavailableError

_TEXT_LIMIT = 300

Samples = Mapping[float, float]


@dataclass(frozen=True)
class RawSeries:
    """One series as it was scraped: its labels, and its values by the moment of the scrape (unix seconds)."""

    labels: Mapping[str, str]
    samples: Samples

    @property
    def key(self) -> str:
        """The name of the series; the buckets of one histogram share theirs."""
        return labels_text({label: value for label, value in self.labels.items() if label != "le"})

    @property
    def newest(self) -> float:
        """The moment of the newest sample."""
        return max(self.samples)


def parse_answer(body: bytes, source: str) -> Any:
    """The `data` of an answer of the HTTP API.

    :param source: who answered; errors name it.
    :raises MetricsUnavailableError: it is no such answer, says that the query failed, or that parts are lacking.
    """
    try:
        answer = json.loads(body)
        status = answer["status"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise unusable_answer(source, "text that is not an answer of Prometheus's HTTP API") from None
    if status != "success":
        raise MetricsUnavailableError(
            f"{source} refused a query",
            expected="the requested samples",
            found=shortened(f"{answer.get('errorType')}: {answer.get('error')}"),
            remedy="print the queries (python -m slipway_core.metrics) and run them there",
        )
    if answer.get("warnings"):
        # So Thanos and Mimir say that a part of their stores did not answer.
        raise MetricsUnavailableError(
            f"{source} gave a partial answer",
            expected="an answer without warnings",
            found=shortened(str(answer["warnings"])),
            remedy="part of the counts is not the count: fix what it warns about",
        )
    return answer.get("data")


def parse_series(data: Any, source: str) -> list[RawSeries]:
    """The series of a query for a range; series without a sample in it are left out.

    :raises MetricsUnavailableError: the data are of another kind.
    """
    try:
        if data["resultType"] != "matrix":
            raise unusable_answer(source, f"a {data['resultType']}, not samples over a range")
        found = []
        for one in data["result"]:
            if one.get("histograms"):
                raise unusable_answer(
                    source, "a native histogram; query the buckets of a classic one (…_bucket)"
                )
            samples = {float(at): float(value) for at, value in one["values"]}
            if samples:
                found.append(RawSeries({str(k): str(v) for k, v in one["metric"].items()}, samples))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise unusable_answer(source, "data that do not have the API's form") from None
    return found


def whole_count(value: float, key: str, source: str) -> int:
    """Return a sample as a count; raise `MetricsUnavailableError` if it is not one."""
    if not math.isfinite(value) or value < 0 or value != int(value):
        raise unusable_answer(source, f"{value} for {shortened(key)}", "a whole, non-negative count")
    return int(value)


def unusable_answer(
    source: str, found: str, expected: str = "samples of counters over a range"
) -> MetricsUnavailableError:
    """Return the error that says what of an answer cannot be used."""
    return MetricsUnavailableError(
        f"{source} gave an unusable answer",
        expected=expected,
        found=found,
        remedy="print the queries (python -m slipway_core.metrics) and check their answers",
    )


def labels_text(labels: Mapping[str, str]) -> str:
    """Return labels as one text, the same for the same ones."""
    return ",".join(f"{label}={labels[label]}" for label in sorted(labels))


def shortened(text: str) -> str:
    """Return a text, cut where it is long."""
    return text if len(text) <= _TEXT_LIMIT else f"{text[: _TEXT_LIMIT - 1]}…"

"""The conditions of an InferenceService's status, as both modes write them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

ConditionStatus = Literal["True", "False", "Unknown"]
# Status, reason and message.
Condition = tuple[ConditionStatus, str, str]
TRUE: Condition = ("True", "", "")
_INFORMATIVE = (
    "CanaryPredictorReady",
    "LatestDeploymentReady",
    "PredictorConfigurationReady",
    "PredictorRouteReady",
    "RoutesReady",
    "Stopped",
)


def with_times(
    conditions: Mapping[str, Condition], previous: Iterable[Mapping[str, Any]], now: str
) -> list[dict[str, Any]]:
    """Return conditions by type as the list that the status has; one whose status holds keeps its time."""
    before = {one["type"]: one for one in previous}
    lines = []
    for kind, (status, reason, message) in conditions.items():
        old = before.get(kind)
        since = old["lastTransitionTime"] if old and old["status"] == status else now
        line = {"type": kind, "status": status, "lastTransitionTime": since}
        if kind in _INFORMATIVE:
            line["severity"] = "Info"
        line |= {key: text for key, text in (("reason", reason), ("message", message)) if text}
        lines.append(line)
    return lines

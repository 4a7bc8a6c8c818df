"""The words with which the real KServe describes an InferenceService's state: conditions, model status, events."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from tests.support.cluster.questions.recorded import RECORDINGS

CONDITIONS = RECORDINGS / "conditions.jsonl"


@dataclass(frozen=True)
class Situation:
    """One moment in the life of an InferenceService, and what its status said then."""

    mode: str
    name: str
    status: Mapping[str, Any]


def situations() -> Iterator[Situation]:
    """Yield the recorded situations."""
    for line in _lines():
        if "situation" in line:
            kept = {key: value for key, value in line.items() if key not in ("mode", "situation")}
            yield Situation(line["mode"], line["situation"], kept)


def words(mode: str) -> set[tuple[str, ...]]:
    """Return (type, status, reason, severity) of every condition that was ever seen in a mode."""
    (found,) = [line["words"] for line in _lines() if line.get("mode") == mode and "words" in line]
    return {tuple(one) for one in found}


def events() -> set[tuple[str, ...]]:
    """Return (type, reason, message, source) of the controller's events about an InferenceService called NAME."""
    (found,) = [line["events"] for line in _lines() if "events" in line]
    return {tuple(one) for one in found}


def told_by(status: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of a status is compared: words, not names and times."""
    model_status = status.get("modelStatus") or {}
    return {
        "conditions": sorted(condition_words(status)),
        "modelStatus": {
            key: model_status[key] for key in ("transitionStatus", "states", "copies") if key in model_status
        },
        "canaryModelStatus": [one.get("modelStatus") for one in status.get("canaryStatuses") or ()],
        "deploymentMode": status.get("deploymentMode"),
        "clusterServingRuntimeName": status.get("clusterServingRuntimeName"),
    }


def condition_words(status: Mapping[str, Any]) -> list[list[str]]:
    """Return (type, status, reason, severity) of each condition."""
    return [
        [one["type"], one["status"], one.get("reason", ""), one.get("severity", "")]
        for one in status.get("conditions") or ()
    ]


@cache
def _lines() -> list[dict[str, Any]]:
    return [json.loads(line) for line in CONDITIONS.read_text(encoding="utf-8").splitlines()]

"""Documents of the read model, made up: a model with a canary under way, one at rest."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from slipway_core.read_model.documents import (
    GateLine,
    ModelDocument,
    OpenRelease,
    RejectionLine,
    VersionLine,
)
from slipway_core.read_model.live import ExposureUsed, LiveDocument, LiveSample, LiveWindow
from slipway_core.read_model.release_view import LogLine, ReleaseView, Required, StepView

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


def ago(**spans: float) -> datetime:
    """Return a moment before `NOW`."""
    return NOW - timedelta(**spans)


def line(version: int, **changed: Any) -> VersionLine:
    """Return a version that was promoted an hour ago."""
    values: dict[str, Any] = {
        "model": "digits",
        "version": version,
        "release_id": f"digits-{version}",
        "outcome": "promoted",
        "standing": "promoted",
        "triggered_by": "admin",
        "started_at": ago(hours=1, minutes=5),
        "finished_at": ago(hours=1),
        "gates": (GateLine(stage="validate", outcome="passed", seconds=3),),
    }
    return VersionLine(**values | changed)


OPEN = OpenRelease(
    version=3,
    release_id="digits-3",
    stage="canary",
    step=2,
    steps=3,
    weights=(20, 50, 99),
    weight_intended=50,
    weight_observed=50,
    verdict="inconclusive",
    triggered_by="admin",
    stable_version=2,
    started_at=ago(minutes=2),
    updated_at=ago(seconds=3),
)


def document(**changed: Any) -> ModelDocument:
    """Return `digits`: version 2 is live, version 3 is in its canary's second step."""
    values: dict[str, Any] = {
        "model": "digits",
        "written_at": ago(seconds=1),
        "live_version": 2,
        "live_since": ago(hours=1),
        "live_promoted_for": "admin",
        "previous_version": 1,
        "versions": (
            line(3, outcome="open", standing="", started_at=ago(minutes=2), finished_at=None),
            line(2),
            line(1, started_at=ago(days=2, minutes=5), finished_at=ago(days=2)),
        ),
        "open_release": OPEN,
        "last": line(2),
    }
    return ModelDocument(**values | changed)


def resting(**changed: Any) -> ModelDocument:
    """Return `digits` with nothing under way: version 3 was refused."""
    refused = line(
        3,
        outcome="refused",
        standing="",
        refused_by="validate",
        reason="accuracy 0.81 is below 0.9",
        rejection=RejectionLine(
            sentence="rejected by its release, at validate", at=ago(minutes=1), stage="validate"
        ),
        started_at=ago(minutes=2),
        finished_at=ago(minutes=1),
    )
    return document(**{"versions": (refused, line(2)), "open_release": None, "last": refused} | changed)


def live(**changed: Any) -> LiveDocument:
    """Return the watch of version 3's canary, in its second step."""
    window = LiveWindow(
        at=ago(seconds=2),
        seconds=2,
        weight=50,
        status="inconclusive",
        reason="too little was seen",
        stable=LiveSample(requests=120, errors=0, p99_ms=3.2),
        candidate=LiveSample(requests=118, errors=1, p99_ms=3.9),
        evidence={"errors": 0.8, "latency": 0.4},
        total_evidence=0.6,
        threshold=100,
        no_worse=12,
        no_worse_threshold=20,
    )
    values: dict[str, Any] = {
        "model": "digits",
        "version": 3,
        "release_id": "digits-3",
        "written_at": ago(seconds=2),
        "step": 2,
        "weights": (20, 50, 99),
        "weight_intended": 50,
        "weight_observed": 50,
        "step_elapsed_s": 4,
        "step_bake_s": 8,
        "max_bake_s": 60,
        "window_s": 2,
        "next_decision_at": NOW + timedelta(seconds=4),
        "exposure": ExposureUsed(requests=1203, errors=1, max_errors=50),
        "verdict": "inconclusive",
        "reason": "too little was seen",
        "windows": (window,),
    }
    return LiveDocument(**values | changed)


def view(of: VersionLine | None = None, **changed: Any) -> ReleaseView:
    """Return the release of version 3 as its page shows it."""
    shown = of or document().versions[0]
    values: dict[str, Any] = {
        "line": shown,
        "open_now": OPEN if shown.outcome == "open" else None,
        "steps": (
            StepView(name="convert", state="done", outcome="passed", seconds=12),
            StepView(name="validate", state="done", outcome="passed", seconds=3),
            StepView(name="canary", state="done", weight=20, outcome="passed", seconds=9),
            StepView(name="canary", state="here", weight=50),
            StepView(name="canary", state="ahead", weight=99),
            StepView(name="promote", state="ahead"),
        ),
        "log": (
            LogLine(
                at=ago(minutes=2),
                seq=1,
                kind="release_started",
                sentence="admin started it",
                release_id="digits-3",
            ),
        ),
        "required": Required(gates=("validate",), weights=(20, 50, 99)),
        "stable_version": 2,
        "evidence": ("models/digits/3/evidence/digits-3/validation.html",),
    }
    return ReleaseView(**values | changed)


def refused_view() -> ReleaseView:
    """Return the release of a version that a gate refused."""
    steps = (
        StepView(name="convert", state="done", outcome="passed", seconds=12),
        StepView(
            name="validate", state="failed", outcome="refused", seconds=3, reason="accuracy 0.81 is below 0.9"
        ),
        StepView(name="promote", state="skipped"),
    )
    return view(resting().versions[0], steps=steps)

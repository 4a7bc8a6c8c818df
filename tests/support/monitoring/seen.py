"""What there is to count, made up: each metric has a series, and some models lack most of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from slipway_core.monitoring.samples import Seen
from slipway_core.read_model.documents import (
    FindingLine,
    FreezeLine,
    ModelDocument,
    OpenRelease,
    Unreadable,
    VersionLine,
)
from slipway_core.read_model.live import ExposureUsed, LiveDocument, LiveSample, LiveWindow

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


def ago(**units: float) -> datetime:
    """Return a moment before now."""
    return NOW - timedelta(**units)


def digits() -> ModelDocument:
    """Return a model of which one version was promoted, one rolled back, and one is in its canary."""
    versions = (
        VersionLine(model="digits", version=3, release_id="digits-3", started_at=ago(hours=1)),
        VersionLine(
            model="digits",
            version=2,
            release_id="digits-2-2",
            attempts=2,
            outcome="rolled_back",
            ended={"rolled_back": 1, "failed": 1},
            started_at=ago(days=2),
            finished_at=ago(days=2, minutes=-30),
            rollback_started_at=ago(days=2, seconds=-100),
            first_bad_at=ago(days=2, seconds=-90),
            weight_0_at=ago(days=2, seconds=-102),
        ),
        VersionLine(
            model="digits",
            version=1,
            release_id="digits-1",
            outcome="promoted",
            ended={"promoted": 1},
            landed_at=ago(days=10),
            started_at=ago(days=10, minutes=-5),
            finished_at=ago(days=10, minutes=-60),
        ),
    )
    return ModelDocument(
        model="digits",
        written_at=ago(minutes=1),
        live_version=1,
        live_since=ago(days=10, minutes=-60),
        versions=versions,
        last=versions[1],
        open_release=OpenRelease(
            version=3,
            release_id="digits-3",
            stage="canary",
            step=1,
            steps=2,
            weights=(5, 50),
            weight_intended=50,
            weight_observed=5,
            verdict="inconclusive",
            held="a freeze",
            started_at=ago(hours=1),
            updated_at=ago(minutes=2),
        ),
        freezes=(
            FreezeLine(by="ada", at=ago(days=1), until=ago(days=-1), reason="holidays"),
            FreezeLine(by="ada", at=ago(days=9), until=ago(days=8), reason="over"),
        ),
        findings=(
            FindingLine(name="1-inputs", check="inputs", version=1, summary="drift", opened_at=ago(days=3)),
            FindingLine(
                name="1-later", check="a check of later", version=1, summary="x", opened_at=ago(days=1)
            ),
        ),
    )


def watch() -> LiveDocument:
    """Return what the watch of its canary wrote."""
    sample = LiveSample(requests=200, errors=1, p50_ms=12.0, p99_ms=80.0)
    window = LiveWindow(
        at=ago(seconds=20),
        seconds=30.0,
        weight=5,
        status="inconclusive",
        stable=sample,
        candidate=LiveSample(requests=10, errors=2, p50_ms=14.0, p99_ms=120.0),
        total_evidence=3.5,
        threshold=100.0,
    )
    return LiveDocument(
        model="digits",
        version=3,
        release_id="digits-3",
        written_at=ago(seconds=20),
        step=1,
        weights=(5, 50),
        weight_intended=50,
        weight_observed=50,
        window_s=30.0,
        exposure=ExposureUsed(requests=410, errors=2, max_requests=1000, max_errors=4),
        paused="a person wants to look",
        windows=(window,),
    )


def every_metric() -> Seen:
    """Return a model with everything, one of which nothing was released yet, and one that cannot be read."""
    magika = ModelDocument(model="magika", written_at=ago(days=1))
    models = {"digits": digits(), "magika": magika, "broken": Unreadable("broken", "it is none")}
    every = FreezeLine(by="ada", at=ago(hours=5), until=ago(hours=-5), reason="the shop is closed")
    return Seen(models, NOW, {"digits": watch()}, (every,))

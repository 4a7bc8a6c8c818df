"""Every reader of foreign input, one file for a kind of input."""

from __future__ import annotations

from benchmarks.fuzz.target import Target
from benchmarks.fuzz.targets import (
    configurations,
    evidence,
    golden_sets,
    intake,
    judges,
    manifests,
    metrics,
    notices,
    operations,
    pods,
    records,
    release_files,
    retention,
    services,
)

TARGETS: tuple[Target, ...] = (
    *configurations.TARGETS,
    *evidence.TARGETS,
    *golden_sets.TARGETS,
    *intake.TARGETS,
    *judges.TARGETS,
    *manifests.TARGETS,
    *metrics.TARGETS,
    *notices.TARGETS,
    *operations.TARGETS,
    *pods.TARGETS,
    *records.TARGETS,
    *release_files.TARGETS,
    *retention.TARGETS,
    *services.TARGETS,
)

"""Every reader of foreign input, one file for a kind of input."""

from __future__ import annotations

from benchmarks.fuzz.target import Target
from benchmarks.fuzz.targets import (
    beginnings,
    configurations,
    evidence,
    foreign_edits,
    golden_sets,
    intake,
    judges,
    manifests,
    metrics,
    notices,
    operations,
    pages,
    pods,
    records,
    registry,
    release_files,
    retention,
    scoring,
    services,
)

TARGETS: tuple[Target, ...] = (
    *beginnings.TARGETS,
    *configurations.TARGETS,
    *evidence.TARGETS,
    *foreign_edits.TARGETS,
    *golden_sets.TARGETS,
    *intake.TARGETS,
    *judges.TARGETS,
    *manifests.TARGETS,
    *metrics.TARGETS,
    *notices.TARGETS,
    *operations.TARGETS,
    *pages.TARGETS,
    *pods.TARGETS,
    *records.TARGETS,
    *registry.TARGETS,
    *release_files.TARGETS,
    *retention.TARGETS,
    *scoring.TARGETS,
    *services.TARGETS,
)

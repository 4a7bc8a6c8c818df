"""The documents of a release's evidence, as they are read again and made into pages."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from benchmarks.fuzz import mutate
from benchmarks.fuzz.target import Target
from benchmarks.fuzz.targets.records import stories
from slipway_core.gates.mirror_comparison import (
    MirrorLimits,
    MirrorReport,
    judge_mirror,
    mirror_evidence,
)
from slipway_core.gates.smoke_test.evidence import smoke_test_evidence
from slipway_core.gates.smoke_test.judge import judge_smoke_test
from slipway_core.gates.smoke_test.report import SmokeTestReport
from slipway_core.record.events import Event
from slipway_core.reports.canary.document import CanaryEvidence
from slipway_core.reports.canary.evidence import canary_evidence
from slipway_core.reports.canary.page import render_canary_html
from slipway_core.reports.canary.recording import recordings
from slipway_core.reports.mirror_page import render_mirror_html
from slipway_core.reports.smoke_test_page import render_smoke_test_html
from slipway_core.reports.validation.page import render_report_html
from slipway_core.spec.rollout.analysis import AnalysisPolicy
from slipway_core.spec.smoke_test import SmokeTest

_LIMITS = MirrorLimits(
    requests=200,
    required=False,
    abs_tolerance=1e-4,
    rel_tolerance=1e-3,
    class_output="y",
    agreement_min=0.9,
    error_percent_max=0.0,
    differ_percent_max=1.0,
)
_COUNTS = {
    "received": 210, "ignored": 5, "dropped": 5, "compared": 198, "equal": 190, "differ": 8, "agree": 198,
    "disagree": 0, "candidate_failed": 2, "stable_failed": 0, "both_failed": 0,
}  # fmt: skip
_LATENCY = {"avg": 1.0, "p50": 1.0, "p90": 2.0, "p99": 3.0}
COMPARISON: dict[str, Any] = {
    "counts": _COUNTS,
    "rows": {"compared": 198, "agree": 198},
    "protocols": {"http": 198},
    "outputs": {"y": {"compared": 198, "differ": 8}},
    "failures": {"candidate": {"HTTP 500": 2}, "stable": {}},
    "latency_ms": {"stable": _LATENCY, "candidate": None},
    "class_changes": [{"stable": 1, "candidate": 2, "rows": 3}],
    "differences": [
        {"request": "0123", "output": "y", "kind": "values", "stable": 1.5, "candidate": "nan", "index": [0, 3],
         "elements": 2, "times": 4}
    ],
    "seconds": 60.0,
}  # fmt: skip
_REPORT: dict[str, Any] = {
    "model": "digits",
    "version": 3,
    "stable_version": 2,
    "created_at": "2026-11-21T03:00:00+00:00",
    "outcome": "fail",
    "kind": "classification",
    "reasons": ["accuracy is at least 90.0%"],
    "numbers": {
        "rows": 360,
        "accuracy": 0.85,
        "accuracy_min": 0.9,
        "mae": 0.1,
        "mae_max": 0.2,
        "not_finite_rows": 1,
    },
    "expectations": [{"type": "expect_x", "kwargs": {}, "meaning": "m", "success": True, "observed": 360}],
    "confusion": {"classes": [0, 1], "counts": [[170, 10], [0, 180]]},
    "worst": [{"row": 7, "label": 1, "predicted": -1, "confidence": None, "stable": 1}],
    "signature": {"inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 64]}], "outputs": []},
}
_PROBE = {
    "name": "NaN",
    "via": "grpc",
    "outcome": "silent",
    "message": "t",
    "ms": 1.0,
    "died": "d",
    "golden": "",
    "log": ["l"],
}
SMOKE: dict[str, Any] = {
    "loads": [{"status": "loaded", "seconds": 0.4, "reason": "", "log": [], "first_request_ms": 2.0}] * 3,
    "server": {"name": "triton", "version": "2.51.0"},
    "steady": {"requests": 40, "answered": 40, "p50_ms": 0.7, "p90_ms": 0.9, "differ": 0},
    "instances": {
        "expected": {"m": 1},
        "seen": {"m": {"m_0": 9}},
        "requests": 16,
        "differ": 1,
        "differences": ["d"],
    },
    "memory": {
        "wanted": 1000,
        "requests": 1000,
        "failed": 0,
        "samples": [[40 * number, 66.0 + number] for number in range(26)],
        "ended": "",
    },
    "robustness": {"probes": [_PROBE, {**_PROBE, "via": "http"}], "left_out": 3, "reason": "r"},
    "gpu": {"before_bytes": 1, "after_bytes": 2},
}
_TEXTS = {**_REPORT, "kind": "text", "worst": [{"row": 7, "expected": "a", "answer": None, "score": 0.5}]}


@cache
def _documents() -> tuple[Any, ...]:
    made = []
    for story in stories():
        evidence = canary_evidence([Event.from_document(event) for event in story], AnalysisPolicy())
        document = evidence.to_document()
        for run in document["runs"]:
            run["windows"] = run["windows"][:6]
        made.append(json.loads(json.dumps(document)))
    return tuple(made)


def _read_document(value: Any) -> None:
    evidence = CanaryEvidence.from_document(value)
    evidence.to_document()
    recordings(evidence)
    render_canary_html(evidence)


def _read_comparison(value: Any) -> None:
    report = MirrorReport.from_json(value)
    evidence = mirror_evidence(
        model="digits",
        version=3,
        stable_version=2,
        release_id="r",
        created_at="2026-01-02T03:04:05+00:00",
        verdict=judge_mirror(report, _LIMITS),
        limits=_LIMITS,
        report=report,
    )
    json.dumps(evidence)
    render_mirror_html(evidence)


def _read_smoke_test(value: Any) -> None:
    report, limits = SmokeTestReport.from_json(value), SmokeTest(gpu_memory_mib_max=10)
    evidence = smoke_test_evidence(
        model="digits",
        version=3,
        release_id="r",
        manifest_sha256="ab",
        created_at="2026-01-02T03:04:05+00:00",
        verdict=judge_smoke_test(report, limits),
        limits=limits,
        report=report,
    )
    json.dumps(evidence, allow_nan=False)
    render_smoke_test_html(evidence)


TARGETS = (
    Target("canary_document", lambda: list(_documents()), mutate.tree, _read_document, share=0.1),
    Target("mirror_report", lambda: [COMPARISON], mutate.tree, _read_comparison),
    Target("smoke_test_report", lambda: [SMOKE], mutate.tree, _read_smoke_test),
    Target("validation_report", lambda: [_REPORT, _TEXTS], mutate.tree, render_report_html),
)

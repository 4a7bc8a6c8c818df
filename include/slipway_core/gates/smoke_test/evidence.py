"""The evidence of a smoke test, for programs and for its page."""

from __future__ import annotations

from typing import Any

from slipway_core.gates.smoke_test.judge import SmokeTestVerdict
from slipway_core.gates.smoke_test.report import SmokeTestReport
from slipway_core.spec.smoke_test import SmokeTest

_LIMITS = (
    "loads",
    "requests",
    "first_request_ratio_max",
    "first_request_floor_ms",
    "memory_growth_mib_max",
    "gpu_memory_mib_max",
    "on_inconclusive",
)


def smoke_test_evidence(
    *,
    model: str,
    version: int,
    release_id: str,
    manifest_sha256: str,
    created_at: str,
    verdict: SmokeTestVerdict,
    limits: SmokeTest,
    report: SmokeTestReport,
) -> dict[str, Any]:
    """Return the evidence, ready for JSON and for `smoke_test_page.render_smoke_test_html`."""
    return {
        "model": model,
        "version": version,
        "release_id": release_id,
        "manifest_sha256": manifest_sha256,
        "created_at": created_at,
        "verdict": verdict.to_dict(),
        "limits": {name: getattr(limits, name) for name in _LIMITS},
        "report": report.model_dump(mode="json"),
    }

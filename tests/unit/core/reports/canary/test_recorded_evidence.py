"""The evidence of a record that was written once: the same bytes, version after version."""

from __future__ import annotations

import json
from pathlib import Path

from slipway_core.canary.judge import AnalysisPolicy
from slipway_core.record.fold import Event
from slipway_core.reports.canary.document import CanaryEvidence
from slipway_core.reports.canary.evidence import canary_evidence
from slipway_core.spec.rollout.plan import RolloutStep

_RECORDED = Path(__file__).parents[4] / "support" / "canary" / "recorded"


def test_a_recorded_canary_has_the_same_evidence_to_the_last_byte() -> None:
    """A run that was broken off, windows without data, replays, a cancellation, windows before there were replays."""
    lines = (_RECORDED / "events.jsonl").read_bytes().splitlines()
    planned = (RolloutStep(weight=5, bake_s=30), RolloutStep(weight=50, bake_s=30))
    policy = AnalysisPolicy(latency_grace_s=0.0, cold_cache_percent=0.0)  # recorded before there were these
    evidence = canary_evidence([Event.from_bytes(line) for line in lines], policy, planned=planned)
    assert json.dumps(evidence.to_document(), indent=1) == (_RECORDED / "canary.json").read_text()


def test_a_document_is_read_and_written_again_to_the_last_byte() -> None:
    """What lies in the store is read as values, those of an older version too, and nothing of it is lost."""
    text = (_RECORDED / "canary.json").read_text()
    evidence = CanaryEvidence.from_document(json.loads(text))
    assert json.dumps(evidence.to_document(), indent=1) == text
    assert [window.source for window in evidence.runs[0].windows] == ["users", "users"]
    assert "source" not in evidence.runs[0].windows[0].window.recorded  # type: ignore[union-attr]

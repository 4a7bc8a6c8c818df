"""The files of a canary's evidence: its page, its data, and the windows to judge again."""

from __future__ import annotations

import json
from collections.abc import Sequence

from slipway_core.record.events import Event
from slipway_core.record.kinds import WindowJudged
from slipway_core.reports.canary.document import DOCUMENT_FILE
from slipway_core.reports.canary.evidence import canary_evidence
from slipway_core.reports.canary.page import render_canary_html
from slipway_core.reports.canary.recording import recordings
from slipway_core.spec.rollout.rollout import Rollout

CANARY_PAGE = "canary.html"


def canary_files(release_id: str, rollout: Rollout, events: Sequence[Event]) -> dict[str, tuple[str, str]]:
    """Return content and content type by file name; empty without a canary.

    :param release_id: the release whose canary it was.
    :param events: of the version's record.
    """
    if not any(isinstance(event.data, WindowJudged) and event.release_id == release_id for event in events):
        return {}
    evidence = canary_evidence(events, rollout.analysis, release_id=release_id, planned=rollout.plan.steps)
    lines = {name: (content, "application/jsonl") for name, content in recordings(evidence).items()}
    return {
        DOCUMENT_FILE: (json.dumps(evidence.to_document(), indent=1), "application/json"),
        CANARY_PAGE: (render_canary_html(evidence), "text/html; charset=utf-8"),
        **lines,
    }

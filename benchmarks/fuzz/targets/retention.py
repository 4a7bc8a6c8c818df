"""What retention reads: InferenceServices, pins, plans, agreements, tombstones."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from benchmarks.fuzz.documents import json_bytes, mutated_json
from benchmarks.fuzz.target import BrokenPromiseError, Target
from slipway_core.bucket_layout import repository_paths
from slipway_core.errors import VersionDeletedError
from slipway_core.operations.audit import GcApproval, require_approved
from slipway_core.operations.gc_run import ModelResult, RunPlan, VersionResult
from slipway_core.operations.names_in_use import versions_named
from slipway_core.operations.pins import Pin, pin_sentence
from slipway_core.operations.retention import ModelFacts, ModelPlan, StoredVersion, plan_retention
from slipway_core.publishing.tombstone import Tombstone, deleted_error
from slipway_core.reports.retention_page import render_retention_html
from slipway_core.spec.retention import Retention

_AT = datetime(2026, 1, 2, tzinfo=UTC)
_NOW = datetime(2026, 6, 2, tzinfo=UTC)
_DIGEST = "a" * 64
_URI = "s3://b/models/digits/3/repository"


def _tree(document: Any) -> Any:
    return json.loads(document.to_bytes())


_PLAN = plan_retention(
    ModelFacts("digits", [StoredVersion(3, 2, 10, _AT), StoredVersion(2, 0, 0, None, _AT)]), Retention(), _NOW
)
_RUN = RunPlan(run="r", started_by="a", dry_run=False, at=_NOW, plans={"digits": _DIGEST})
_RESULT = ModelResult(model="digits", versions=(VersionResult(version=3, outcome="kept", why="x"),))
_APPROVAL = GcApproval(run="r", started_by="a", approved_by="b", at=_AT, plan_sha256=_DIGEST)
_PIN = Pin(by="a", at=_AT, reason="why")
_TOMBSTONE = Tombstone(model="digits", version=3, begun_at=_AT, run="r", plan_sha256=_DIGEST, reason="old")
_SERVICES: tuple[dict[str, Any], ...] = (
    {
        "metadata": {
            "name": "digits",
            "annotations": {"slipway.dev/stable-uri": _URI, "slipway.dev/version": "3"},
        },
        "spec": {"predictor": {"model": {"storageUri": _URI}}, "canary": [{"predictor": {"model": {}}}]},
        "status": {"url": "http://x"},
    },
)


def _read_service(content: bytes) -> None:
    """What stands in a text of an object is found in it."""
    try:
        service = json.loads(content)
    except (ValueError, RecursionError):
        return
    if not isinstance(service, dict):
        return
    found = versions_named("digits", {"any": service, "here": _URI})
    if 3 not in found:
        raise BrokenPromiseError("a version that is named was not found")


def _read_plan(content: bytes) -> None:
    plan = ModelPlan.from_bytes(content, "plan.json")
    render_retention_html(_RUN, [plan], {plan.model: _RESULT}, is_over=True).encode()


def _read_run(content: bytes) -> None:
    render_retention_html(RunPlan.from_bytes(content, "plan.json"), [_PLAN], {}, is_over=False).encode()


def _read_approval(content: bytes) -> None:
    agreed = require_approved(GcApproval.from_bytes(content, "approved.json"), "r", _DIGEST)
    if not agreed.approved_by or agreed.approved_by == agreed.started_by:
        raise BrokenPromiseError("an agreement of one person alone was taken")


def _read_tombstone(content: bytes) -> None:
    """Whatever lies there, the version counts as deleted."""
    if not isinstance(deleted_error(repository_paths("digits", 3), content), VersionDeletedError):
        raise BrokenPromiseError("a tombstone was not taken for one")


TARGETS = tuple(
    Target(
        name,
        lambda trees=trees: [json_bytes(tree) for tree in trees],  # type: ignore[misc]
        lambda rng, _, trees=trees: mutated_json(rng, trees),  # type: ignore[misc]
        read,
        share=share,
    )
    for name, trees, read, share in (
        ("retention_service", _SERVICES, _read_service, 1.0),
        ("retention_plan", (_tree(_PLAN),), _read_plan, 0.3),
        ("retention_run", (_tree(_RUN),), _read_run, 0.3),
        ("retention_result", (_tree(_RESULT),), lambda content: ModelResult.from_bytes(content, "x"), 1.0),
        ("retention_approval", (_tree(_APPROVAL),), _read_approval, 1.0),
        ("retention_pin", (_tree(_PIN),), pin_sentence, 1.0),
        ("retention_tombstone", (_tree(_TOMBSTONE),), _read_tombstone, 1.0),
    )
)

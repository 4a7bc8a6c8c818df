"""Where what is done after the release day lies in the bucket."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Literal

from slipway_core.identifiers import run_folder, validate_model_name

GC_APPROVAL_KEY = "operations/audit/repository_gc-approved.json"
"""Written once: who approved the first real run in this bucket."""

Act = Literal["deletion-begun", "deletion-finished", "pinned", "unpinned", "paused", "resumed"]


GC_PREFIX = "operations/gc/"
"""What runs of `repository_gc` have left, a folder each."""

REVALIDATION_PREFIX = "operations/revalidation/"
"""What runs of `model_revalidation` have left, a folder each."""

OUTBOX_PREFIX = "operations/notices/outbox/"
"""Notices that wait to be delivered, one object each; no collector touches them."""

UNDELIVERED_PREFIX = "operations/notices/undelivered/"
"""Notices that a receiver did not take in the end, with the reason."""

PROBE_PREFIX = "operations/store-probe/"
"""Objects by which it is tried what the store does with conditions; each is removed at once."""

_DUE = "%Y%m%dT%H%M%SZ"
_OUTBOX_NAME = re.compile(r"(?P<due>[0-9]{8}T[0-9]{6}Z)-[0-9a-f]{32}\.json")


def outbox_key(due: datetime, notice_id: str) -> str:
    """Return where a notice waits; keys sort by the time at which it is due, so one listing finds the next one."""
    return f"{OUTBOX_PREFIX}{due.astimezone(UTC).strftime(_DUE)}-{notice_id}.json"


def outbox_due(key: str) -> datetime | None:
    """Return when the notice under this key is due; None: it is the key of none."""
    match = _OUTBOX_NAME.fullmatch(key.removeprefix(OUTBOX_PREFIX))
    try:
        return None if match is None else datetime.strptime(match["due"], _DUE).replace(tzinfo=UTC)
    except ValueError:
        return None


def undelivered_key(notice_id: str) -> str:
    """Return where a notice lies that a receiver did not take."""
    return f"{UNDELIVERED_PREFIX}{notice_id}.json"


def gc_prefix(run_id: str) -> str:
    """Return where a run of `repository_gc` keeps its plan, its results and its page."""
    return f"{GC_PREFIX}{run_folder(run_id)}/"


def run_plan_key(run_id: str) -> str:
    """Return where a run of `repository_gc` keeps what it has shown."""
    return f"{gc_prefix(run_id)}plan.json"


def plan_key(run_id: str, model: str) -> str:
    """Return where a run keeps its plan for a model."""
    return f"{gc_prefix(run_id)}plans/{validate_model_name(model)}.json"


def result_key(run_id: str, model: str) -> str:
    """Return where a run keeps what came of its plan for a model."""
    return f"{gc_prefix(run_id)}results/{validate_model_name(model)}.json"


def pin_prefix(model: str) -> str:
    """Return below which a model's pins lie."""
    return f"operations/pins/{validate_model_name(model)}/"


def revalidation_prefix(run_id: str) -> str:
    """Return where a run of `model_revalidation` keeps its reports and its pages."""
    return f"{REVALIDATION_PREFIX}{run_folder(run_id)}/"


def revalidation_report_key(run_id: str, model: str) -> str:
    """Return where a run keeps its report on a model; the page lies beside it."""
    return f"{revalidation_prefix(run_id)}models/{validate_model_name(model)}.json"


def findings_prefix(model: str) -> str:
    """Return below which a model's findings lie, open ones and closed ones."""
    return f"operations/findings/{validate_model_name(model)}/"


def latency_reference_key(model: str, version: int) -> str:
    """Return where it is kept, once, how fast a version was at its first look."""
    return f"operations/latency/{validate_model_name(model)}/{version}.json"


def audit_key(model: str, version: int, run_id: str, act: Act) -> str:
    """Return where it is kept, once, that a run did something to a version."""
    return f"operations/audit/{validate_model_name(model)}/{version}/{run_folder(run_id)}-{act}.json"
